"""Data that call the model's inputs by other names: a lone array, and names that the user states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from polygraphy.json import save_json

import onnxq
from onnxq.base.errors import UserError
from onnxq.data.samples import InputSpec, named
from onnxq.data.sources import open_source

X, Y = (InputSpec(name, np.dtype(np.float32), ("N", 3)) for name in "xy")
LEFT, RIGHT = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)


def fed(data: Any, *inputs: InputSpec) -> dict[str, np.ndarray]:
    """All samples of each input."""
    samples = list(open_source(data, inputs))
    return {spec.name: np.concatenate([sample.feeds[spec.name] for sample in samples]) for spec in inputs}


# -- lone arrays -----------------------------------------------------------------------------------


def test_a_lone_array_is_fed_to_the_only_input_whatever_its_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", LEFT)
    source = open_source(tmp_path / "d.npz", [X])
    assert np.array_equal(np.concatenate([s.feeds["x"] for s in source]), LEFT)
    assert source.notes == [
        "'arr_0', the only array in a file, is fed to input 'x' (assumed; to state it: --input-name x=arr_0)"
    ]


def test_the_first_of_several_files_says_its_name(tmp_path: Path) -> None:
    for index, name in enumerate(("a", "a", "b")):
        np.savez(tmp_path / f"{index}.npz", **{name: LEFT})
    with pytest.raises(UserError, match=r"2\.npz': there is no array named 'x'") as caught:
        open_source(tmp_path, [X])
    assert "--input-name x=NAME" in caught.value.hint
    (tmp_path / "2.npz").unlink()
    assert len(fed(tmp_path, X)["x"]) == 10


def test_it_is_not_guessed_beside_the_right_name_or_others(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x=LEFT)
    np.savez(tmp_path / "1.npz", y=LEFT)
    with pytest.raises(UserError, match=r"1\.npz': there is no array named 'x'"):
        open_source(tmp_path, [X])
    np.savez(tmp_path / "1.npz", x=LEFT, y=RIGHT)
    source = open_source(tmp_path, [X])
    assert (source.count, source.notes) == (10, [])


def test_two_inputs_take_no_lone_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=LEFT)
    with pytest.raises(UserError, match="there is no array named 'y'"):
        open_source(tmp_path / "d.npz", [X, Y])


# -- names that are stated -------------------------------------------------------------------------


def kinds(folder: Path) -> Iterator[tuple[str, Any]]:
    """Data of two inputs that are called left and right, in each form."""
    np.savez(folder / "d.npz", left=LEFT, right=RIGHT)
    yield "npz", folder / "d.npz"
    (folder / "files").mkdir()
    np.savez_compressed(folder / "files" / "0.npz", left=LEFT, right=RIGHT)
    yield "a folder of npz", folder / "files"
    (folder / "apart").mkdir()
    np.save(folder / "apart" / "left.npy", LEFT)
    np.save(folder / "apart" / "right.npy", RIGHT)
    yield "a file for each", folder / "apart"
    cells = [[" ".join(map(repr, map(float, row))) for row in values] for values in (LEFT, RIGHT)]
    rows = [",".join(pair) for pair in zip(*cells, strict=True)]
    (folder / "d.csv").write_text("\n".join(["left,right", *rows]))
    yield "csv", folder / "d.csv"
    save_json([{"left": LEFT, "right": RIGHT}], str(folder / "d.json"))
    yield "json", folder / "d.json"
    (folder / "test_data_set_0").mkdir()
    for number, (name, values) in enumerate((("right", RIGHT), ("left", LEFT))):
        tensor = onnx.numpy_helper.from_array(values, name)
        (folder / "test_data_set_0" / f"input_{number}.pb").write_bytes(tensor.SerializeToString())
    yield "pb", folder / "test_data_set_0"
    yield "arrays", {"left": LEFT, "right": RIGHT}
    yield "iterator", iter([{"left": LEFT, "right": RIGHT}])


def test_stated_names_hold_for_every_kind_of_data(tmp_path: Path) -> None:
    seen = []
    for kind, data in kinds(tmp_path):
        found = fed(data, *named([X, Y], {"x": "left", "y": "right"}))
        assert np.array_equal(found["x"], LEFT), kind
        assert np.array_equal(found["y"], RIGHT), kind
        seen.append(kind)
    assert len(seen) == 8


def test_a_stated_name_that_the_data_lack_is_an_error_in_every_kind(tmp_path: Path) -> None:
    for kind, data in kinds(tmp_path):
        with pytest.raises(UserError) as caught:
            fed(data, *named([X, Y], {"x": "left", "y": "rigth"}))
        assert "rigth" in str(caught.value), kind
        assert "'right" in caught.value.hint, kind


def test_names_may_be_swapped() -> None:
    found = fed({"x": LEFT, "y": RIGHT}, *named([X, Y], {"x": "y", "y": "x"}))
    assert np.array_equal(found["x"], RIGHT)
    assert np.array_equal(found["y"], LEFT)


def test_one_of_several_arrays_for_one_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=LEFT, right=RIGHT)
    assert np.array_equal(fed(tmp_path / "d.npz", *named([X], {"x": "right"}))["x"], RIGHT)


def test_names_that_make_no_sense() -> None:
    with pytest.raises(UserError, match="there is no input 'z'") as caught:
        named([X, Y], {"z": "left"})
    assert "did you mean" in caught.value.hint
    with pytest.raises(UserError) as caught:
        named([X, Y], {"left": "x"})
    assert caught.value.hint == "the model's input stands first: --input-name x=left"
    with pytest.raises(UserError, match="inputs 'x' and 'y' would both be fed from 'y'"):
        named([X, Y], {"x": "y"})


def test_no_other_inputs_array_is_proposed_for_one_that_is_missing() -> None:
    """Each of the arrays is an input's own; a past that nobody gave is none of them."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] ids, float[N, 4] mask, float[N, P, 4] past) => (float[N, P, 4] y) {
            a = Add (ids, mask)  y = Add (a, past) }""")
    row = np.zeros((1, 4), np.float32)
    with pytest.raises(UserError, match="no array named 'past'") as caught:
        onnxq.quantize(model, [{"ids": row, "mask": row}] * 8, compile=False)
    assert caught.value.hint == "Each sample needs an array for every input: add one for 'past'"
