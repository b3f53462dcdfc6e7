"""Pieces as files: written with a manifest, run in a chain, compared with the original."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import weighted
from onnx import numpy_helper
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.run import ort

NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 8] x) => (float[N, 4] y, int64[N] best) {
        [first] a = MatMul (x, w)  [second] b = Relu (a)
        [third] y = MatMul (b, v)  [fourth] best = ArgMax <axis = 1, keepdims = 0> (y) }"""


def net() -> onnx.ModelProto:
    return weighted(NET, w=(8, 64), v=(64, 4))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(net(), path)
    return path


DATA = [{"x": row[None]} for row in np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)]


def verdicts(found: onnxq.ChainRun) -> dict[str, str]:
    return {entry.output: entry.verdict for entry in found.outputs}


def test_written_and_run(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    written = onnxq.split(model, at=["b"]).save(tmp_path / "out" / "net")
    assert [path.name for path in written] == ["net.0.onnx", "net.1.onnx", "net.split.json"]
    manifest = json.loads(written[-1].read_text("utf-8"))
    assert manifest["model"] == "../net.onnx"
    assert [piece["file"] for piece in manifest["pieces"]] == ["net.0.onnx", "net.1.onnx"]
    assert [piece["nodes"] for piece in manifest["pieces"]] == [2, 2]
    assert manifest["pieces"][1]["inputs"] == [{"name": "b", "dtype": "float32", "shape": ["N", 64]}]
    found = onnxq.run_pieces(written[-1], DATA)
    assert verdicts(found) == {"y": "equal", "best": "equal"}
    assert (found.within, found.samples, found.notes) == (True, 5, ())


def test_the_isolated_pieces_are_for_onnxruntime() -> None:
    split = onnxq.split(net(), at_op=["Relu"])
    assert [piece["runs"] for piece in split.manifest["pieces"]] == ["tensorrt", "onnxruntime", "tensorrt"]


def test_a_difference_is_found(model: Path, tmp_path: Path) -> None:
    *_, manifest = onnxq.split(model, at=["b"]).save(tmp_path / "net")
    piece = onnx.load(tmp_path / "net.1.onnx")
    weights = numpy_helper.to_array(piece.graph.initializer[0]) * np.float32(1.001)
    piece.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "v"))
    onnx.save(piece, tmp_path / "other.onnx")
    found = onnxq.run_pieces(manifest, DATA, use={1: tmp_path / "other.onnx"})
    assert verdicts(found) == {"y": "differs", "best": "equal"}
    assert found.within is False
    assert found.outputs[0].sqnr_db == pytest.approx(60, abs=0.1)  # a thousandth
    loose = onnxq.run_pieces(manifest, DATA, use={1: tmp_path / "other.onnx"}, tolerance=59)
    assert (verdicts(loose)["y"], loose.within) == ("differs", True)
    assert not onnxq.run_pieces(manifest, DATA, use={1: tmp_path / "other.onnx"}, tolerance=61).within
    # an integer must be equal, whatever the bound
    weights = -weights
    piece.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "v"))
    onnx.save(piece, tmp_path / "net.1.onnx")
    assert not onnxq.run_pieces(manifest, DATA, tolerance=-100).within


def test_what_passes_is_saved_and_calibrates_a_piece(model: Path, tmp_path: Path) -> None:
    *_, manifest = onnxq.split(model, at=["b"]).save(tmp_path / "net")
    found = onnxq.run_pieces(manifest, DATA, save=tmp_path / "passed", samples=3)
    assert found.samples == 3
    assert sorted(path.name for path in (tmp_path / "passed").iterdir()) == [f"0000{i}.npz" for i in range(3)]
    with np.load(tmp_path / "passed" / "00001.npz") as saved:
        assert sorted(saved) == ["b", "best", "x", "y"]
        assert np.array_equal(saved["x"], DATA[1]["x"])
        session = ort.load(tmp_path / "net.1.onnx", optimize=False)
        assert np.array_equal(session.run({"b": saved["b"]})[0], saved["y"])
    result = onnxq.quantize(tmp_path / "net.1.onnx", tmp_path / "passed", compile=False)
    assert result.report["calibration"]["samples"] == 2
    with pytest.raises(UserError, match="is not empty"):
        onnxq.run_pieces(manifest, DATA, save=tmp_path / "passed")


def test_without_the_original_the_pieces_just_run(model: Path, tmp_path: Path) -> None:
    *_, manifest = onnxq.split(model, at=["b"]).save(tmp_path / "net")
    model.rename(tmp_path / "moved.onnx")
    found = onnxq.run_pieces(manifest, DATA)
    assert (found.within, found.outputs, found.samples) == (None, (), 5)
    assert is_said(found.notes[0], "pieces.gone")
    found = onnxq.run_pieces(manifest, DATA, original=tmp_path / "moved.onnx")
    assert (found.within, found.notes) == (True, ())
    other = net()
    other.doc_string = "another"
    onnx.save(other, tmp_path / "net.onnx")
    found = onnxq.run_pieces(manifest, DATA)
    assert found.within
    assert "another SHA-256" in found.notes[0]


