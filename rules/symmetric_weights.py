"""Give quantized constants a form that TensorRT reads: int8 with the zero point 0, else float.

TensorRT dequantizes signed codes around 0 only. Of others it says

    Non-zero zero point is not supported.
    only supports symmetric quantization - zeroPt must be all zeros
    Found unsupported input type of UINT8
    convertOnnxWeights(initializer, &weights): Failed to import initializer

Codes less their zero point are the same numbers. Where they fit into int8 (uint8 around 128: always)
the layer stays quantized; else the constant becomes float and the layer runs in float.

    before    y = DequantizeLinear(w, scale, 128)            w: constant, uint8
    after     y = DequantizeLinear(int8(w - 128), scale, 0)
"""

from typing import Any

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, evaluate, remake, required, rule

INTEGERS = ("int8", "uint8", "int4", "uint4", "int16", "uint16")


@rule("DequantizeLinear", "com.microsoft.DequantizeLinear", stage="compat", lacks="asymmetric-quantization")
def symmetric_weights(node: Node) -> Value | np.ndarray | None:
    (codes, scale), zero = required(node, 2), node.operands(3)[2]
    if not codes.is_constant or codes.dtype is None:
        return None
    name, zeros = codes.dtype.name, constant(zero)
    if name not in INTEGERS or (name in ("int8", "int4") and (zero is None or _are_zero(zeros))):
        return None
    if (zero is not None and zeros is None) or not scale.is_constant:
        raise Skip("its scale or its zero point is computed at run time")
    shifted = _shifted(node, codes.constant, zeros)
    if shifted is not None:
        return remake(node, shifted, scale, np.zeros_like(scale.constant, np.int8))
    arrays = evaluate(node)
    if arrays is None:
        raise Skip("onnxruntime does not compute it")
    return arrays[0]


def _are_zero(zeros: np.ndarray | None) -> bool:
    return zeros is not None and not zeros.astype(np.int32).any()


def _shifted(node: Node, codes: np.ndarray | None, zeros: np.ndarray | None) -> np.ndarray | None:
    """The codes less their zero points as int8; None where they do not fit, or are in blocks."""
    if codes is None or node.attr("block_size"):
        return None
    axis = node.attr("axis", 1) if zeros is not None and zeros.size > 1 else -1
    last = np.moveaxis(np.atleast_1d(codes.astype(np.int32)), axis, -1)
    if zeros is not None:
        last = last - zeros.astype(np.int32)
    fits = last.size == 0 or (last.min() >= -128 and last.max() <= 127)
    return np.moveaxis(last, -1, axis).reshape(codes.shape).astype(np.int8) if fits else None


