"""One weight scale, and the channels' ratio behind the product: the same codes, numbers within rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxq.body.convert import to_half
from onnxq.body.emulate import Emulated
from onnxq.graph.model import Model
from onnxq.quant.post_scale import PostScaled, post_scale
from onnxq.run import ort, trt

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RNG = np.random.default_rng(0)
PAIR = "q = QuantizeLinear (x, sx, zx)  d = DequantizeLinear (q, sx, zx)"


def model_of(text: str, shape: tuple[int, ...], axis: int, **more: np.ndarray) -> onnx.ModelProto:
    """A quantized model: weights `codes` of this shape, with a scale for each index of an axis."""
    model = parser.parse_model(HEAD + text)
    codes = RNG.integers(-127, 128, shape).astype(np.int8)
    np.moveaxis(codes, axis, 0)[1] = 0  # a channel without weights, whose scale says nothing
    scales = np.exp(RNG.uniform(-9, -4, shape[axis])).astype(np.float32)
    scales[1] = 1
    given = {
        "codes": codes,
        "sw": scales,
        "zw": np.zeros(shape[axis], np.int8),
        "sx": np.array(0.02, np.float32),
        "zx": np.array(0, np.int8),
        **more,
    }
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
    return model


def weights(axis: int) -> str:
    return f"{PAIR}  w = DequantizeLinear <axis = {axis}> (codes, sw, zw)"


def sqnr_db(want: np.ndarray, got: np.ndarray) -> float:
    noise = float(((want - got).astype(np.float64) ** 2).sum())
    return float(10 * np.log10(float((want.astype(np.float64) ** 2).sum()) / noise))


def changed(model: onnx.ModelProto) -> tuple[Model, PostScaled]:
    opened = Model.open(model)
    return opened, post_scale(opened)


BIAS = {"b": RNG.standard_normal(6).astype(np.float32)}
FORMS = {
    "conv": (
        f"g (float[2, 8, 9, 9] x) => (float[2, 6, 9, 9] y) {{ {weights(0)}"
        "  y = Conv <pads = [1, 1, 1, 1]> (d, w, b) }",
        (6, 8, 3, 3),
        0,
        BIAS,
    ),
    "conv of one dimension, in groups": (
        f"g (float[2, 8, 9] x) => (float[2, 6, 9] y) {{ {weights(0)}  y = Conv <group = 2> (d, w) }}",
        (6, 4, 1),
        0,
        {},
    ),
    "gemm": (
        f"g (float[5, 8] x) => (float[5, 6] y) {{ {weights(0)}"
        "  y = Gemm <transB = 1, alpha = 0.5, beta = 3.0> (d, w, b) }",
        (6, 8),
        0,
        BIAS,
    ),
    "gemm, not transposed": (
        f"g (float[5, 8] x) => (float[5, 6] y) {{ {weights(1)}  y = Gemm (d, w) }}",
        (8, 6),
        1,
        {},
    ),
    "matmul": (
        f"g (float[2, 5, 8] x) => (float[2, 5, 6] y) {{ {weights(1)}  m = MatMul (d, w)  y = Add (m, b) }}",
        (8, 6),
        1,
        BIAS,
    ),
    "matmul from the left": (
        f"g (float[2, 8, 5] x) => (float[2, 6, 5] y) {{ {weights(0)}  y = MatMul (w, d) }}",
        (6, 8),
        0,
        {},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_stay(form: str) -> None:
    text, shape, axis, more = FORMS[form]
    before = model_of(text, shape, axis, **more)
    after, result = changed(before)
    assert (len(result.layers), dict(result.left)) == (1, {})
    proto = after.to_proto()
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    nodes = {node.op_type: node for node in proto.graph.node}
    scale = next(held[n.input[1]] for n in proto.graph.node if n.input[0] == "codes")
    assert scale.shape == ()
    assert len(nodes["Mul"].input) == 2
    x = {"x": RNG.standard_normal([d.dim_value for d in before.graph.input[0].type.tensor_type.shape.dim])}
    feeds = {"x": x["x"].astype(np.float32)}
    (want,) = ort.load(before, optimize=False).run(feeds)
    (got,) = ort.load(proto, optimize=False).run(feeds)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * float(np.abs(want).max()))
    (half,) = Emulated(to_half(after, "fp16", {}).model.to_proto()).run(feeds)
    assert sqnr_db(want, half) > 52


def test_layers_that_are_named() -> None:
    text = f"""g (float[5, 8] x) => (float[5, 6] y, float[5, 6] z) {{ {weights(1)}
        v = DequantizeLinear <axis = 1> (codes, sw, zw)
        y = MatMul (d, w)  n = Neg (d)  z = MatMul (n, v) }}"""
    opened = Model.open(model_of(text, (8, 6), 1))
    before = opened.to_proto()
    assert post_scale(opened, []).layers == ()
    assert opened.to_proto() == before
    assert post_scale(opened, ["z"]).layers == ("z",)
    assert post_scale(opened).layers == ("y",)
    assert post_scale(opened) == PostScaled((), {})


def test_what_keeps_its_form() -> None:
    text = f"""g (float[5, 8] x, float[6] b, float[8] f) => (float[5, 6] y, float[5, 6] z, float[8, 6] u) {{
        {weights(1)}  y = MatMul (d, w)  u = Relu (w)
        v = DequantizeLinear <axis = 1> (codes, sw, zw)  z = Gemm (d, v, b) }}"""
    opened = Model.open(model_of(text, (8, 6), 1))
    before = opened.to_proto()
    assert {name: why.code for name, why in post_scale(opened).left.items()} == {
        "y": "shared-weights",
        "z": "computed-bias",
    }
    assert opened.to_proto() == before


def test_two_layers_of_the_same_weights() -> None:
    text = f"""g (float[5, 8] x) => (float[5, 6] y, float[5, 6] z) {{ {weights(1)}
        y = MatMul (d, w)  n = Neg (d)  z = MatMul (n, w) }}"""
    before = model_of(text, (8, 6), 1)
    after, result = changed(before)
    assert result.layers == ("y", "z")
    feeds = {"x": RNG.standard_normal((5, 8)).astype(np.float32)}
    want, got = (ort.load(m, optimize=False).run(feeds) for m in (before, after.to_proto()))
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


TWO = f"""g (float[5, 8] x) => (float[5, 6] y, float[5, 6] z) {{ {weights(1)}
    v = DequantizeLinear <axis = 1> (codes2, sw2, zw)  y = MatMul (d, w)  z = {{op}} (d, v{{bias}}) }}"""


def two(op: str = "MatMul", bias: str = "") -> Model:
    more = {
        "codes2": RNG.integers(-127, 128, (8, 6)).astype(np.int8),
        "sw2": np.array([2e-3, 1e-2, 5e-3, 4e-3, 3e-3, 2e-3], np.float32),
    }
    text = TWO.replace("{op}", op).replace("{bias}", bias)
    text = text.replace("float[5, 8] x", "float[5, 8] x, float[6] b") if bias else text
    return Model.open(model_of(text, (8, 6), 1, **more))


def test_products_of_one_tensor_have_one_scale() -> None:
    """The compiler makes one of them then."""
    after = two()
    want, feeds = after.to_proto(), {"x": RNG.standard_normal((5, 8)).astype(np.float32)}
    assert post_scale(after).layers == ("y", "z")
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in after.to_proto().graph.initializer}
    scales = {
        n.input[0]: held[n.input[1]] for n in after.to_proto().graph.node if n.input[0].startswith("codes")
    }
    assert scales["codes"] == scales["codes2"]
    for one, other in zip(
        *(ort.load(m, optimize=False).run(feeds) for m in (want, after.to_proto())), strict=True
    ):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_products_of_one_tensor_have_one_form() -> None:
    """Of both forms the compiler makes one product too, and fails."""
    for model, layers, left in (
        (two(), ["y"], {"y": "together"}),
        (two("Gemm", ", b"), None, {"y": "together", "z": "computed-bias"}),
    ):
        before = model.to_proto()
        result = post_scale(model, layers)
        assert (result.layers, {name: why.code for name, why in result.left.items()}) == ((), left)
        assert model.to_proto() == before


def test_a_channel_of_next_to_no_weights_does_not_spoil_the_others() -> None:
    text, shape, axis, _ = FORMS["conv of one dimension, in groups"]
    before = model_of(text, shape, axis)
    for tensor in before.graph.initializer:
        if tensor.name == "sw":
            scales = np.array([1e-2, 1, 1e-20, 1e-2, 2e-2, 5e-3], np.float32)
            tensor.CopyFrom(numpy_helper.from_array(scales, "sw"))
    after, _ = changed(before)
    feeds = {"x": RNG.standard_normal((2, 8, 9)).astype(np.float32)}
    (want,) = ort.load(before, optimize=False).run(feeds)
    half = to_half(after, "fp16", {})
    assert not any(name.endswith("_Mul") for name in half.stays)
    (got,) = Emulated(half.model.to_proto()).run(feeds)
    assert sqnr_db(want, got) > 52


def test_products_of_great_sums_are_finite_in_float16() -> None:
    """The last channels reach 127 x 127 x 64 x 0.02 = 20,645; before a ratio of 1 to 10 it is 206,450."""
    text = FORMS["gemm"][0]
    text = text.replace("alpha = 0.5", "alpha = 1.0").replace(", b)", ")").replace("[5, 8]", "[5, 64]")
    before = model_of(text, (6, 64), 0)
    given = {"codes": np.full((6, 64), 127, np.int8), "sw": np.array([100, 1, 1, 1, 1, 1], np.float32)}
    given["codes"][0] = 0
    given["codes"][0, 0] = 1
    for tensor in before.graph.initializer:
        if tensor.name in given:
            tensor.CopyFrom(numpy_helper.from_array(given[tensor.name], tensor.name))
    after, _ = changed(before)
    feeds = {"x": np.full((5, 64), 9, np.float32)}
    (want,) = ort.load(before, optimize=False).run(feeds)
    (got,) = Emulated(to_half(after, "fp16", {}).model.to_proto()).run(feeds)
    assert np.abs(want).max() == pytest.approx(20645, rel=1e-3)
    assert sqnr_db(want, got) > 52


def test_products_at_the_bound_are_finite_in_float16() -> None:
    """200 random products of the greatest codes of one sign, whose sums float16 does not hold by far."""
    random, ended = np.random.default_rng(7), 0
    for _ in range(200):
        terms, outputs = (int(size) for size in np.exp(random.uniform([3, 1], [8, 4])))
        text = f"""g (float[1, {terms}] x) => (float[1, {outputs}] y) {{ {weights(1)}  y = MatMul (d, w) }}"""
        signs = random.choice([-1, 1], (terms, 1))
        codes = signs * random.integers(100, 128, (terms, outputs))
        scales = np.exp(random.uniform(-3, 3, outputs))
        step = np.exp(random.uniform(-9, 3))
        scales *= random.uniform(0.1, 0.99) * 65504 / (127 * step * np.abs(codes).sum(axis=0) * scales).max()
        given = {"codes": codes.astype(np.int8), "sw": scales.astype(np.float32)}
        before = model_of(text, (terms, outputs), 1)
        given["sx"] = np.array(step, np.float32)
        for tensor in before.graph.initializer:
            if tensor.name in given:
                tensor.CopyFrom(numpy_helper.from_array(given[tensor.name], tensor.name))
        after, result = changed(before)
        assert result.layers
        feeds = {"x": (signs.T * given["sx"] * 127).astype(np.float32)}
        (want,) = ort.load(before, optimize=False).run(feeds)
        (got,) = Emulated(to_half(after, "fp16", {}).model.to_proto()).run(feeds)
        assert np.isfinite(got).all()
        assert sqnr_db(want, got) > 52
        ended += int(127 * np.abs(codes).sum(axis=0).max() > 65504)
    assert ended > 150


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_engine_writes_half_precision(tmp_path: Path) -> None:
    text = f"""g (float[1, 32, 32, 32] x) => (float[1, 32, 32, 32] y) {{ {weights(0)}
        c = Conv <pads = [1,1,1,1]> (d, w)  y = Relu (c) }}"""
    model = Model.open(model_of(text, (32, 32, 3, 3), 0))
    written = []
    for form in ("per channel", "post-scale"):
        if form == "post-scale":
            post_scale(model)
        path = tmp_path / "model.onnx"
        onnx.save(to_half(model, "fp16", {}).model.to_proto(), path)
        engine = trt.compile_engine(path)
        assert engine.status == "compiled", engine.reason
        layer = trt.int8_of(engine, ["c"])["c"]
        assert layer is not None
        assert layer.multiplies("int8")
        written.append(layer.outputs[0].dtype)
    assert written == ["fp32", "fp16"]
