"""Turn uint8 activations around 128 into int8 around 0.

TensorRT quantizes around 0 only:

    Non-zero zero point is not supported. Please set kENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA
    to enable asymmetric quantization if it is on DLA.
    only supports symmetric quantization - zeroPt must be all zeros

Codes less 128 are the same numbers, and saturate at the same ones.

    before    y = DequantizeLinear(QuantizeLinear(x, scale, uint8(128)), scale, uint8(128))
    after     y = DequantizeLinear(QuantizeLinear(x, scale, int8(0)), scale, int8(0))

Between the two there may be operators that only move values. Any other reader of the codes would see
other numbers.
"""

import numpy as np
from _quantized import SHARED, is_128, why_not_int8

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, made_by, remake, required, rule


@rule("DequantizeLinear", stage="compat", lacks="asymmetric-quantization")
def int8_zero_point(node: Node) -> Value | None:
    zero = node.operands(3)[2]
    codes, scale = required(node, 2)
    if codes.is_constant or zero is None or not is_128(zero):
        return None
    reason = why_not_int8(codes)
    if reason is not None:
        raise Skip(reason)
    return remake(node, _signed(codes), scale, _zeros(zero))


def _signed(codes: Tensor) -> Value:
    """The same codes as int8, each less 128."""
    before = made_by(codes, *SHARED)
    if before is not None and before.op == "Concat":
        return remake(before, *(_signed(tensor) for tensor in required(before, len(before.inputs))))
    if before is not None:
        count = len(before.outputs)
        moved = remake(before, _signed(required(before, 1)[0]), *before.inputs[1:], outputs=count)
        return moved if count == 1 else moved[before.outputs.index(codes)]  # type: ignore[no-any-return]
    (before,) = (codes.producer,)
    assert before is not None
    source, scale, zero = required(before, 3)
    return remake(before, source, scale, _zeros(zero))


def _zeros(zero: Tensor) -> np.ndarray:
    return np.zeros_like(zero.constant, np.int8)


def _net(body: str, out: str = "y", opset: int = 17) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (float[N, 2, 4] x) => ({out}) <float s = {{0.05}}, float t = {{0.1}}, float[2] sc = {{0.1, 0.2}}, uint8 z = {{128}},
        uint8 z3 = {{3}}, uint8[2] zc = {{128, 128}}, int8 i = {{0}}, uint16 w = {{128}}> {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)"),
        becomes="_1 = QuantizeLinear (x, 0.05, int8 0); y = DequantizeLinear (_1, 0.05, int8 0)",
    ),
    Fires(
        _net("q = QuantizeLinear (x, sc, zc)  y = DequantizeLinear (q, sc, zc)"),
        becomes="""_1 = QuantizeLinear (x, {0.1, 0.2}, int8 {0, 0}); y = DequantizeLinear (_1, {0.1, 0.2}, int8 {0, 0})""",
    ),
    Fires(
        _net(
            "q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)  v = DequantizeLinear (q, t, z)",
            "y, v",
        ),
        becomes="""_1 = QuantizeLinear (x, 0.05, int8 0); y = DequantizeLinear (_1, 0.05, int8 0)
        _2 = QuantizeLinear (x, 0.05, int8 0); v = DequantizeLinear (_2, 0.1, int8 0)""",
    ),
    Fires(
        _net(
            "q = QuantizeLinear (x, s, z)  m = MaxPool <kernel_shape = [2], pads = [1, 1]> (q)"
            "  r = Transpose <perm = [0, 2, 1]> (m)  y = DequantizeLinear (r, s, z)"
        ),
        becomes="""_1 = QuantizeLinear (x, 0.05, int8 0); _2 = MaxPool <kernel_shape = [2], pads = [1, 1]> (_1)
        _3 = Transpose <perm = [0, 2, 1]> (_2); y = DequantizeLinear (_3, 0.05, int8 0)""",
    ),
    Fires(
        _net(
            "q = QuantizeLinear (x, s, z)  l, r = Split <axis = 1> (q)"
            "  y = DequantizeLinear (l, s, z)  v = DequantizeLinear (r, t, z)",
            "y, v",
        ),
        becomes="""_1 = QuantizeLinear (x, 0.05, int8 0); _2, _3 = Split <axis = 1> (_1)
        y = DequantizeLinear (_2, 0.05, int8 0); _4 = QuantizeLinear (x, 0.05, int8 0)
        _5, _6 = Split <axis = 1> (_4); v = DequantizeLinear (_6, 0.1, int8 0)""",
    ),
    Skips(
        _net("q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)  c = Cast <to = 1> (q)", "y, c"),
        because="Cast",
    ),
    Skips(_net("q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)", "y, q"), because="an output"),
    Skips(
        _net("q = QuantizeLinear (x, s, z3)  y = DequantizeLinear (q, s, z)"), because="another zero point"
    ),
    Skips(_net("c = Cast <to = 2> (x)  y = DequantizeLinear (c, s, z)"), because="not what"),
    Skips(_net("q = QuantizeLinear (x, s, w)  y = DequantizeLinear (q, s, w)", opset=21)),
    Skips(_net("q = QuantizeLinear (x, s, z3)  y = DequantizeLinear (q, s, z3)")),
    Skips(_net("q = QuantizeLinear (x, s)  y = DequantizeLinear (q, s)")),
    Skips(_net("q = QuantizeLinear (x, s)  y = DequantizeLinear (q, s, z)"), because="another zero point"),
    Skips(
        _net("q = QuantizeLinear (x, s, r)  y = DequantizeLinear (q, s, r)").replace(
            "x) =>", "x, uint8 r) =>"
        )
    ),
    Skips(_net("q = QuantizeLinear (x, s, i)  y = DequantizeLinear (q, s, i)")),
]