def test_float16_is_rounded_in_the_whole_as_at_a_cut(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> net (float16[N, 64] x) => (float16[N] y) {
        a = MatMul (x, w)  b = MatMul (a, w)  y = ReduceSum <keepdims = 0> (b, axes) }"""
    model = onnx.parser.parse_model(text)
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axes"))
    onnx.save(model, tmp_path / "half.onnx")
    *_, manifest = onnxq.split(tmp_path / "half.onnx", at=["a"]).save(tmp_path / "half")
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float16)
    found = onnxq.run_pieces(manifest, {"x": x})
    assert found.within
    assert found.outputs[0].equal == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("pieces"), "is no manifest of pieces: the document: Manifest lacks 'pieces'"),
        (lambda m: m["pieces"][0].update(file="gone.onnx"), "there is no piece"),
        (lambda m: m["pieces"].reverse(), "reads 'b', which nothing before it gives"),
        (lambda m: m["pieces"].pop(), "is to give 'y', which nothing before it gives"),
    ],
)
def test_bad_manifests(model: Path, tmp_path: Path, change: Any, message: str) -> None:
    *_, path = onnxq.split(model, at=["b"]).save(tmp_path / "net")
    manifest = json.loads(path.read_text("utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(UserError, match=message):
        onnxq.run_pieces(path, DATA)


def test_nothing_of_the_user_s_is_written_over(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    (tmp_path / "net.1.onnx").write_bytes(b"mine")
    split = onnxq.split(model, at=["b"])
    with pytest.raises(UserError, match=r"net\.1\.onnx' exists, and onnxq did not write it"):
        split.save(tmp_path / "net")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.1.onnx", "net.onnx"]
    split.save(tmp_path / "net", force=True)
    onnxq.split(model, at_op=["Relu"]).save(tmp_path / "net")  # its own it may
    assert (tmp_path / "net.2.onnx").exists()
    model.rename(tmp_path / "net.0.onnx")
    with pytest.raises(UserError, match="is the input"):
        onnxq.split(tmp_path / "net.0.onnx", at=["b"]).save(tmp_path / "net", force=True)
    assert (tmp_path / "net.0.onnx").read_bytes() == before


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model with 3 GB of weights, a sparse file that takes no space."""
    text = """<ir_version: 8, opset_import: ["" : 17]> net (float[N, 16384] x) => (float[N, 16384] y) {
        a = MatMul (x, w)  b = Relu (a)  c = MatMul (b, v)  d = Relu (c)  y = MatMul (d, u) }"""
    model = onnx.parser.parse_model(text)
    size = 16384 * 16384 * 4
    for number, name in enumerate("wvu"):
        tensor = model.graph.initializer.add(name=name, data_type=1, dims=[16384, 16384], data_location=1)
        for key, value in (("location", "w.data"), ("offset", number * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
    (tmp_path / "large.onnx").write_bytes(model.SerializeToString())
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(3 * size)
    return tmp_path / "large.onnx"


def test_weights_of_3_gb_are_never_loaded(large: Path) -> None:
    split = onnxq.split(large, at=["b", "d"])
    weights = [[tensor.name for tensor in piece.model.graph.initializer] for piece in split.pieces]
    assert weights == [["w"], ["v"], ["u"]]
    extract = onnxq.extract(large, start=["b"], end=["d"])
    assert [t.name for t in extract.piece.model.graph.initializer] == ["v"]
    held = [*(piece.model for piece in split.pieces), extract.piece.model]
    assert sum(model.ByteSize() for model in held) < 5000


def test_external_data_goes_with_the_piece_that_reads_it(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    onnx.save(net(), model, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "out").mkdir()
    written = onnxq.split(model, at=["b"]).save(tmp_path / "out" / "net")
    assert {path.name: path.stat().st_size for path in written if path.suffix == ".data"} == {
        "net.0.onnx.data": 8 * 64 * 4,
        "net.1.onnx.data": 64 * 4 * 4,
    }
    assert onnxq.run_pieces(written[-1], DATA).within
    for name in ("net.onnx", "w.bin"):
        os.remove(tmp_path / name)
    assert onnxq.run_pieces(written[-1], DATA).samples == 5


def test_extract_writes_a_model_and_a_report(model: Path, tmp_path: Path) -> None:
    files = onnxq.extract(model, start=["b"], end=["y"]).save(tmp_path / "part.onnx")
    assert [path.name for path in files] == ["part.onnx", "part.report.json"]
    report = json.loads(files[1].read_text("utf-8"))
    assert (report["ops"], [e["name"] for e in report["inputs"]]) == ({"MatMul": 1}, ["b"])
    onnx.checker.check_model(files[0])
    onnxq.extract(model, node="second").save(tmp_path / "part.onnx")
    assert [node.name for node in onnx.load(tmp_path / "part.onnx").graph.node] == ["second"]


@pytest.mark.parametrize("arguments", [{}, {"start": ["a"]}, {"end": ["y"], "node": "first"}])
def test_extract_must_know_what(arguments: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="not clear what to take out"):
        onnxq.extract(net(), **arguments)


def test_split_must_know_where() -> None:
    with pytest.raises(UserError, match="not said where to cut"):
        onnxq.split(net())
