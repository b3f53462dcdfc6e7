"""What the benchmark of engines says of a net, and the scales that it makes safe."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from benchmarks import engine
from benchmarks.corpus_score import without_qdq
from benchmarks.safe_scales import safe_scales
from onnxq.run import ort, trt

HEAD = '<ir_version: 8, opset_import: ["" : 19]>'


def quantized(scales: np.ndarray) -> onnx.ModelProto:
    """A float16 MatMul of [4, 8] and [8, 6]; the weights are quantized in the file."""
    axis = " <axis = 1>" if scales.ndim else ""
    model = parser.parse_model(
        f"""{HEAD} g (float16[4, 8] x) => (float16[4, 6] y) {{
        a = QuantizeLinear (x, sx, z)  b = DequantizeLinear (a, sx, z)
        c = QuantizeLinear{axis} (weights, sw, zw)  d = DequantizeLinear{axis} (c, sw, zw)
        [product] y = MatMul (b, d) }}"""
    )
    given = {
        "sx": np.array(0.02, np.float16),
        "z": np.array(0, np.int8),
        "sw": scales.astype(np.float16),
        "zw": np.zeros(scales.shape, np.int8),
        "weights": np.random.default_rng(0).standard_normal((8, 6)).astype(np.float16),
    }
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
    return model


def test_scales_by_channel_become_float32() -> None:
    before = quantized(np.linspace(0.01, 0.03, 6))
    after = safe_scales(before)
    assert after is not None
    onnx.checker.check_model(after, full_check=True)
    types = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    pairs = [node for node in after.graph.node if node.op_type.endswith("Linear")]
    assert [types[node.input[1]] for node in pairs] == [onnx.TensorProto.FLOAT] * 4
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 8)).astype(np.float16)}
    want, got = (ort.load(model, optimize=False).run(feeds)[0] for model in (before, after))
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)
    assert safe_scales(after) is None


def test_one_scale_is_safe() -> None:
    assert safe_scales(quantized(np.array(0.02))) is None


def test_casts_of_weights_are_constants() -> None:
    """So that a layer of a half body counts as one."""
    after = safe_scales(quantized(np.linspace(0.01, 0.03, 6)))
    assert after is not None
    bare = without_qdq(after)
    product = next(node for node in bare.graph.node if node.name == "product")
    weights = next(tensor for tensor in bare.graph.initializer if tensor.name == product.input[1])
    assert (weights.data_type, list(weights.dims)) == (onnx.TensorProto.FLOAT16, [8, 6])


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_rows_of_a_net(tmp_path: Path) -> None:
    """Attention that float16 fuses and float32 does not, and a layer that only onnxq makes int8."""
    model = parser.parse_model(
        f"""{HEAD} g (float[1, 4, 64, 32] x) => (float[1, 4, 64, 32] y) {{
        h = MatMul (x, w)  c = Tanh (x)  t = Transpose <perm = [0, 1, 3, 2]> (c)  s = MatMul (h, t)
        p = Softmax <axis = -1> (s)  y = MatMul (p, c) }}"""
    )
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32) / 6
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    (net,) = engine._nets(tmp_path, ["n*"])
    assert list(engine._nets(tmp_path, ["m*"])) == []
    arguments = argparse.Namespace(targets=["tensorrt-rtx"], set={}, keep=tmp_path / "kept", json=None)
    half, int8 = engine._bench(net, arguments, [])
    assert (half["tool"], half["int8"], half["fused_attention"]) == ("fp16", 0.0, 1)
    assert (int8["tool"], int8["int8"], int8["attention"]) == ("onnxq tensorrt-rtx", 1.0, 1)
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        "net.fp16.onnx",
        "net.onnxq.tensorrt-rtx.onnx",
    }
    assert engine._cells(half)[2] == "1 of 1"
