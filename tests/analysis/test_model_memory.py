"""Memory along the schedule, against figures counted by hand."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import onnxq

CHAIN = """<ir_version: 9, opset_import: ["" : 19]>
    net (float[N, 4, 10] x) => (float[N, 4, 10] y) {
        [a] a = Relu (x) [b] b = Concat <axis = 1> (a, a, a) [c] c = Neg (b) [d] d = Slice (c, i, j, k)
        [y] y = Add (a, d) }"""
KB = 4 * 10 * 4  # a tensor of 4x10 float32


def chain() -> onnx.ModelProto:
    model = onnx.parser.parse_model(CHAIN)
    for name, value in (("i", 0), ("j", 4), ("k", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
    return model


def test_what_lives_at_each_step() -> None:
    found = onnxq.memory(chain()).before
    # x a | a b | a b c | a c d | a d y
    assert [step.live_bytes for step in found.steps] == [n * KB for n in (2, 4, 7, 5, 3)]
    assert [step.file_live_bytes for step in found.steps] == [step.live_bytes for step in found.steps]
    assert [step.written_bytes for step in found.steps] == [n * KB for n in (1, 3, 3, 1, 1)]
    assert (found.peak_bytes, found.peak_step, found.peak_node) == (7 * KB, 2, "c")
    assert [(one.tensor, one.bytes, one.born, one.last) for one in found.at_peak] == [
        ("b", 3 * KB, 1, 2),
        ("c", 3 * KB, 2, 3),
        ("a", KB, 0, 4),
    ]
    assert [(one.dtype, one.count, one.bytes) for one in found.weights] == [("int64", 3, 24)]


def test_open_sizes_are_taken_and_said() -> None:
    sizes = {}
    for name, options in {
        "1": {}, "--assume": {"assume": {"N": 5}}, "--shape": {"shapes": {"x": (5, 4, 10)}}
    }.items():  # fmt: skip
        found = onnxq.memory(chain(), **options).before
        sizes[name] = found.peak_bytes
        assert found.sizes[0].source == name
    assert sizes == {"1": 7 * KB, "--assume": 35 * KB, "--shape": 35 * KB}


def test_a_pair_is_one_with_what_it_quantizes() -> None:
    text = """<ir_version: 9, opset_import: ["" : 19]>
        net (float[1, 4, 10] x) => (float[1, 4, 10] y) <float s = {0.1}, int8 z = {0}> {
            [r] a = Relu (x) [q] c = QuantizeLinear (a, s, z) [d] b = DequantizeLinear (c, s, z)
            [wd] w = DequantizeLinear (w_q, s, z) [m] e = MatMul (b, w) [n] f = Neg (e)
            [y] y = Add (f, b) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((10, 10), np.int8), "w_q"))
    found = onnxq.memory(model).before
    quarter = KB // 4
    live = {step.node: step.live_bytes for step in found.steps}
    assert live == {
        "r": KB + quarter, "q": quarter, "d": quarter, "wd": quarter, "m": quarter + KB,
        "n": quarter + 2 * KB, "y": quarter + 2 * KB,
    }  # fmt: skip
    written = {step.node: step.file_live_bytes for step in found.steps}
    assert written["q"] == KB + quarter
    assert written["m"] == 2 * KB + 400
    assert [(one.dtype, one.bytes) for one in found.weights] == [("int8", 101), ("float32", 4)]


def test_what_a_body_reads_lives_until_it_runs() -> None:
    text = """<ir_version: 9, opset_import: ["" : 19]>
        net (float[1, 10] x, bool p) => (float[1, 10] y) { [a] a = Relu (x) [b] b = Neg (a) [c] c = Exp (b)
            [if] d = If (p) <then_branch = t () => (float[1, 10] u) { u = Abs (a) },
                else_branch = e () => (float[1, 10] v) { v = Abs (a) }>
            [y] y = Add (c, d) }"""
    found = onnxq.memory(onnx.parser.parse_model(text)).before
    assert [step.live_bytes for step in found.steps] == [81, 81, 121, 121, 120]


def test_packed_types_and_half() -> None:
    import ml_dtypes

    text = """<ir_version: 10, opset_import: ["" : 21]>
        net (float16[1, 7] x) => (float16[1, 7] y) <float16 s = {1}> {
            [d] w = DequantizeLinear (q, s) [y] y = Mul (x, w) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(7, ml_dtypes.int4), "q"))
    found = onnxq.memory(model).before
    assert {one.dtype: one.bytes for one in found.weights} == {"int4": 4, "float16": 2}
    assert found.peak_bytes == 28


def test_before_and_after_filters_and_refusals() -> None:
    found = onnxq.memory(chain(), chain(), ops=["Neg", "Add"], match=["y", "c"])
    assert found.after == found.before
    assert [step.node for step in found.before.steps] == ["c", "y"]
    assert found.before.peak_bytes == 7 * KB
    for options, words in (
        ({"assume": {"M": 2}}, "M"), ({"assume": {"N": 0}}, "at least 1"), ({"shapes": {"z": (1,)}}, "z"),
        ({"match": ["no"]}, "no row fits"),
    ):  # fmt: skip
        with pytest.raises(onnxq.UserError, match=words):
            onnxq.memory(chain(), **options)


def test_large_weights_are_weights() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        net (float[1, 4, 64] x) => (float[1, 4, 64] y) {
            [m] a = MatMul (x, w) [g] b = com.microsoft.FastGelu (a) [y] y = Neg (b) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    found = onnxq.memory(model).before
    assert [(one.dtype, one.bytes) for one in found.weights] == [("float32", 64 * 64 * 4)]
    assert [step.live_bytes for step in found.steps] == [2 * 4 * 64 * 4] * 3
    assert found.unknown == ()  # onnxruntime knows what its own operators give
