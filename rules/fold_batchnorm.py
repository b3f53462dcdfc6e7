"""Fold BatchNormalization into the convolution or Gemm before it.

In inference it is an affine map of each channel, so that it disappears into weights and bias:

    before    y = BatchNormalization(Conv(x, W, b), scale, B, mean, var)
    after     y = Conv(x, W * s, (b - mean) * s + B)          s = scale / sqrt(var + epsilon)

A Q/DQ pair between the two would cost accuracy, and the range of the convolution's own output,
which nobody reads, would be calibrated. The folded weights are computed in double precision.
"""

import numpy as np

from onnxq.rule import Close, Fires, Node, Skip, Skips, constant, layer_of, made_by, remake, required, rule


@rule("BatchNormalization", stage="fuse")
def fold_batchnorm(node: Node) -> Close | None:
    source, *parameters = required(node, 5)
    maker = made_by(source, "Conv", "ConvTranspose", "Gemm")
    layer = None if maker is None else layer_of(maker)
    if layer is None:
        return None
    before = layer.node
    if node.attr("training_mode") or any(tensor.users for tensor in node.outputs[1:]):
        raise Skip("it is in training mode")
    if len(source.users) != 1 or source.is_output:
        raise Skip(f"others read {source.name!r} too")
    values = [constant(parameter) for parameter in parameters]
    weights = layer.weight.constant
    bias = layer.bias
    if any(value is None or value.ndim != 1 for value in values) or weights is None:
        raise Skip("its parameters are not constants, one a channel")
    if bias is None:
        raise Skip(f"the bias of {before.name!r} is not one constant a channel")
    scale, offset, mean, variance = (np.asarray(v, np.float64) for v in values)
    stretch = variance + node.attr("epsilon")
    if not (stretch > 0).all():
        raise Skip("its variance is negative or zero")
    factor = scale / np.sqrt(stretch)
    new_bias = (bias - mean) * factor + offset
    return Close(remake(before, before.inputs[0], layer.scaled(factor), new_bias.astype(weights.dtype)))


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2, 4, 4] x) => (y%s) <float[3, 2, 1, 1] w = {1, 2, 3, -4, 0.5, 0}, float[3] b = {1, 0, -1},
        float[3] s = {1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] m = {0.5, 0, -0.25}, float[3] v = {1, 4, 0.25}> {
        c = Conv (x, w, b)  y = BatchNormalization (c, s, o, m, v)%s }"""

EXAMPLES = [
    Fires(
        _NET % ("", ""),
        gone="BatchNormalization",
        becomes="""y = Conv (x, [3, 2, 1, 1] {0.999995, 1.99999, 0.74999905, -0.99999875, -1.99996, -0.0}, {0.4999975, 1.0, 4.99994})""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4, 3, 3] x) => (y) <float[4, 1, 2, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 1, 0, 2, 2, 2, 2},
            float[2] s = {1, 0.5}, float[2] o = {0, 1}, float[2] m = {0.5, 0}, float[2] v = {1, 4}> {
            c = ConvTranspose <group = 2> (x, w)  y = BatchNormalization (c, s, o, m, v) }""",
        gone="BatchNormalization",
        becomes="""y = ConvTranspose <group = 2> (x, [4, 1, 2, 2] {0.999995, 1.99999, 2.999985, 3.99998, 4.999975, 5.99997, 6.999965, 7.99996, 0.24999969, 0.0, 0.24999969, 0.0, 0.49999937, 0.49999937, 0.49999937, 0.49999937}, {-0.4999975, 1.0})""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 2] x) => (y) <float[3, 2] w = {1, 2, 3, -4, 0.5, 0},
            float[3] s = {1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] m = {0.5, 0, -0.25}, float[3] v = {1, 4, 0.25}> {
            c = Gemm <transB = 1> (x, w)  y = BatchNormalization (c, s, o, m, v) }""",
        gone="BatchNormalization",
        becomes="""y = Gemm <transB = 1> (x, [3, 2] {0.999995, 1.99999, 0.74999905, -0.99999875, -1.99996, -0.0}, {-0.4999975, 1.0, 1.00002})""",
    ),
    Skips((_NET % ("", "")).replace("{1, 4, 0.25}", "{1, -4, 0.25}"), because="variance is negative"),
    Skips(
        (_NET % ("", "")).replace("4] x)", "4] x, float[3] r)").replace("m, v)", "r, v)"),
        because="not constants",
    ),
    Skips((_NET % ("", "")).replace("4] x)", "4] x, float[3, 2, 1, 1] r)").replace("(x, w, b)", "(x, r, b)")),
    Skips((_NET % ("", "")).replace("c = Conv (x, w, b)", "d = Conv (x, w, b)  c = Relu (d)")),
    Skips(_NET % (", z", "  z = Relu (c)"), because="others read"),
    Skips(_NET % (", c", ""), because="others read"),
    Skips(
        (_NET % ("", "")).replace(
            "y = BatchNormalization", "y, n, q = BatchNormalization <training_mode = 1>"
        ),
        because="training",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 2] x) => (y) <float[3, 2] w = {1, 2, 3, -4, 0.5, 0}, float[3, 1] c = {1, 2, 3},
            float[3] s = {1, 0.5, -2}, float[3] o = {0, 1, 2}, float[3] m = {0.5, 0, -0.25}, float[3] v = {1, 4, 0.25}> {
            a = Gemm <transB = 1> (x, w, c)  y = BatchNormalization (a, s, o, m, v) }""",
        because="not one constant a channel",
    ),
    Skips(
        (_NET % ("", "")).replace("0.25}>", "0}>").replace("tion (c", "tion <epsilon = 0.0> (c"),
        because="zero",
    ),
    Skips(
        (_NET % ("", "")).replace("4, 4] x", "4, 4] x, float[3] p").replace("(c, s", "(c, p"),
        because="its parameters are not constants",
    ),
    Skips((_NET % ("", "")).replace("4, 4] x", "4, 4] x, float[3, 2, 1, 1] p").replace("(x, w", "(x, p")),
]
