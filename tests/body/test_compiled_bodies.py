"""NVIDIA's compiler builds bodies, with islands in them and around int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.body.bounds import needed
from onnxq.body.convert import to_half
from onnxq.body.formats import KINDS, Kind
from onnxq.body.islands import islands
from onnxq.graph.model import Model
from onnxq.run import trt

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RNG = np.random.default_rng(0)

pytestmark = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")

ATTENTION = """g (float[1, 64, 32] x, int64[1, 1, 64] m) => (float[1, 64, 32] y)
    <float one = {1}, float low = {-3.4e38}, float two = {2}, float eps = {1e-5}, float s = {0.05},
     int8 z = {0}> {
    f = Cast <to = 1> (m)  i = Sub (one, f)  j = Mul (i, low)
    n = ReduceMean <axes = [-1]> (x)  d = Sub (x, n)  e = Pow (d, two)  v = ReduceMean <axes = [-1]> (e)
    o = Add (v, eps)  r = Sqrt (o)  h = Div (d, r)
    a = QuantizeLinear (h, s, z)  b = DequantizeLinear (a, s, z)
    w = DequantizeLinear <axis = 1> (codes, scales, zeros)  q = MatMul (b, w)
    t = Transpose <perm = [0, 2, 1]> (q)  c = MatMul (q, t)  k = Add (c, j)
    p = Softmax <axis = -1> (k)  g = MatMul (p, q)  y = Add (g, x) }"""


@pytest.mark.parametrize("kind", KINDS)
def test_attention_with_its_mask_and_its_norm(kind: Kind, tmp_path: Path) -> None:
    proto = parser.parse_model(HEAD + ATTENTION)
    given = {
        "codes": RNG.integers(-127, 128, (32, 32)).astype(np.int8),
        "scales": np.full(32, 1e-3, np.float32),
        "zeros": np.zeros(32, np.int8),
    }
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
    model = Model.open(proto)
    found = islands(model, kind, dict.fromkeys(needed(model), (-1.0, 1.0)))
    body = to_half(model, kind, found.stays, masks=found.masks.sources)
    path = tmp_path / "body.onnx"
    onnx.save(body.model.to_proto(), path)
    engine = trt.compile_engine(path)
    assert engine.status == "compiled", engine.reason
    assert {"c", "k", "p", "g"} <= body.halved
    wide = [layer for layer in engine.layers if layer.is_matrix and layer.inputs[0].dtype == "fp32"]
    assert wide == []
    layer = trt.int8_of(engine, ["q"])["q"]
    assert layer is not None
    assert layer.multiplies("int8")


def test_bodies_of_control_flow(tmp_path: Path) -> None:
    model = parser.parse_model(
        HEAD
        + """g (float[4, 4] x, bool c) => (float[4, 4] y) <float w = {3}> {
        a = Exp (x)
        b = If (c) <then_branch = t () => (float[4, 4] p) { i = Mul (a, w)  p = Relu (i) },
                    else_branch = e () => (float[4, 4] q) { h = MatMul (a, x)  q = Identity (h) }>
        y = Neg (b) }"""
    )
    path = tmp_path / "body.onnx"
    for kind in KINDS:
        onnx.save(to_half(Model.open(model), kind, {}).model.to_proto(), path)
        engine = trt.compile_engine(path)
        assert engine.status == "compiled", engine.reason


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_with_lengths(op: str, gates: int, tmp_path: Path) -> None:
    """They are float32, as the compiler builds none in half precision; without lengths they are half."""
    for lengths in ("", "n"):
        proto = parser.parse_model(
            HEAD
            + f"""g (float[6, 1, 16] x, int32[1] n) => (float[6, 1, 1, 8] y) {{
            h = {op} <hidden_size = 8> (x, w, r, b{", " + lengths if lengths else ""})  y = Relu (h) }}"""
        )
        shapes = {"w": (1, 8 * gates, 16), "r": (1, 8 * gates, 8), "b": (1, 16 * gates)}
        given = {name: RNG.standard_normal(shape, np.float32) for name, shape in shapes.items()}
        proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
        proto.graph.node[0].name = op
        body = to_half(Model.open(proto), "fp16", {})
        assert (op in body.halved) == (not lengths)
        path = tmp_path / "body.onnx"
        onnx.save(body.model.to_proto(), path)
        engine = trt.compile_engine(path)
        assert engine.status == "compiled", engine.reason


@pytest.mark.parametrize("io", [False, True])
def test_a_cache_stays_an_input(io: bool, tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 24]>'
        """g (float[1, 4, 1, 16] x, float[1, 4, 32, 16] c, int64[1] at)
            => (float[1, 4, 32, 16] d, float[1, 4, 32, 16] y) {
        u = Sigmoid (x)  d = TensorScatter (c, u, at)  y = Sigmoid (d) }"""
    )
    model.graph.node[1].name = "scatter"
    body = to_half(Model.open(model), "fp16", {}, io=io)
    assert ("scatter" in body.halved) == io
    path = tmp_path / "body.onnx"
    onnx.save(body.model.to_proto(), path)
    engine = trt.compile_engine(path)
    assert engine.status == "compiled", engine.reason
