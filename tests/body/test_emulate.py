"""The emulation rounds and overflows where half precision does, and finds what has to stay float32."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from said import is_said

from onnxq.body.convert import to_half
from onnxq.body.emulate import Emulated, losses
from onnxq.body.measured_body import MeasuredBody, settle
from onnxq.graph.model import Model

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RNG = np.random.default_rng(0)


def model_of(text: str, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return model


def settled(
    model: onnx.ModelProto, *samples: dict[str, np.ndarray], kind: str = "fp16", **more: object
) -> MeasuredBody:
    return settle(Model.open(model), kind, {}, samples, **more)  # type: ignore[arg-type]


def test_a_square_overflows_between_two_nodes() -> None:
    model = model_of("g (float[N] x) => (float[N] y) { a = Mul (x, x)  y = Sqrt (a) }")
    x = np.array([200, 300], np.float32)
    half = to_half(Model.open(model), "fp16", {}).model.to_proto()
    (got,) = Emulated(half).run({"x": x})
    assert got.tolist() == [200, math.inf]
    wide = to_half(Model.open(model), "bf16", {}).model.to_proto()
    (got,) = Emulated(wide).run({"x": x})
    assert got[1] == pytest.approx(300, rel=2**-7)


def test_sums_inside_a_node_are_float32() -> None:
    weights = np.full((4096, 1), 16, np.float32)
    model = model_of("g (float[1, 4096] x) => (float[1, 1] y) { y = MatMul (x, w) }", w=weights)
    half = to_half(Model.open(model), "fp16", {}).model.to_proto()
    x = np.where(np.arange(4096) % 2, 16, -16).astype(np.float32)[None]
    x[0, :2048] = np.abs(x[0, :2048])  # partial sums go up to 524,288
    x[0, 2048:] = -np.abs(x[0, 2048:])
    x[0, 0] = 17
    (got,) = Emulated(half).run({"x": x})
    assert got.item() == 16


def test_int8_nodes_are_computed_as_they_are() -> None:
    model = model_of("""g (float[N] x) => (float[N] y) <float s = {0.1}, int8 z = {0}> {
        q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  y = Add (d, d) }""")
    half = to_half(Model.open(model), "fp16", {}).model.to_proto()
    x = np.array([0.34, -5.06], np.float32)
    (got,) = Emulated(half).run({"x": x})
    codes = np.float16(np.rint(x / np.float32(0.1)) * np.float32(0.1))
    assert np.array_equal(got, (codes + codes).astype(np.float32))


def test_losses_of_tensors() -> None:
    model = model_of("g (float[N] x) => (float[N] y) { a = Mul (x, x)  b = Exp (x)  y = Add (a, b) }")
    half = to_half(Model.open(model), "fp16", {}).model.to_proto()
    found = losses(model, half, {"a": 8, "b": 8, "y": 8}, [{"x": np.array([1, 300], np.float32)}] * 2)
    assert (found["a"].beyond, found["a"].amax, found["a"].sqnr_db) == (2, 90000, -math.inf)
    assert found["b"].beyond == 0  # in float32 it is infinite too
    assert found["b"].sqnr_db == pytest.approx(75, abs=10)


def test_what_overflows_stays_float32() -> None:
    model = model_of("""g (float[N, 8] x) => (float[N, 8] y) <float up = {1e4}, float down = {1e-3}> {
        a = Mul (x, up)  b = Mul (a, up)  c = Sqrt (b)  y = Mul (c, down) }""")
    result = settled(model, {"x": np.abs(RNG.standard_normal((4, 8))).astype(np.float32)})
    assert {name: why.code for name, why in result.stays.items()} == {"b": "overflow", "c": "overflow"}
    assert result.reached
    assert result.sqnr_db > 60
    assert is_said(result.stays["b"], "overflow", tensor="b", dtype="float16")


def test_what_cancels_stays_float32() -> None:
    """x + 1000 - 1000, then the square: half precision keeps 3 digits of 1000."""
    model = model_of("""g (float[N, 64] x) => (float[N, 64] y) <float far = {1000}> {
        r = Relu (x)  a = Add (r, far)  b = Sub (a, far)  c = Mul (b, b)  y = Exp (c) }""")
    x = (0.1 * RNG.standard_normal((4, 64))).astype(np.float32)
    base = settled(model, {"x": x}, rounds=0)
    result = settled(model, {"x": x}, needed_db={"y": 50.0})
    assert not base.stays
    assert {"a", "b"} <= set(result.stays)
    assert "r" not in result.stays
    assert result.reached
    assert result.sqnr_db > 50
    assert result.sqnr_db > base.sqnr_db


def test_it_ends_where_nothing_helps() -> None:
    model = model_of("g (float[N] x) => (float[N] y) { a = Relu (x)  y = Identity (a) }")
    x = np.linspace(1, 3, 100).astype(np.float32)
    result = settled(model, {"x": x}, needed_db={"y": 150.0})
    assert (result.reached, result.found, result.body.casts) == (True, (("a",),), ())
    result = settled(model, {"x": x}, needed_db={"y": 150.0}, io=True)
    assert (result.reached, result.found[1:]) == (False, ())
    assert result.sqnr_db == pytest.approx(72, abs=5)


def test_an_output_gets_the_accuracy_that_it_needs() -> None:
    """Large numbers at the end, as boxes in pixels: the last steps stay, the layers before them do not."""
    weights = {f"w{i}": RNG.standard_normal((16, 16)).astype(np.float32) / 4 for i in range(4)}
    text = "g (float[8, 16] x) => (float[8, 16] y) <float size = {640}, float more = {320}> {"
    for i in range(4):
        text += f" m{i} = MatMul ({'x' if i == 0 else f'h{i - 1}'}, w{i})  h{i} = Tanh (m{i})"
    text += "  e = Mul (h3, h3)  a = Add (e, more)  y = Add (a, size) }"
    x = {"x": RNG.standard_normal((8, 16)).astype(np.float32)}
    plain = settled(model_of(text, **weights), x)
    assert plain.stays == {}
    assert 70 < plain.sqnr_db < 80
    result = settled(model_of(text, **weights), x, needed_db={"y": 110.0})
    assert result.reached
    assert result.sqnr_db >= 110
    assert set(result.stays) <= {"y", "a", "e", "h3", "m3"}
    assert {why.code for why in result.stays.values()} == {"accuracy"}
    assert "needs 110" in result.stays["y"]


def test_rounding_the_input_may_be_what_costs() -> None:
    text = """g (float[8, 16] x) => (float[8, 16] y) <float far = {100}> {
        a = Sub (x, far)  b = Tanh (a)  c = Relu (b)  d = Neg (c)  e = Tanh (d)  y = Neg (e) }"""
    x = {"x": (100 + RNG.standard_normal((8, 16))).astype(np.float32)}
    assert settled(model_of(text), x).sqnr_db < 50
    result = settled(model_of(text), x, needed_db={"y": 60.0})
    assert result.reached
    assert set(result.stays) == {"a"}


def test_weights_that_are_too_small_stay_so_when_they_are_quantized() -> None:
    weights = (1e-7 * RNG.standard_normal((16, 16))).astype(np.float32)
    model = model_of(
        "g (float[8, 16] x) => (float[8, 16] y) { a = MatMul (x, w)  y = Softmax (a) }", w=weights
    )
    result = settled(model, {"x": RNG.standard_normal((8, 16)).astype(np.float32)})
    assert {name: why.code for name, why in result.stays.items()} == {"a": "constant"}
    quantized = model_of(
        """g (float[8, 16] x) => (float[8, 16] y) {
        w = DequantizeLinear <axis = 1> (codes, scales)  a = MatMul (x, w)  y = Softmax (a) }""",
        codes=np.ones((16, 16), np.int8),
        scales=np.full(16, 1e-7, np.float32),
    )
    assert to_half(Model.open(quantized), "fp16", {}).halved == {"a", "y"}
    assert to_half(Model.open(quantized), "fp16", result.stays).halved == {"y"}


def test_a_body_of_control_flow_stays_as_a_whole() -> None:
    model = model_of("""g (float[4] x, bool c) => (float[4] y) <float up = {300}> {
        a = Mul (x, up)
        b = If (c) <then_branch = t () => (float[4] p) { i = Mul (a, a)  p = Sqrt (i) },
                    else_branch = e () => (float[4] q) { q = Neg (a) }>
        y = Relu (b) }""")
    result = settled(model, {"x": np.arange(1, 5).astype(np.float32), "c": np.array(True)})
    assert result.reached
    assert {"i", "p"} <= set(result.stays)
    assert result.sqnr_db > 60


def test_bfloat16_and_inputs_of_its_own_type() -> None:
    model = model_of("g (float[N] x) => (float[N] y) { a = Mul (x, x)  y = Sqrt (a) }")
    x = np.linspace(100, 1000, 50).astype(np.float32)
    for kind, db in (("fp16", 60), ("bf16", 40)):
        result = settled(model, {"x": x}, kind=kind)
        assert result.reached
        assert result.sqnr_db > db
        assert bool(result.stays) == (kind == "fp16")
        assert settled(model, {"x": x}, kind=kind, io=True).reached
