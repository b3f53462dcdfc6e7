"""Models that onnxruntime does not take: refused where NVIDIA's parser refuses them too, else said first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from said import is_said

H = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]> net '
DILATED = """(float[N, 3, 12, W] x) => (float[N, 16, 12, W] y) {
    [first] a = Conv <auto_pad = "SAME_UPPER", dilations = [2, 2]> (x, w)
    [second] b = Conv <auto_pad = "SAME_LOWER", dilations = [1, 3]> (a, v)
    [last] y = Relu (b) }"""
TYPES = "(float[N, 4] x, int64[N, 4] z) => (float[N, 4] y) { [sum] y = Add (x, z) }"
ATTRIBUTE = "(float[N, 4] x) => (float[N, 4] y) { [act] y = Relu <made_up = 1> (x) }"
UNKNOWN = "(float[N, 4] x) => (float[N, 4] y) { [act] y = mine.Mystery (x) }"


def save(folder: Path, body: str) -> None:
    onnx.save(onnx.parser.parse_model(H + body), folder / "net.onnx")


def dilated(folder: Path) -> None:
    model = onnx.parser.parse_model(H + DILATED)
    random = np.random.default_rng(0)
    for name, shape in (("w", (16, 3, 3, 3)), ("v", (16, 16, 2, 3))):
        values = (random.standard_normal(shape) / 8).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, folder / "net.onnx")
    np.savez(folder / "data.npz", x=random.standard_normal((24, 3, 12, 10)).astype(np.float32))


def test_what_nobody_takes_is_refused(tmp_path: Path, onnxq) -> None:
    pytest.importorskip("tensorrt_rtx")
    save(tmp_path, TYPES)
    ran = onnxq("sanitize", "net.onnx")
    assert ran.code == 2, ran.err
    for text in (
        "'net.onnx'",
        "bound to different types",
        "(sum)",
        "NVIDIA's parser",
        "hint: the model is not",
    ):
        assert text in ran.err
    assert not (tmp_path / "net.clean.onnx").exists()
    found = onnxq("check", "net.onnx", "--json", "--no-engine")
    assert found.code == 1
    assert {finding["kind"] for finding in found.json()["findings"]} == {"runtime", "parser"}


def test_what_the_parser_takes_is_said_first(tmp_path: Path, onnxq) -> None:
    save(tmp_path, ATTRIBUTE)
    ran = onnxq("sanitize", "net.onnx")
    assert ran.code == 0, ran.err
    answer, _, behind = ran.out.partition("net.onnx -> ")
    assert is_said(answer, "compiler-not-asked.sanitized")
    assert "Careful" in behind.splitlines()[1]
    assert "Unrecognized attribute: made_up" in " ".join(ran.out.split())


def test_a_valid_model_is_not_refused(tmp_path: Path, onnxq) -> None:
    """onnxruntime knows no batchwise LSTM, TensorRT no strings; ONNX has both."""
    body = """(float[3, 1, 2] x, float[1, 28, 2] w, float[1, 28, 7] r, string[N] s) =>
        (float[3, 1, 1, 7] y, string[N] t) {
            y = LSTM <hidden_size = 7, layout = 1> (x, w, r)  t = Identity (s) }"""
    save(tmp_path, body)
    ran = onnxq("sanitize", "net.onnx")
    assert ran.code == 0, ran.err
    assert "layout == 1" in " ".join(ran.out.split())


def test_an_unknown_operator_is_no_reason(tmp_path: Path, onnxq) -> None:
    save(tmp_path, UNKNOWN)
    ran = onnxq("sanitize", "net.onnx")
    assert ran.code == 0, ran.err
    assert "Careful" not in ran.out


def test_a_dilated_convolution_with_auto_pad_quantizes(tmp_path: Path, onnxq) -> None:
    dilated(tmp_path)
    found = onnxq("check", "net.onnx", "--json", "--no-engine", "--strict")
    assert found.code == 1
    (finding,) = found.json()["findings"]
    assert finding["severity"] == "warning"
    assert "Dilation not supported" in finding["reason"]
    assert is_said(finding["advice"], "runtime.mended/do")
    ran = onnxq("quantize", "net.onnx", "--calib", "data.npz", "--method", "minmax", "--no-engine", "--json")
    assert ran.code == 0, ran.err
    report = ran.json()
    assert report["proved"]["exact"] == 2
    assert report["accuracy"][0]["sqnr_db"] > 30
    assert is_said(ran.err.partition("Careful")[2], "not-in-runtime")
