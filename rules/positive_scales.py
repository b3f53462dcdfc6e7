"""Give a constant whose scales are 0 or negative positive ones.

A quantizer that divides the largest weight by 127 gives a channel of zeros the scale 0, and one that divides
by the weight of largest magnitude gives negative ones. TensorRT rejects both:

    Scale coefficients must all be positive

A channel of scale 0 holds zeros: its codes become the zero point, and its scale 1. Codes of a negative scale
change their sign; where that does not fit the type (-128), the constant becomes float.

    before    y = DequantizeLinear(w, [0.1, 0, -0.2])         w: constant
    after     y = DequantizeLinear([w, 0, -w], [0.1, 1, 0.2])
"""

import numpy as np

from onnxq.rule import Except, Fires, Node, Skip, Skips, Value, constant, evaluate, remake, required, rule


@rule("DequantizeLinear", "com.microsoft.DequantizeLinear", stage="compat", lacks="zero-scales")
def positive_scales(node: Node) -> Except | Value | np.ndarray | None:
    (codes, scale), zero = required(node, 2), node.operands(3)[2]
    numbers = scale.constant
    if numbers is None or not codes.is_constant or (numbers > 0).all():
        return None
    values, zeros = codes.constant, constant(zero)
    if values is None or (zero is not None and zeros is None):
        raise Skip("a scale is 0 or negative, and its zero point is computed at run time")
    turned = None if node.attr("block_size", 0) else _turned(node, values, numbers, zeros)
    if turned is not None:
        scales = np.where(numbers == 0, numbers.dtype.type(1), np.abs(numbers))
        same = remake(node, turned, scales, *node.inputs[2:])
        if (numbers >= 0).all() and (turned == values).all():
            return same
        return Except(same, "zero-sign", "codes have no -0")
    arrays = evaluate(node)
    if arrays is None:
        raise Skip("a scale is 0 or negative, and onnxruntime does not compute it")
    return arrays[0]


def _turned(
    node: Node, values: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None
) -> np.ndarray | None:
    """The codes for scales that are positive; None where they do not fit their type."""
    if values.dtype.name not in ("int8", "uint8", "int16", "uint16", "int32"):
        return None
    axis = node.attr("axis", 1) if scales.size > 1 else -1
    last = np.moveaxis(np.atleast_1d(values.astype(np.int64)), axis, -1)
    zero = np.int64(0) if zeros is None else zeros.astype(np.int64)
    last = zero + (last - zero) * np.sign(scales).astype(np.int64)
    info = np.iinfo(values.dtype)
    if last.size and (last.min() < info.min or last.max() > info.max):
        return None
    back: np.ndarray = np.moveaxis(last, -1, axis).reshape(values.shape).astype(values.dtype)
    return back


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x, int8[3, 2] i) => (y) <int8[3, 2] w = {1, 0, 127, 0, -128, 0}, int8[2, 3] o = {0, 0, 0, 0, 0, 0},
        int8[3, 2] u = {1, 4, 127, 4, -128, 4}, float s = {0}, float[2] c = {0.1, 0}, float[2] b = {0, 0.1},
        float[2] m = {0.1, -0.1}, float[2] k = {-0.1, 0.1}, int8[2] z = {0, 4}, int8 n = {0},
        uint8[1, 2] h = {9, 200}, uint8[2] hz = {0, 100}> { d = %s  y = %s }"""
_PRODUCT = "MatMul (x, d)"

EXAMPLES = [
    Fires(
        _NET % ("DequantizeLinear (w, c)", _PRODUCT),
        becomes="d = DequantizeLinear (int8 [3, 2] {1, 0, 127, 0, -128, 0}, {0.1, 1.0}); y = MatMul (x, d)",
    ),
    Fires(
        _NET % ("DequantizeLinear (u, c, z)", _PRODUCT),
        becomes="""d = DequantizeLinear (int8 [3, 2] {1, 4, 127, 4, -128, 4}, {0.1, 1.0}, int8 {0, 4}); y = MatMul (x, d)""",
    ),
    Fires(
        _NET % ("DequantizeLinear <axis = 0> (o, b)", "Add (d, d)"),
        becomes="d = DequantizeLinear <axis = 0> (int8 [2, 3] {0, 0, 0, 0, 0, 0}, {1.0, 0.1}); y = Add (d, d)",
    ),
    Fires(
        _NET % ("DequantizeLinear (o, s, n)", "Add (d, d)"),
        becomes="d = DequantizeLinear (int8 [2, 3] {0, 0, 0, 0, 0, 0}, 1.0, int8 0); y = Add (d, d)",
    ),
    Fires(
        _NET % ("DequantizeLinear (w, b)", _PRODUCT),
        becomes="d = DequantizeLinear (int8 [3, 2] {0, 0, 0, 0, 0, 0}, {1.0, 0.1}); y = MatMul (x, d)",
    ),
    Fires(_NET % ("DequantizeLinear (w, c, z)", _PRODUCT)),
    Fires(_NET % ("DequantizeLinear (w, s)", _PRODUCT)),
    Fires(
        _NET % ("DequantizeLinear (w, m)", _PRODUCT),
        becomes="d = DequantizeLinear (int8 [3, 2] {1, 0, 127, 0, -128, 0}, {0.1, 0.1}); y = MatMul (x, d)",
    ),
    Fires(_NET % ("DequantizeLinear (w, k)", _PRODUCT), gone="DequantizeLinear"),
    Fires(_NET % ("DequantizeLinear (h, k, hz)", "Add (d, d)"), gone="DequantizeLinear"),
    Skips(_NET % ("DequantizeLinear (i, c)", _PRODUCT)),
    Skips(
        (_NET % ("DequantizeLinear (w, c, q)", _PRODUCT)).replace("i) =>", "i, int8[2] q) =>"),
        because="at run time",
    ),
    Skips(
        (_NET % ("DequantizeLinear (w, r)", _PRODUCT)).replace("i) =>", "i, float[2] r) =>"),
    ),
    Fires(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <int8[2, 4] w = {0, 0, 0, 0, 1, 1, 1, 1}, float[2, 2] c = {0, 0, 1, 1}> {
            d = DequantizeLinear <block_size = 2> (w, c)  y = MatMul (x, d) }""",
        gone="DequantizeLinear",
    ),
]
