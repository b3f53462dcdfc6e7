"""Which nodes compute the same, and that the layers of one kernel that several are count each."""

from __future__ import annotations

import onnx
import onnx.parser

from onnxq.graph.twins import twins
from onnxq.pipeline.engine_part import engine_part
from onnxq.run import trt

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] z) => (y) <float[2] one = {1, 2}, float[2] same = {1, 2},
        float[2] other = {2, 1}> {
        [a] p = Mul (x, one)  [b] q = Mul (x, same)  [c] r = Mul (x, other)  [d] s = Mul (z, one)
        [e] t = Softmax <axis = 0> (p)  [f] u = Softmax <axis = 0> (q)  [g] v = Softmax <axis = 1> (q)
        [h] n = RandomNormalLike (x)  [i] m = RandomNormalLike (x)
        [j] y = Sum (r, s, t, u, v, n, m) }"""


def test_only_what_is_the_same_of_the_same_is_alike() -> None:
    assert twins(onnx.parser.parse_model(MODEL)) == {"a": ("b",), "b": ("a",), "e": ("f",), "f": ("e",)}


def test_a_layer_that_is_merged_into_its_twin_is_what_that_is() -> None:
    layer = trt.EngineLayer("k", "gemm", "int8", (), (), (), ("b", "q_dq"), "")
    engine = trt.Engine("compiled", "", "c", 89, layers=(layer,))
    part = engine_part(engine, onnx.parser.parse_model(MODEL), dict.fromkeys("abc", "int8"))
    assert (part.planned, part.int8, part.not_int8) == (3, 2, ("c",))
