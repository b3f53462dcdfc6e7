"""Write onnxruntime's `MatMulIntegerToFloat` and `DynamicQuantizeMatMul` as float products of whole numbers.

Its optimizer joins the operators of dynamic quantization; TensorRT has no importer for that:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.MatMulIntegerToFloat(a, b, as, bs, az, bz, bias)
    after     y = MatMul(Cast(a) - az, Cast(b) - bz) * (as * bs) + bias

    before    y = com.microsoft.DynamicQuantizeMatMul(x, b, bs, bz, bias)
    after     a, as, az = DynamicQuantizeLinear(x), and the same

The codes less their zero points have 8 bits and a sign: TF32 holds them, and float32 their sums below 2**24.
Longer sums are computed in parts, which are added as int32.
"""

import numpy as np
from _quantized import dynamic_codes
from _sums_of_codes import as_float32, centred, matmul, reach

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Tensor, Value, op, operands, required, rule

DOMAIN = "com.microsoft."


@rule(
    DOMAIN + "MatMulIntegerToFloat",
    DOMAIN + "DynamicQuantizeMatMul",
    stage="compat",
    lacks="onnxruntime-fusions",
)
def unfuse_matmul_integer_to_float(node: Node) -> Close | Except:
    if node.op == "MatMulIntegerToFloat":
        a, b, scale_a, scale_b = required(node, 4)
        zero_a, zero_b, bias = operands(node, 7)[4:]
        rows, far = centred(a, zero_a, [-1, 1]), reach(a, zero_a)
        if scale_a.dtype != np.float32:
            raise Skip(f"the type of {scale_a.name!r} is {scale_a.dtype}, not float32")
        return Close(_product(node, rows, b, (_column(scale_a), scale_b), zero_b, bias, far))
    x, b, scale_b = required(node, 3)
    zero_b, bias = operands(node, 5)[3:]
    codes, scale, zero = dynamic_codes(x, node.opset)
    product = _product(node, op.Sub(codes, zero), b, (scale, scale_b), zero_b, bias, 255)
    return Except(
        Close(product), "infinite-input", "the range of values with a NaN or an infinity is not defined"
    )


def _column(scale: Tensor) -> Value | np.ndarray:
    """The scale of rows: one, or one a row."""
    if scale.rank == 0 or scale.shape == (1,):
        return scale
    raise Skip(f"the shape of {scale.name!r} is {scale.shape}: one scale a row")


def _product(
    node: Node,
    rows: Value | np.ndarray,
    b: Tensor,
    scales: tuple[Value | np.ndarray, Tensor],
    zero: Tensor | None,
    bias: Tensor | None,
    far: int,
) -> Value:
    whole = as_float32(matmul(node, rows, centred(b, zero), (far, reach(b, zero))))
    y = op.Mul(whole, op.Mul(*scales))
    return y if bias is None else op.Add(y, bias)


def _net(call: str, opset: int = 13) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (uint8[N, 3] a, float[2, N, 3] x, float r, float[1] q, int8[3, K] k, float[N] m) => (y) <uint8 az = {{114}},
        int8[3, 2] b = {{1, -128, 127, 3, 0, -7}}, int8[2] bz = {{0, 3}}, float[2] bs = {{0.02, 0.03}}, float[2] bias = {{1, 2}},
        uint8[3, 2] u = {{1, 128, 127, 3, 0, 255}}, uint8 uz = {{128}}, float s = {{0.1}}> {{ y = com.microsoft.{call} }}"""


EXAMPLES = [
    Fires(
        _net("MatMulIntegerToFloat (a, b, r, bs, az, bz, bias)"),
        gone="MatMulIntegerToFloat",
        becomes="""_1 = Cast <to = 1> (a); _2 = Sub (_1, 114.0)
        _3 = MatMul (_2, [3, 2] {1.0, -131.0, 127.0, 0.0, 0.0, -10.0}); _4 = Mul (r, {0.02, 0.03})
        _5 = Mul (_3, _4); y = Add (_5, {1.0, 2.0})""",
    ),
    Fires(_net("MatMulIntegerToFloat (a, u, q, s)"), gone="MatMulIntegerToFloat"),
    Fires(
        _net("DynamicQuantizeMatMul (x, u, s, uz)"),
        gone="DynamicQuantizeMatMul",
        becomes="""_1 = ReduceMax <keepdims = 0> (x); _2 = Max (_1, 0.0); _3 = ReduceMin <keepdims = 0> (x)
        _4 = Min (_3, 0.0); _5 = Sub (_2, _4); _6 = Greater (_5, 0.0); _7 = Div (_5, 255.0)
        _8 = Where (_6, _7, 1.0); _9 = Div (x, _8); _10 = Round (_9); _11 = Div (_4, _8)
        _12 = Sub (0.0, _11); _13 = Clip (_12, 0.0, 255.0); _14 = Round (_13); _15 = Add (_10, _14)
        _16 = Clip (_15, 0.0, 255.0); _17 = Sub (_16, _14)
        _18 = MatMul (_17, [3, 2] {-127.0, 0.0, -1.0, -125.0, -128.0, 127.0}); _19 = Mul (_8, 0.1)
        y = Mul (_18, _19)""",
    ),
    Fires(_net("DynamicQuantizeMatMul (x, b, bs, bz, bias)"), gone="DynamicQuantizeMatMul"),
    Skips(_net("MatMulIntegerToFloat (a, b, m, bs)"), because="one scale a row"),
]
