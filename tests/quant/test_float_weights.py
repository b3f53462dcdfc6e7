"""Weights in float in front of a Q/DQ pair: the same codes, for builders that take no constants of codes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from onnxq import quantize
from onnxq.graph.model import Model
from onnxq.pipeline.building import set_float_weights
from onnxq.run import ort
from onnxq.targets import NAMES, load_target

HEAD = '<ir_version: 9, opset_import: ["" : 19]> g (float[4, 16] x) => (float[4, 8] y) {'


def with_codes(codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int = 1) -> onnx.ModelProto:
    proto = parse_model(
        f"{HEAD} w = DequantizeLinear <axis = {axis}> (codes, scale, zero)  y = MatMul (x, w) }}"
    )
    for name, values in (("codes", codes), ("scale", scale), ("zero", zero)):
        proto.graph.initializer.append(numpy_helper.from_array(values, name))
    return proto


def all_codes(dtype: type[np.generic]) -> np.ndarray:
    """Each code that there is: [16, 8] twice over."""
    ends = np.iinfo(dtype)
    return np.resize(np.arange(ends.min, ends.max + 1), 128).reshape(16, 8).astype(dtype)


SCALES = np.geomspace(1e-6, 3e4, 8).astype(np.float32)


@pytest.mark.parametrize(
    ("codes", "scale", "zero"),
    [
        (all_codes(np.int8), SCALES, np.zeros(8, np.int8)),
        (all_codes(np.int8)[::-1] * 2, np.float32(0.0123), np.int8(0)),
        (all_codes(np.uint8), SCALES, np.arange(100, 108, dtype=np.uint8)),
    ],
)
def test_the_codes_are_the_same_bit_for_bit(codes: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> None:
    codes = np.ascontiguousarray(codes).astype(np.asarray(zero).dtype)
    proto = with_codes(codes, np.asarray(scale), np.asarray(zero))
    model = Model.open(proto)
    assert set_float_weights(model) == 1
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    assert [node.op_type for node in after.graph.node] == ["QuantizeLinear", "DequantizeLinear", "MatMul"]
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    again = after.graph.node[0].output[0]
    exact, weights = ReferenceEvaluator(proto).run(["y", "w"], {"x": x})
    found, same, written = ReferenceEvaluator(after).run(["y", "w", again], {"x": x})
    np.testing.assert_array_equal(written, codes)
    np.testing.assert_array_equal(same, weights)
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(ort.load(after).run({"x": x})[0], ort.load(proto).run({"x": x})[0])


@pytest.mark.parametrize(
    ("codes", "scale", "zero"),
    [
        (np.full((16, 8), 100, np.int8), np.full(8, 3e38, np.float32), np.zeros(8, np.int8)),  # infinite
        (np.full((16, 8), 100, np.int32), np.ones(8, np.float32), np.zeros(8, np.int32)),  # as biases are
    ],
)
def test_what_would_be_others_stays(codes: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> None:
    model = Model.open(with_codes(codes, scale, zero))
    before = model.to_proto()
    assert set_float_weights(model) == 0
    assert model.to_proto() == before


@pytest.mark.parametrize("body", ["fp32", "fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_targets_get_what_they_take(name: str, body: str) -> None:
    """Builders up to 8.6 get floats; the figures of the report are those of codes."""
    target = load_target(name)
    proto = parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[32, 64] x) => (float[32, 64] y)'
        " { y = MatMul (x, w) }"
    )
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((32, 64)).astype(np.float32)} for _ in range(8)]
    result = quantize(
        proto, feeds, target=name, repair="none", compile=False, body=body if target.explicit else None
    )
    types = {one.data_type for one in result.model.graph.initializer if len(one.dims) == 2}
    pairs = [
        sum(node.op_type == op for node in result.model.graph.node)
        for op in ("QuantizeLinear", "DequantizeLinear")
    ]
    codes = name in {"tensorrt-10", "tensorrt-11", "tensorrt-rtx"}
    assert types == {TensorProto.INT8 if codes else TensorProto.FLOAT}
    assert pairs == ([1, 2] if codes else [2, 2] if target.explicit else [0, 0])


def test_constants_that_several_read_are_made_once() -> None:
    proto = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y)'
        "<int8[4] w = {-127, 1, 5, 127}, float s = {0.5}, int8 z = {0}>"
        "{ d = DequantizeLinear (w, s, z)  e = DequantizeLinear (w, s, z)  f = Add (x, d)  y = Add (f, e) }"
    )
    model = Model.open(proto)
    assert set_float_weights(model) == 1
    kinds = [node.op_type for node in model.to_proto().graph.node]
    assert kinds.count("QuantizeLinear") == 1


@pytest.mark.parametrize("empty", [False, True])
def test_a_zero_point_that_is_left_out_is_one_of_the_codes(empty: bool) -> None:
    """QuantizeLinear takes uint8 for what is left out: codes below 0 would be 0."""
    proto = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y)'
        "<int8[4] w = {-127, 1, 5, 127}, float s = {0.5}> { d = DequantizeLinear (w, s)  y = Add (x, d) }"
    )
    if empty:
        proto.graph.node[0].input.append("")
    model = Model.open(proto)
    assert set_float_weights(model) == 1
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    feeds = {"x": np.zeros(4, np.float32)}
    (one,), (other,) = (ort.load(each).run(feeds) for each in (proto, after))
    np.testing.assert_array_equal(one, other)
