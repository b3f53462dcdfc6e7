"""Write `QLinearMatMul` and `QGemm` as products that TensorRT reads.

TensorRT reads quantized models as Q/DQ pairs; of other forms it says

    In node 1 with name: and operator: QLinearMatMul (parseNode): UNSUPPORTED_NODE: false
    Plugin not found, are the plugin name, version, and namespace correct?

Codes around 0 (int8), or uint8 around 128, become pairs, and run in int8. A sum of products is rounded to a code in
the end; where the float one lies between two codes, it may be the other one.

    before    y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)
    after     y = QuantizeLinear(MatMul(DequantizeLinear(a, as, az), DequantizeLinear(b, bs, bz)), ys, yz)

Of other codes TensorRT has no int8. The numbers are the same, bit for bit, where the products are summed as whole
numbers in float32, which is exact below 2**24 (longer sums are computed in parts, which are added as int32):

    after     y = Cast(Clip(Round(MatMul(Cast(a) - az, b - bz) * (as * bs / ys)) + yz, 0, 255))

A QGemm adds int32 numbers to the sums; without a scale for its output it gives floats.
"""

import numpy as np
from _quantized import STEP, are_pairs, coded, real, recoded, stated
from _sums_of_codes import biased, centred, matmul, reach

from onnxq.rule import Close, Fires, Node, Skip, Skips, Tensor, Value, Within, op, operands, required, rule


@rule("QLinearMatMul", "com.microsoft.QGemm", stage="compat", lacks="QLinearMatMul")
def unfuse_qlinear_matmul(node: Node) -> Within | Close | Value:
    is_gemm = node.op == "QGemm"
    a, scale_a, zero_a, b, scale_b, zero_b = required(node, 6)
    bias, out, zero = operands(node, 9)[6:] if is_gemm else (None, *required(node, 8)[6:])
    stated(scale_a, scale_b, out)
    ready = all(
        are_pairs(node, codes, one) for codes, one in ((a, zero_a), (b, zero_b), (node.outputs[0], zero))
    )
    if not is_gemm and out is not None and ready:
        product = op.MatMul(real(a, scale_a, zero_a, node, -2), real(b, scale_b, zero_b, node, -1))
        return Within(coded(product, out, zero, a), 1, STEP)
    left = _turned(centred(a, zero_a, [-1, 1]), node.attr("transA", 0))
    turns = node.attr("transB", 0)
    right = _turned(centred(b, zero_b, [-1, 1] if turns else [1, -1]), turns)
    sums = biased(matmul(node, left, right, (reach(a, zero_a), reach(b, zero_b))), bias)
    steps = np.float32(node.attr("alpha", 1.0)) * _scale(scale_a, (-1, 1)) * _scale(scale_b, (-1,))
    if out is None:
        return Close(op.Mul(sums, steps))
    return recoded(sums, steps / _scale(out, ()), zero, a, node.opset)


def _scale(scale: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """A constant scale, or several in a shape that broadcasts; () where there can be one only."""
    numbers = scale.constant
    assert numbers is not None
    if numbers.size == 1:
        return numbers.reshape(())
    if not shape:
        raise Skip(f"{scale.name!r} is not one scale")
    return numbers.reshape(shape) if numbers.ndim == 1 else numbers


def _turned(side: Value | np.ndarray, turn: int) -> Value | np.ndarray:
    if not turn:
        return side
    return np.ascontiguousarray(side.T) if isinstance(side, np.ndarray) else op.Transpose(side, perm=[1, 0])


def _net(call: str, opset: int = 17, out: str = "y") -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (uint8[N, 3] a, uint8[2, N, 3] t, float r, int32[1, 2] c, int8[N, 3, 2] v) => ({out}) <float as = {{0.05}}, uint8 az = {{114}},
        int8[3, 2] b = {{1, -128, 127, 3, 0, -7}}, float bs = {{0.02}}, int8 bz = {{0}}, float[2] cs = {{0.02, 0.01}},
        int8[2] cz = {{0, 0}}, float ys = {{0.3}}, uint8 yz = {{128}}, int8[2, 3] d = {{1, -128, 127, 3, 0, -7}},
        float[1, 2] ms = {{0.02, 0.01}}, int8[1, 2] mz = {{0, 1}}, int8[1, 2] nz = {{0, 0}}, float[3] ts = {{0.1, 0.2, 0.3}}, int8[2] pz = {{0, 1}}> {{ y = {call} }}"""


EXAMPLES = [
    Fires(
        _net("QLinearMatMul (a, as, az, b, bs, bz, ys, yz)"),
        gone="QLinearMatMul",
        becomes="""_1 = Cast <to = 1> (a); _2 = Sub (_1, 114.0)
        _3 = MatMul (_2, [3, 2] {1.0, -128.0, 127.0, 3.0, 0.0, -7.0}); _4 = Mul (_3, 0.0033333334)
        _5 = Round (_4); _6 = Add (_5, 128.0); _7 = Clip (_6, 0.0, 255.0); y = Cast <to = 2> (_7)""",
    ),
    Fires(
        _net("QLinearMatMul (a, as, yz, b, bs, bz, ys, yz)"),
        gone="QLinearMatMul",
        becomes="""_1 = DequantizeLinear (a, 0.05, uint8 128)
        _2 = DequantizeLinear (int8 [3, 2] {1, -128, 127, 3, 0, -7}, 0.02, int8 0)
        _3 = MatMul (_1, _2); y = QuantizeLinear (_3, 0.3, uint8 128)""",
    ),
    Fires(_net("QLinearMatMul (t, as, az, b, cs, cz, ys, yz)"), gone="QLinearMatMul"),
    Fires(_net("QLinearMatMul (a, as, az, b, cs, cz, ys, yz)", 10), gone="QLinearMatMul"),
    Fires(_net("QLinearMatMul (a, as, az, b, ms, mz, ys, yz)"), gone="QLinearMatMul"),
    Fires(_net("com.microsoft.QGemm <transB = 1> (a, as, az, d, cs, pz, c, ys, yz)"), gone="QGemm"),
    Fires(
        _net("com.microsoft.QGemm <alpha = 0.5> (a, as, az, b, bs, bz)"),
        gone="QGemm",
        becomes="""_1 = Cast <to = 1> (a); _2 = Sub (_1, 114.0)
        _3 = MatMul (_2, [3, 2] {1.0, -128.0, 127.0, 3.0, 0.0, -7.0}); y = Mul (_3, 0.0005)""",
    ),
    Skips(_net("QLinearMatMul (a, r, az, b, bs, bz, ys, yz)"), because="--freeze r=VALUE"),
    Skips(
        _net("QLinearMatMul (d, cs, cz, b, bs, bz, cs, bz)", 10),
        because="'cs', of the shape (2,), is not one",
    ),
    Skips(_net("QLinearMatMul (a, ts, az, b, cs, cz, cs, yz)"), because="'cs' is not one scale"),
    Skips(_net("QLinearMatMul (a, as, yz, v, ms, nz, ys, yz)"), because="which opset 17 lacks"),
]
