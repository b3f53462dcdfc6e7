"""Write `QLinearConv` as a Conv that TensorRT reads.

TensorRT reads quantized models as Q/DQ pairs; of the other form it says nothing but

    In node 1 with name: and operator: QLinearConv (parseNode): UNSUPPORTED_NODE: false

Codes around 0 (int8), or uint8 around 128, become pairs, and run in int8. A sum of products is rounded to a code in
the end; where the float one lies between two codes, it may be the other one.

    before    y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)
    after     y = QuantizeLinear(Conv(DequantizeLinear(x, xs, xz), DequantizeLinear(w, ws, wz), b * xs * ws), ys, yz)

Of other codes TensorRT has no int8. The numbers are the same, bit for bit, where the products are summed as whole
numbers in float32, which is exact below 2**24 (longer sums are computed in parts, which are added as int32):

    after     y = Cast(Clip(Round((Conv(Cast(x) - xz, w - wz) + b) * (xs * ws / ys)) + yz, 0, 255))
"""

import numpy as np
from _quantized import FLOAT, STEP, along, are_pairs, coded, real, recoded, stated
from _sums_of_codes import biased, centred, conv, reach

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, Within, op, operands, required, rule


@rule("QLinearConv", stage="compat", lacks="QLinearConv")
def unfuse_qlinear_conv(node: Node) -> Within | Value:
    x, xs, xz, w, ws, wz, ys, yz = required(node, 8)
    bias = operands(node, 9)[8]
    stated(xs, ws, ys)
    if all(are_pairs(node, codes, zero) for codes, zero in ((x, xz), (w, wz), (node.outputs[0], yz))):
        inputs = [real(x, xs, xz, node), real(w, ws, wz, node, axis=0)]
        if bias is not None:
            inputs.append(_bias(bias, xs, ws))
        return Within(coded(op.Conv(*inputs, **node.attrs), ys, yz), 1, STEP)
    if w.rank is None:
        raise Skip(f"the rank of {w.name!r} is not known")
    channels = [-1] + [1] * (w.rank - 2)
    kernels = centred(w, wz, [*channels, 1])
    sums = conv(node, centred(x, xz), kernels, (reach(x, xz), reach(w, wz)), node.attrs)
    return recoded(biased(sums, bias, channels), _steps(xs, ws, ys, w.rank - 1), yz, x, node.opset)


def _steps(xs: Tensor, ws: Tensor, ys: Tensor, rank: int) -> np.ndarray:
    """The size of a product, in steps of the output, for the channels of a sample."""
    x, w, y = (one.constant for one in (xs, ws, ys))
    assert x is not None
    assert w is not None
    assert y is not None
    if x.size != 1 or y.size != 1:
        raise Skip(f"{(ys if x.size == 1 else xs).name!r} is not one scale")
    return along(x.reshape(()) * w / y.reshape(()), 0, rank)


def _bias(bias: Tensor, xs: Tensor, ws: Tensor) -> Value | np.ndarray:
    """The bias, which is in steps of both scales, as float32."""
    codes, x, w = (one.constant for one in (bias, xs, ws))
    assert x is not None
    assert w is not None
    steps = x.reshape(()) * w.reshape(-1)
    return op.Mul(op.Cast(bias, to=FLOAT), steps) if codes is None else codes.astype(np.float32) * steps


# Products of uint8 and int8 weights whose sum of two exceeds int16 saturate in onnxruntime on x86 without VNNI:
# the weights here are small enough.
def _net(attributes: str = "", w: str = "w, ws, wz", b: str = ", b", opset: int = 13, z: int = 114) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (uint8[N, 2, 5, 4] x, float r) => (y) <float xs = {{0.05}}, uint8 xz = {{{z}}}, int8[2, 2, 1, 1] w = {{1, -128, 100, 3}},
        float ws = {{0.02}}, int8 wz = {{0}}, float[2] cs = {{0.02, 0.01}}, int8[2] cz = {{0, 0}}, float ys = {{0.3}},
        uint8 yz = {{128}}, int32[2] b = {{900, -70}}, uint8[4, 1, 2, 2] d = {{0, 255, 3, 128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9}},
        uint8 dz = {{128}}> {{ y = QLinearConv {attributes} (x, xs, xz, {w}, ys, yz {b}) }}"""


EXAMPLES = [
    Fires(
        _net(z=128),
        gone="QLinearConv",
        becomes="""_1 = DequantizeLinear (x, 0.05, uint8 128)
        _2 = DequantizeLinear (int8 [2, 2, 1, 1] {1, -128, 100, 3}, 0.02, int8 0)
        _3 = Conv (_1, _2, {0.90000004, -0.07}); y = QuantizeLinear (_3, 0.3, uint8 128)""",
    ),
    Fires(
        _net(w="w, cs, cz", b="", z=128),
        gone="QLinearConv",
        becomes="""_1 = DequantizeLinear (x, 0.05, uint8 128)
        _2 = DequantizeLinear <axis = 0> (int8 [2, 2, 1, 1] {1, -128, 100, 3}, {0.02, 0.01}, int8 {0, 0})
        _3 = Conv (_1, _2); y = QuantizeLinear (_3, 0.3, uint8 128)""",
    ),
    Fires(
        _net(w="w, cs, cz", opset=10, z=128),
        gone="QLinearConv",
        becomes="""_1 = DequantizeLinear (x, 0.05, uint8 128)
        _2 = Conv (_1, [2, 2, 1, 1] {0.02, -2.56, 1.0, 0.03}, {0.90000004, -0.035})
        y = QuantizeLinear (_2, 0.3, uint8 128)""",
    ),
    Fires(
        _net(),
        gone="QLinearConv",
        becomes="""_1 = Cast <to = 1> (x); _2 = Sub (_1, 114.0)
        _3 = Conv (_2, [2, 2, 1, 1] {1.0, -128.0, 100.0, 3.0}); _4 = Cast <to = 6> (_3)
        _5 = Add (_4, int32 [2, 1, 1] {900, -70}); _6 = Cast <to = 1> (_5)
        _7 = Mul (_6, 0.0033333334); _8 = Round (_7); _9 = Add (_8, 128.0)
        _10 = Clip (_9, 0.0, 255.0); y = Cast <to = 2> (_10)""",
    ),
    Fires(_net(w="w, cs, cz", opset=10), gone="QLinearConv"),
    Fires(_net("<group = 2, pads = [1, 0, 0, 1], strides = [2, 1]>", "d, ws, dz", b=""), gone="QLinearConv"),
    Skips(_net(w="w, r, wz"), because="--freeze r=VALUE"),
    Skips(
        _net(w="v, cs, cz", b="", opset=10, z=128).replace("float r)", "int8[2, 2, 1, 1] v)"),
        because="opset 10",
    ),
    Skips(_net().replace("float ys = {0.3}", "float[2] ys = {0.3, 0.4}"), because="is not one scale"),
]