def _net(call: str, opset: int = 21) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (float[N, 2] x, float r) => (y) <uint8[2, 3] u = {{0, 128, 255, 1, 127, 200}}, int8[2, 3] i = {{-128, 3, 127, 1, 0, -1}},
        uint8[2, 3] v = {{4, 128, 129, 1, 127, 100}}, int16[2, 3] h = {{4, 300, 130, 1, -127, 100}},
        float s = {{0.1}}, float[3] sc = {{0.1, 0.2, 0.7}}, float[2] sr = {{0.3, 0.2}}, uint8 z128 = {{128}}, uint8 z5 = {{5}},
        uint8[3] zc = {{5, 1, 3}}, uint8[3] zc128 = {{128, 128, 128}}, uint8[2] zr = {{2, 0}}, int8 z0 = {{0}}, int8 z3 = {{3}},
        int16 h0 = {{0}}, int32[2, 3] n = {{1, 2, 3, 4, 5, 6}}> {{ d = {call}  y = MatMul (x, d) }}"""


def _four_bits() -> Any:
    """A model with uint4 weights, which ONNX's text form does not have."""
    import onnx.parser

    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <float s = {0.1}> { d = DequantizeLinear (q, s, z)  y = MatMul (x, d) }"""
    )
    for name, shape, codes in (("q", [2, 2], [0, 15, 8, 1]), ("z", [], [8])):
        model.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.UINT4, shape, codes))
    return model


EXAMPLES = [
    Fires(
        _net("DequantizeLinear (u, s, z128)"),
        becomes="""d = DequantizeLinear (int8 [2, 3] {-128, 0, 127, -127, -1, 72}, 0.1, int8 0); y = MatMul (x, d)""",
    ),
    Fires(
        _net("DequantizeLinear (u, sc, zc128)"),
        becomes="""d = DequantizeLinear (int8 [2, 3] {-128, 0, 127, -127, -1, 72}, {0.1, 0.2, 0.7}, int8 {0, 0, 0})
        y = MatMul (x, d)""",
    ),
    Fires(
        _net("DequantizeLinear (v, sc, zc)"),
        becomes="""d = DequantizeLinear (int8 [2, 3] {-1, 127, 126, -4, 126, 97}, {0.1, 0.2, 0.7}, int8 {0, 0, 0})
        y = MatMul (x, d)""",
    ),
    Fires(
        _net("DequantizeLinear <axis = 0> (v, sr, zr)"),
        becomes="""d = DequantizeLinear <axis = 0> (int8 [2, 3] {2, 126, 127, 1, 127, 100}, {0.3, 0.2}, int8 {0, 0})
        y = MatMul (x, d)""",
    ),
    Fires(
        _net("DequantizeLinear (u, sc, zc)"),
        gone="DequantizeLinear",
        becomes="y = MatMul (x, [2, 3] {-0.5, 25.4, 176.4, -0.4, 25.2, 137.9})",
    ),
    Fires(
        _net("DequantizeLinear (u, s, z5)"),
        gone="DequantizeLinear",
        becomes="y = MatMul (x, [2, 3] {-0.5, 12.3, 25.0, -0.4, 12.2, 19.5})",
    ),
    Fires(
        _net("DequantizeLinear (u, s)"),
        gone="DequantizeLinear",
        becomes="y = MatMul (x, [2, 3] {0.0, 12.8, 25.5, 0.1, 12.7, 20.0})",
    ),
    Fires(
        _net("DequantizeLinear (i, s, z3)"),
        gone="DequantizeLinear",
        becomes="y = MatMul (x, [2, 3] {-13.1, 0.0, 12.400001, -0.2, -0.3, -0.4})",
    ),
    Fires(
        _net("DequantizeLinear (h, s, h0)"),
        gone="DequantizeLinear",
        becomes="y = MatMul (x, [2, 3] {0.4, 30.0, 13.0, 0.1, -12.7, 10.0})",
    ),
    Fires(
        _four_bits,
        becomes="d = DequantizeLinear (int8 [2, 2] {-8, 7, 0, -7}, 0.1, int8 0); y = MatMul (x, d)",
    ),
    Fires(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <uint8 u = {130}, float s = {0.5}, uint8 z = {128}> {
            d = DequantizeLinear (u, s, z)  y = Mul (x, d) }""",
        becomes="d = DequantizeLinear (int8 2, 0.5, int8 0); y = Mul (x, d)",
    ),
    Fires(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <uint8[2] u = {0, 255}, float s = {0.5}, uint8 z = {127}> {
            d = DequantizeLinear (u, s, z)  y = Mul (x, d) }""",
        becomes="y = Mul (x, {-63.5, 64.0})",
    ),
    Skips(_net("DequantizeLinear (u, s, q)").replace("float r)", "float r, uint8 q)"), because="at run time"),
    Skips(_net("DequantizeLinear (q, s, z128)").replace("float r)", "float r, uint8[2, 3] q)")),
    Skips(_net("DequantizeLinear (i, s, z0)")),
    Skips(_net("DequantizeLinear (i, sc)")),
    Skips(_net("DequantizeLinear (n, s)")),
    Skips(_net("DequantizeLinear (u, r, z128)"), because="at run time"),
    Fires(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <uint16[2, 2] u = {1, 2, 3, 400}, float s = {0.5}> {
            d = DequantizeLinear (u, s)  y = MatMul (x, d) }""",
        becomes="y = MatMul (x, [2, 2] {0.5, 1.0, 1.5, 200.0})",
    ),
    Fires(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <uint8[2, 4] u = {130, 2, 3, 4, 5, 6, 7, 8}, float[2, 2] s = {0.5, 1, 2, 3},
            uint8[2, 2] z = {128, 1, 2, 3}> { d = DequantizeLinear <block_size = 2> (u, s, z)  y = MatMul (x, d) }""",
        gone="DequantizeLinear",
    ),
    Fires(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <uint8[2] u = {0, 255}, float s = {0.5}, uint8 z = {129}> {
            d = DequantizeLinear (u, s, z)  y = Mul (x, d) }""",
        becomes="y = Mul (x, {-64.5, 63.0})",
    ),
]
