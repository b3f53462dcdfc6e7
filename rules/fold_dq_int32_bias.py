"""Give an int32 bias its float values.

onnxruntime's quantizer and TensorFlow's write the bias of a quantized layer as an int32 constant
with a DequantizeLinear. TensorRT rejects it:

    input has type Int32 but must have type FP8, FP4, Int4, Int8, or UInt8

The float product is the same, and the bias is float in TensorRT's own int8 layers.

    before    y = DequantizeLinear(b, scale)         b: constant, int32
    after     y = float32(b) * scale                 a constant
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, evaluate, required, rule


@rule("DequantizeLinear", "com.microsoft.DequantizeLinear", stage="compat", lacks="int32-dequantize")
def fold_dq_int32_bias(node: Node) -> np.ndarray | None:
    (codes,) = required(node, 1)
    if codes.dtype != np.int32 or not codes.is_constant:
        return None
    arrays = evaluate(node)
    if arrays is None:
        raise Skip("its scale is computed at run time")
    return arrays[0]


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2, 4, 4] x, int32[3] i) => (y) <float[3, 2, 1, 1] w = {1, 2, 3, -4, 0.5, 0}, int32[3] b = {70000, -3, 0},
        float[3] s = {0.1, 0.2, 0.05}, int32[3] z = {0, 0, 0}, int8[3] c = {1, 2, 3}, float t = {0.1}> {
        d = DequantizeLinear <axis = 0> (%s)  y = Conv (x, w, d) }"""

EXAMPLES = [
    Fires(
        _NET % "b, s, z",
        gone="DequantizeLinear",
        becomes="y = Conv (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {7000.0, -0.6, 0.0})",
    ),
    Fires(
        _NET % "b, s",
        gone="DequantizeLinear",
        becomes="y = Conv (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {7000.0, -0.6, 0.0})",
    ),
    Fires(
        _NET % "b, t",
        gone="DequantizeLinear",
        becomes="y = Conv (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {7000.0, -0.3, 0.0})",
    ),
    Skips(_NET % "i, s"),
    Skips((_NET % "b, r").replace("int32[3] i)", "int32[3] i, float[3] r)"), because="at run time"),
    Skips(_NET % "c, s"),
]
