"""Engines that answer wrongly: which layer it is, on trtexec and on TensorRT's Python module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxq.emit import measure
from tests.measuring.machine import MS, Run, results
from tests.measuring.trtexec import spoiled

STANDIN = Path(__file__).with_name("standin")


class InProcess(measure.Measuring):
    """Engines of a candidate that are wrong at one tensor."""

    def __init__(self, folder: Path, name: str, at: str, *, hides: bool) -> None:
        self.bundle, self.at, self.hides = measure.BundleFolder(folder), at, hides
        self.say, self.builds = lambda line: None, 0
        self.results = {"candidates": {name: {"status": "built", "why": "", "ms": {}}}}

    def save(self) -> None:
        pass

    def built(self, words: list[str]) -> tuple[int, str]:
        self.builds += 1
        self.model = Path(words[0].partition("=")[2]).read_bytes()
        return 0, ""

    def answers(self, name: str, inputs: Any, place: int) -> Any:
        if not name.endswith("marked"):
            self.model = (self.bundle.folder / f"{name}.onnx").read_bytes()
        session = onnxruntime.InferenceSession(spoiled(self.model, self.at, self.hides))
        names = [one.name for one in session.get_outputs()]
        return 0, "", {name: one.ravel() for name, one in zip(names, session.run(None, inputs), strict=True)}


def found(folder: Path, name: str, at: str, *, hides: bool = False) -> tuple[str, str, int]:
    device = InProcess(folder, name, at, hides=hides)
    device.verify(name)
    device.locate(name)
    entry = device.entry(name)
    return entry["status"], entry.get("where", ""), device.builds


def test_a_wrong_layer_is_named(folder: Path) -> None:
    named = wrong = 0
    for name in ("int8", "float16", "without-2", "products"):
        held = measure.Tensors(folder / f"{name}.tensors.npz")
        for one in held.about:
            status, where, builds = found(folder, name, one["name"])
            if status == "wrong":
                wrong += 1
                named += where.startswith(f"{one['node']} ({one['op']}) is the first layer that differs")
                assert builds <= 4
    assert wrong >= 25
    assert named == wrong


def test_what_it_reads_is_saved(folder: Path) -> None:
    held = measure.Tensors(folder / "int8.tensors.npz")
    (place, one) = next(
        (place, one) for place, one in enumerate(held.about) if one["op"] == "Conv" and one["parents"]
    )
    assert found(folder, "int8", one["name"])[0] == "wrong"
    saved = np.load(folder / "int8.wrong.npz")
    assert {held.about[parent]["name"] for parent in one["parents"]} < set(saved)
    assert held.lost(place, saved[one["name"]]) > 25
    assert all(held.lost(parent, saved[held.about[parent]["name"]]) < 5 for parent in one["parents"])
    assert [name for name in saved if name.startswith("input ")]
    assert not list(folder.glob("*.marked.*"))


def test_a_fault_that_hides_where_it_is_looked_at(folder: Path) -> None:
    about = measure.Tensors(folder / "int8.tensors.npz").about
    at = next(one["name"] for one in about if one["op"] == "Conv")
    status, where, _ = found(folder, "int8", at, hides=True)
    assert status == "wrong"
    assert "layers that run together up to" in where


@pytest.mark.parametrize("tool", ["trtexec", "tensorrt"])
def test_a_wrong_engine_is_told_in_the_answer(folder: Path, run: Run, tool: str, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    about = measure.Tensors(folder / "int8.tensors.npz").about
    at = [one for one in about if one["op"] == "Conv"][1]
    words = [] if tool == "trtexec" else ["--tool", tool]
    code, said, _ = run(folder, *words, int8={"wrong_at": at["name"]})
    assert code == 0
    assert said.startswith("Use without-3.onnx: 1.4")
    assert f"; {at['node']} (Conv) is the first layer that differs, by " in said
    times = json.loads((folder / "products.times.json").read_text())
    assert times[1]["averageMs"] == pytest.approx(MS["products"])


@pytest.mark.parametrize("version", [8601, 100300])
def test_the_python_module_alone(folder: Path, run: Run, version: int, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    module = ["--tool", "tensorrt", "--any-version"]
    assert run(folder, *module, version=version, gpu=False)[0] == 2
    code, said, _ = run(folder, *module, version=version, int8={"refuse": True}, products={"crash": True})
    assert code == 0
    status = {name: entry["status"] for name, entry in results(folder)["candidates"].items()}
    assert (status["int8"], status["products"], status["scales"]) == ("refused", "crashed", "right")
    assert "could not find any implementation for node x" in said
    assert results(folder)["tensorrt"] == {8601: "8.6", 100300: "10.3"}[version]


def test_a_graph_that_cannot_be_captured(folder: Path, run: Run, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    code, said, _ = run(folder, "--tool", "tensorrt", int8={"no_graph": True})
    assert (code, said[:18]) == (0, "Use without-3.onnx")


def test_more_outputs_are_as_onnx_writes_them(folder: Path) -> None:
    path = folder / "int8.onnx"
    more = [one for one in measure.Tensors(folder / "int8.tensors.npz").about if not one["output"]]
    model = onnx.load_from_string(measure.with_outputs(path.read_bytes(), more))
    wanted = onnx.load(str(path))
    for one in more:
        wanted.graph.output.add(name=one["name"]).type.tensor_type.elem_type = one["type"]
    assert model == wanted


def test_nvidias_parser_takes_more_outputs(folder: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    about = measure.Tensors(folder / "int8.tensors.npz").about
    path = folder / "marked.onnx"
    path.write_bytes(measure.with_outputs((folder / "int8.onnx").read_bytes(), about[:-1]))
    _, network, _ = measure.PythonTool("tensorrt_rtx", [f"--onnx={path}"]).network()
    assert {network.get_output(n).name for n in range(network.num_outputs)} == {one["name"] for one in about}


def test_shapes_and_quoted_names() -> None:
    said = measure.read_shapes("x:1x3x8x8,'y:0':1x4,z:7")
    assert said == {"x": (1, 3, 8, 8), "y:0": (1, 4), "z": (7,)}
    assert [measure.quoted(name) for name in said] == ["x", "'y:0'", "z"]


class Erratic(InProcess):
    """An engine whose tensors are wrong at random, others each time."""

    def answers(self, name: str, inputs: Any, place: int) -> Any:
        code, said, found = super().answers(name, inputs, place)
        draw = np.random.default_rng(self.builds)
        return code, said, {one: values * draw.choice([-1.0, 1.0]) for one, values in found.items()}


@pytest.mark.parametrize("name", ["int8", "float16", "without-2"])
def test_the_search_ends_whatever_an_engine_answers(folder: Path, name: str) -> None:
    about = measure.Tensors(folder / f"{name}.tensors.npz").about
    for one in about[::5]:
        device = Erratic(folder, name, one["name"], hides=False)
        device.entry(name).update(status="wrong", outputs_db={"logits": 3.0})
        device.locate(name)
        assert device.builds <= 12
        assert "where" in device.entry(name)


def test_what_rounding_alone_changes_counts_for_nothing(folder: Path) -> None:
    held = measure.Tensors(folder / "int8.tensors.npz")
    place = len(held.about) - 1
    found = held.values[place] + np.float32(0.1) * held.values[place].std()  # 20 dB
    held.about[place]["level"] = 99.9
    assert held.lost(place, found) == pytest.approx(20, abs=0.1)
    held.about[place]["level"] = 22.0
    assert held.lost(place, found) == pytest.approx(2, abs=0.1)


def test_what_pairs_give_is_not_looked_at(folder: Path) -> None:
    about = measure.Tensors(folder / "int8.tensors.npz").about
    assert not {one["op"] for one in about} & {"QuantizeLinear", "DequantizeLinear"}


def test_values_are_taken_from_all_over_a_tensor() -> None:
    some = measure.sampled(np.arange(70_000))
    assert len(set(some.tolist())) == measure.SAMPLED
    assert all(((some >= low) & (some < low + 10_000)).any() for low in range(0, 70_000, 10_000))
