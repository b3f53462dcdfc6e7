"""Write a `DequantizeLinear` that the target lacks as the float arithmetic that it is defined by.

TensorRT dequantizes int8 codes around 0, with positive scales. Of others it says

    Non-zero zero point is not supported. Please set kENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA
    only supports symmetric quantization - zeroPt must be all zeros
    Found unsupported input type of UINT8
    input has type Int32 but must have type FP8, FP4, Int4, Int8, or UInt8
    Scale coefficients must all be positive

    before    y = DequantizeLinear(q, scale, zero)
    after     y = (Cast(q) - zero) * scale

The numbers are the same, and the layers behind it run in float. A constant stays one (`symmetric_weights`), and
a uint8 pair around 128 becomes int8 (`int8_zero_point`) where nobody else reads the codes.
"""

import numpy as np
from _quantized import (
    FLOAT,
    FLOAT16,
    TYPES,
    becomes_int8,
    is_positive,
    is_zero,
    less,
    quantized,
    spread,
    waits,
)

from onnxq.rule import (
    Except,
    Fires,
    Node,
    Pair,
    Skip,
    Skips,
    Tensor,
    Value,
    constant,
    made_by,
    op,
    required,
    rule,
)


@rule("DequantizeLinear", "com.microsoft.DequantizeLinear", stage="compat", lacks="asymmetric-quantization")
def dequantize_in_float(node: Node) -> Except | None:
    (codes, scale), zero = required(node, 2), node.operands(3)[2]
    format = Pair(node).format
    name = "" if format is None else format.name
    if codes.is_constant or name not in TYPES or becomes_int8(node) or waits(codes):
        return None
    if name in ("int8", "int4") and is_zero(zero) and is_positive(scale):
        return None
    if scale.dtype not in (np.float32, np.float16):
        raise Skip(f"the type of {scale.name!r} is {scale.dtype}, not float32 or float16")
    zeros = None if is_zero(zero) else spread(zero, codes, node)
    y = op.Mul(less(_as_float(codes, scale, name), zeros), spread(scale, codes, node))
    given = node.attr("output_dtype", 0) or (FLOAT16 if scale.dtype == np.float16 else FLOAT)
    y = y if given == FLOAT else op.Cast(y, to=given)
    return Except(Except(y, "nan-input", "the code of a NaN is not defined"), "zero-sign", "codes have no -0")


def _as_float(codes: Tensor, scale: Tensor, name: str) -> Value:
    """Codes as float32: cast, or where no Cast can be between them what the QuantizeLinear computes."""
    before = made_by(codes, "QuantizeLinear")
    if before is None:
        return op.Cast(codes, to=FLOAT)
    by, steps = constant(before.inputs[1]), constant(scale)
    zeros = by is not None and not by.all()
    if zeros and (steps is None or by is None or not np.array_equal(steps == 0, by == 0)):
        raise Skip(f"a scale of the QuantizeLinear {before.name!r} is 0, and not the same one here")
    return quantized(before) if zeros or name.endswith(("int4", "int2")) else op.Cast(codes, to=FLOAT)


def _net(body: str, opset: int = 21) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (uint8[N, 2, 4] x, int8[N, 2, 4] i, int32[N, 2, 4] l, float r, uint8 t, float16 sh) => (y) <float s = {{0.05}},
        float[2] sc = {{0.1, 0.2}}, uint8 z3 = {{3}}, uint8 z = {{128}}, uint8[2] zc = {{128, 5}}, int8 i0 = {{0}},
        int8 i3 = {{3}}, float n = {{-0.5}}, float o = {{0}}, uint8[2] u = {{1, 2}}, int32 l0 = {{0}}> {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("y = DequantizeLinear (x, s, z3)"),
        gone="DequantizeLinear",
        becomes="_1 = Cast <to = 1> (x); _2 = Sub (_1, 3.0); y = Mul (_2, 0.05)",
    ),
    Fires(
        _net("y = DequantizeLinear (x, s)", 10),
        gone="DequantizeLinear",
        becomes="_1 = Cast <to = 1> (x); y = Mul (_1, 0.05)",
    ),
    Fires(
        _net("y = DequantizeLinear <axis = -2> (x, sc, zc)"),
        becomes="_1 = Cast <to = 1> (x); _2 = Sub (_1, [2, 1] {128.0, 5.0}); y = Mul (_2, [2, 1] {0.1, 0.2})",
    ),
    Fires(_net("y = DequantizeLinear (x, r, t)"), gone="DequantizeLinear"),
    Fires(_net("y = DequantizeLinear (x, sh, z)"), gone="DequantizeLinear"),
    Fires(_net("y = DequantizeLinear (i, s, i3)"), gone="DequantizeLinear"),
    Fires(_net("y = DequantizeLinear (i, n)"), gone="DequantizeLinear"),
    Fires(_net("y = DequantizeLinear (l, s, l0)"), gone="DequantizeLinear"),
    Fires(_net("y = com.microsoft.DequantizeLinear (x, s, z3)"), gone="DequantizeLinear"),
    Fires(
        _net("f = Cast <to = 1> (x)  q = QuantizeLinear (f, o, i0)  y = DequantizeLinear (q, o, i0)"),
        gone="QuantizeLinear",
    ),
    Skips(
        _net("f = Cast <to = 1> (x)  q = QuantizeLinear (f, o, z3)  y = DequantizeLinear (q, s, z3)"),
        because="not the same",
    ),
    Skips(_net("y = DequantizeLinear (i, s, i0)")),
    Skips(_net("y = DequantizeLinear (u, s, z3)")),
    Skips(_net("f = Cast <to = 1> (x)  q = QuantizeLinear (f, s, z)  y = DequantizeLinear (q, s, z)")),
]
