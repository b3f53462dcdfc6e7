"""Tensors without values in all samples, an empty cache say: what reads them stays in float, the rest not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run
from said import is_said

RANDOM = np.random.default_rng(0)
CACHE = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 16, 32] x, float[1, 16, P] cache) => (float[1, 16, U] y) {
        [moved] m = Identity (cache)  [join] c = Concat <axis = 2> (m, x)
        [first] a = Conv <pads = [1, 1]> (c, w)  b = Relu (a)  [second] y = Conv <pads = [1, 1]> (b, v) }"""


def saved(folder: Path) -> None:
    model = onnx.parser.parse_model(CACHE)
    for name in "wv":
        values = RANDOM.normal(0, 0.1, (16, 16, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, folder / "net.onnx")
    (folder / "data").mkdir()
    for index in range(16):
        x = RANDOM.normal(size=(1, 16, 32)).astype(np.float32)
        np.savez(folder / "data" / f"{index:02}.npz", x=x, cache=x[:, :, :0])


def test_what_reads_a_tensor_without_values_stays_in_float(tmp_path: Path) -> None:
    saved(tmp_path)
    ran = run(
        tmp_path, "quantize", "net.onnx", "--calib", "data", "-o", "q.onnx", "--no-engine", "--body", "fp32"
    )
    assert ran.code == 0, ran.err
    assert is_said(ran.out, "empty-tensor", tensor="cache")
    made = onnx.load(tmp_path / "q.onnx")
    quantized = {node.input[0] for node in made.graph.node if node.op_type == "QuantizeLinear"}
    assert "c" in quantized
    assert not quantized & {"cache", "m", "x"}
    # The range of what is joined is that of the part with values.
    scale = next(one for one in made.graph.initializer if one.name == "c_scale")
    assert 0 < onnx.numpy_helper.to_array(scale) < 5 / 127


def test_statistics_say_it_as_data_do(tmp_path: Path) -> None:
    saved(tmp_path)
    assert run(tmp_path, "calibrate", "net.onnx", "--calib", "data", "-o", "x.stats.npz").code == 0
    ran = run(tmp_path, "quantize", "net.onnx", "--stats", "x.stats.npz", "-o", "q.onnx", "--no-engine")
    assert ran.code == 0, ran.err
    assert is_said(ran.out, "empty-tensor", tensor="cache")


@pytest.mark.parametrize("format", ["fp8", "int8,fp8"])
def test_other_formats_too(format: str, tmp_path: Path) -> None:
    saved(tmp_path)
    flags = ["--calib", "data", "-o", "q.onnx", "--no-engine", "--format", format]
    ran = run(tmp_path, "quantize", "net.onnx", *flags)
    assert ran.code == 0, ran.err
    assert is_said(ran.out, "empty-tensor", tensor="cache")
