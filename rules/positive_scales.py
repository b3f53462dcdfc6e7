"""Give the scale 0 of a dead channel another value.

A quantizer that divides the largest weight by 127 gives a channel of zeros the scale 0. TensorRT
rejects it:

    Scale coefficients must all be positive

The channel's codes are zeros, and stay zeros with every scale: it becomes 1.

    before    y = DequantizeLinear(w, [0.1, 0])         w: constant, zeros where the scale is 0
    after     y = DequantizeLinear(w, [0.1, 1])
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, remake, required, rule


@rule("DequantizeLinear", "QuantizeLinear", stage="compat", lacks="zero-scales")
def positive_scales(node: Node) -> Value | None:
    (codes, scale), zero = required(node, 2), node.operands(3)[2]
    numbers = scale.constant
    if numbers is None or (numbers > 0).all():
        return None
    if not (numbers >= 0).all():
        raise Skip("a scale is negative")
    if node.op == "QuantizeLinear":
        raise Skip("a scale is 0, and it divides by it")
    values, zeros = codes.constant, constant(zero)
    if values is None or (zero is not None and zeros is None) or node.attr("block_size"):
        raise Skip("a scale is 0, and what it multiplies is not a constant with one scale a channel")
    axis = node.attr("axis") if numbers.size > 1 else -1
    last = np.moveaxis(np.atleast_1d(values.astype(np.int64)), axis, -1)
    alive = last != (0 if zeros is None else zeros.astype(np.int64))
    if alive[..., np.broadcast_to(numbers == 0, last.shape[-1])].any():
        raise Skip("a scale is 0 where the codes are not")
    return remake(node, codes, np.where(numbers == 0, numbers.dtype.type(1), numbers), *node.inputs[2:])


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x, int8[3, 2] i) => (y) <int8[3, 2] w = {1, 0, 127, 0, -128, 0}, int8[2, 3] o = {0, 0, 0, 0, 0, 0},
        int8[3, 2] u = {1, 4, 127, 4, -128, 4}, float s = {0}, float[2] c = {0.1, 0}, float[2] b = {0, 0.1},
        float[2] m = {0.1, -0.1}, int8[2] z = {0, 4}, int8 n = {0}> { d = %s  y = %s }"""
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
    Skips(_NET % ("DequantizeLinear (w, b)", _PRODUCT), because="the codes are not"),
    Skips(_NET % ("DequantizeLinear (w, c, z)", _PRODUCT), because="the codes are not"),
    Skips(_NET % ("DequantizeLinear (w, s)", _PRODUCT), because="the codes are not"),
    Skips(_NET % ("DequantizeLinear (w, m)", _PRODUCT), because="negative"),
    Skips(_NET % ("DequantizeLinear (i, c)", _PRODUCT), because="not a constant"),
    Skips(_NET % ("QuantizeLinear (x, s, n)", "DequantizeLinear (d, s, n)"), because="divides"),
    Skips(
        (_NET % ("DequantizeLinear (w, c, q)", _PRODUCT)).replace("i) =>", "i, int8[2] q) =>"),
        because="not a constant",
    ),
    Skips(
        (_NET % ("DequantizeLinear (w, r)", _PRODUCT)).replace("i) =>", "i, float[2] r) =>"),
    ),
    Skips(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 2] x) => (y) <int8[2, 4] w = {0, 0, 0, 0, 1, 1, 1, 1}, float[2, 2] c = {0, 0, 1, 1}> {
            d = DequantizeLinear <block_size = 2> (w, c)  y = MatMul (x, d) }""",
        because="not a constant",
    ),
]
