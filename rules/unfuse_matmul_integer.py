"""Write `MatMulInteger` as a float product of whole numbers.

Dynamic quantization makes it; TensorRT has no integer product:

    In node 1 with name: and operator: MatMulInteger (parseNode): UNSUPPORTED_NODE: false

    before    y = MatMulInteger(a, b, az, bz)
    after     y = Cast<to=int32>(MatMul(Cast(a) - az, Cast(b) - bz))

The codes less their zero points have 8 bits and a sign: TF32 holds them, and float32 their sums below 2**24, so
that the result is the same bit for bit. Longer sums are computed in parts, which are added as int32.
"""

from _sums_of_codes import as_int32, centred, matmul, reach

from onnxq.rule import Fires, Node, Skips, Value, operands, required, rule


@rule("MatMulInteger", stage="compat", lacks="MatMulInteger")
def unfuse_matmul_integer(node: Node) -> Value:
    (a, b), (zero_a, zero_b) = required(node, 2), operands(node, 4)[2:]
    rows = centred(a, zero_a, [-1, 1])
    return as_int32(matmul(node, rows, centred(b, zero_b), (reach(a, zero_a), reach(b, zero_b))))


def _net(call: str, opset: int = 13) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (uint8[N, 3] a, int8[2, N, 3] t, uint8 r, uint8[3, K] k, uint8[K, 3] l, uint8[2, 300] h, int8[300, 2] v) => (y)
        <uint8 az = {{114}}, uint8[3] several = {{114, 3, 9}}, int8[3, 2] b = {{1, -128, 127, 3, 0, -7}}, int8[2] bz = {{0, 3}}> {{ y = {call} }}"""


EXAMPLES = [
    Fires(
        _net("MatMulInteger (a, b, az, bz)"),
        gone="MatMulInteger",
        becomes="""_1 = Cast <to = 1> (a); _2 = Sub (_1, 114.0)
        _3 = MatMul (_2, [3, 2] {1.0, -131.0, 127.0, 0.0, 0.0, -10.0}); y = Cast <to = 6> (_3)""",
    ),
    Fires(
        _net("MatMulInteger (t, b)", 10),
        gone="MatMulInteger",
        becomes="""_1 = Cast <to = 1> (t); _2 = MatMul (_1, [3, 2] {1.0, -128.0, 127.0, 3.0, 0.0, -7.0})
        y = Cast <to = 6> (_2)""",
    ),
    Fires(_net("MatMulInteger (a, b, r)"), gone="MatMulInteger"),
    Fires(
        _net("MatMulInteger (h, v, az)"),
        gone="MatMulInteger",
        becomes="""_1 = Cast <to = 1> (h); _2 = Sub (_1, 114.0); _3 = Cast <to = 1> (v); _4 = MatMul (_2, _3)
        y = Cast <to = 6> (_4)""",
    ),
    Skips(_net("MatMulInteger (k, l, several)"), because="dynamic (K)"),
]
