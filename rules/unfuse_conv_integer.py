"""Write `ConvInteger` as a float Conv of whole numbers.

Dynamic quantization makes it; TensorRT has no integer convolution:

    In node 1 with name: and operator: ConvInteger (parseNode): UNSUPPORTED_NODE: false

    before    y = ConvInteger(x, w, xz, wz)
    after     y = Cast<to=int32>(Conv(Cast(x) - xz, Cast(w) - wz))

The codes less their zero points have 8 bits and a sign: TF32 holds them, and float32 their sums below 2**24, so
that the result is the same bit for bit. Longer sums are computed in parts, which are added as int32. The
padding is the zero point, 0 where it is subtracted.
"""

from _sums_of_codes import as_int32, centred, conv, reach

from onnxq.rule import Fires, Node, Skips, Value, operands, required, rule


@rule("ConvInteger", stage="compat", lacks="ConvInteger")
def unfuse_conv_integer(node: Node) -> Value:
    (x, w), (zero_x, zero_w) = required(node, 2), operands(node, 4)[2:]
    kernels = centred(w, zero_w, [-1] + [1] * ((w.rank or 4) - 1))
    far = reach(x, zero_x), reach(w, zero_w)
    return as_int32(conv(node, centred(x, zero_x), kernels, far, node.attrs))


def _net(call: str, opset: int = 13) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (uint8[N, 2, 5, 4] x, uint8 r, uint8[2, 100, 3, 3] h, uint8[1, 100, 3, 3] v, uint8[2, C, 3, 3] k, uint8[] u) => (y) <uint8 z = {{114}},
        uint8[2, 2, 1, 2] w = {{1, 128, 255, 3, 0, 7, 9, 200}}, uint8 wz = {{3}}, uint8[2] several = {{3, 9}}, uint8[4, 1, 1, 1] d = {{1, 128, 255, 3}}> {{ y = {call} }}"""


EXAMPLES = [
    Fires(
        _net("ConvInteger <pads = [1, 1, 0, 0]> (x, w, z, wz)"),
        gone="ConvInteger",
        becomes="""_1 = Cast <to = 1> (x); _2 = Sub (_1, 114.0)
        _3 = Conv <pads = [1, 1, 0, 0]> (_2, [2, 2, 1, 2] {-2.0, 125.0, 252.0, 0.0, -3.0, 4.0, 6.0, 197.0})
        y = Cast <to = 6> (_3)""",
    ),
    Fires(_net("ConvInteger <group = 2> (x, d, r)", 10), gone="ConvInteger"),
    Fires(
        _net("ConvInteger (h, v, z)"),
        gone="ConvInteger",
        becomes="""_1 = Cast <to = 1> (h); _2 = Sub (_1, 114.0); _3 = Slice (_2, {0}, {51}, {1})
        _4 = Cast <to = 1> (v); _5 = Slice (_4, {0}, {51}, {1}); _6 = Conv (_3, _5)
        _7 = Cast <to = 6> (_6); _8 = Slice (_2, {51}, {100}, {1})
        _9 = Slice (_4, {51}, {100}, {1}); _10 = Conv (_8, _9); _11 = Cast <to = 6> (_10)
        y = Add (_7, _11)""",
    ),
    Fires(
        _net("ConvInteger (x, w, z, several)"),
        gone="ConvInteger",
        becomes="""_1 = Cast <to = 1> (x); _2 = Sub (_1, 114.0)
        _3 = Conv (_2, [2, 2, 1, 2] {-2.0, 125.0, 252.0, 0.0, -9.0, -2.0, 0.0, 191.0})
        y = Cast <to = 6> (_3)""",
    ),
    Skips(_net("ConvInteger (k, k)"), because="is dynamic"),
    Skips(_net("ConvInteger (k, u)"), because="is dynamic (weights None)"),
]
