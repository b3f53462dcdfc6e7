"""Write a `QuantizeLinear` that the target lacks as the float arithmetic that it is defined by.

TensorRT quantizes to int8 around 0, with positive scales. Of a zero point, a negative scale and 16 bits it says

    Non-zero zero point is not supported. Please set kENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA
    only supports symmetric quantization - zeroPt must be all zeros
    Scale coefficients must all be positive
    convertOnnxWeights(initializer, &weights): Failed to import initializer
    Attribute output_dtype specifies an unsupported data type

A QuantizeLinear without a zero point gives uint8 in ONNX; TensorRT builds int8 and says nothing. So it does
with a uint8 zero point of 0, with a warning: what is above 127 steps is lost.

    before    q = QuantizeLinear(x, scale, zero)
    after     q = Cast(Clip(Round(x / scale) + zero, 0, 255))

The numbers are the same, and the layers behind it run in float: int8 is quicker, and takes other scales
(`onnxq quantize --pairs adopt`, or `drop`). A uint8 pair around 128 becomes int8 (`int8_zero_point`) where
nobody else reads the codes.
"""

import numpy as np
from _quantized import SHARED, TYPES, becomes_int8, is_positive, is_zero, quantized

from onnxq.rule import Except, Fires, Node, Pair, Skips, Tensor, constant, evaluate, op, required, rule

_WHY = "the code of a NaN is not defined"


@rule("QuantizeLinear", "com.microsoft.QuantizeLinear", stage="compat", lacks="asymmetric-quantization")
def quantize_in_float(node: Node) -> Except | np.ndarray | None:
    (x, scale), zero = required(node, 2), node.operands(3)[2]
    format = Pair(node).format
    if format is None or format.name not in ("uint8", "int8", "uint16", "int16"):
        return None
    if format.name == "int8" and is_zero(zero) and is_positive(scale):
        return None
    readers = _readers(node.outputs[0])
    if any(user.op.startswith(("QLinear", "QGemm")) or becomes_int8(user) for user in readers):
        return None
    if x.is_constant:
        arrays = evaluate(node)
        if arrays is not None:
            return arrays[0]
    steps = constant(scale)
    if steps is not None and not steps.all():
        return None  # what is divided by 0 means nothing but to the DequantizeLinear (`dequantize_in_float`)
    return Except(op.Cast(quantized(node), to=TYPES[format.name]), "nan-input", _WHY)


def _readers(codes: Tensor) -> list[Node]:
    """The nodes that read codes, moved or not, and do not only move them."""
    found, todo, seen = [], [codes], {codes}
    while todo:
        for user in todo.pop().users:
            if user.op in SHARED and not user.domain:
                new = [tensor for tensor in user.outputs if tensor not in seen]
                seen.update(new)
                todo += new
            else:
                found.append(user)
    return found


def _net(body: str, out: str = "uint8[N, 2, 4] y", opset: int = 21) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (float[N, 2, 4] x, float[2, 4] k, float16[N, 2, 4] h, float r, float16 sh) => ({out}) <float s = {{0.05}}, float[2] sc = {{0.1, 0.2}},
        uint8 z3 = {{3}}, uint8 z = {{128}}, uint8[2] zc = {{128, 5}}, int8 i = {{0}}, uint16 w = {{9}}, float n = {{-0.5}},
        uint8[2, 2] zb = {{0, 1, 2, 3}}, float[2, 2] sb = {{0.1, 0.2, 0.3, 0.4}}> {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("y = QuantizeLinear (x, s, z3)"),
        gone="QuantizeLinear",
        becomes="_1 = Div (x, 0.05); _2 = Round (_1); _3 = Add (_2, 3.0); _4 = Clip (_3, 0.0, 255.0); y = Cast <to = 2> (_4)",
    ),
    Fires(
        _net("y = QuantizeLinear (x, s)", opset=13),
        gone="QuantizeLinear",
        becomes="_1 = Div (x, 0.05); _2 = Round (_1); _3 = Clip (_2, 0.0, 255.0); y = Cast <to = 2> (_3)",
    ),
    Fires(_net("y = QuantizeLinear (x, s, z3)", opset=10), gone="QuantizeLinear"),
    Fires(_net("y = QuantizeLinear <axis = -2> (x, sc, zc)"), gone="QuantizeLinear"),
    Fires(_net("y = QuantizeLinear (x, r, z)"), gone="QuantizeLinear"),
    Fires(_net("y = QuantizeLinear (h, sh, z)"), gone="QuantizeLinear"),
    Fires(_net("y = QuantizeLinear (x, n, i)", "int8[N, 2, 4] y"), gone="QuantizeLinear"),
    Fires(_net("y = QuantizeLinear (x, s, w)", "uint16[N, 2, 4] y"), gone="QuantizeLinear"),
    Fires(_net("y = QuantizeLinear <block_size = 2> (k, sb, zb)", "uint8[2, 4] y"), gone="QuantizeLinear"),
    Fires(_net("y = com.microsoft.QuantizeLinear <axis = 1> (x, sc, zc)"), gone="QuantizeLinear"),
    Fires(
        _net("c = Constant <value_floats = [1.0, -3.0]> ()  y = QuantizeLinear (c, s, z)", "uint8[2] y"),
        gone="QuantizeLinear",
        becomes="y = Identity (uint8 {148, 68})",
    ),
    Skips(_net("y = QuantizeLinear (x, s, i)", "int8[N, 2, 4] y")),
    Skips(_net("q = QuantizeLinear (x, s, z)  t = Transpose (q)  y = DequantizeLinear (t, s, z)", "y")),
    Skips(
        _net("y = QuantizeLinear <block_size = 2> (x, sb, zb)")
        .replace("sb = {0.1, 0.2, 0.3, 0.4}", "sx = {1, 2, 3, 4}")
        .replace("float r", "float r, float[N, 2, 2] sb"),
        because="blocks",
    ),
]
