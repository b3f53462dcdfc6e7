"""Fold a constant Mul, Div, Add or Sub into the convolution, Gemm or MatMul before it.

    before    y = Add(Mul(Conv(x, W), c), d)
    after     y = Conv(x, W * c, d)

The constant must be one number, or one for each output channel. (A MatMul has no bias: only Mul and
Div go into it.)
"""

from typing import Any

import numpy as np

from onnxq.rule import (
    Close,
    Fires,
    Layer,
    Node,
    Skip,
    Skips,
    Tensor,
    constant,
    layer_of,
    remake,
    required,
    rule,
)


@rule("Mul", "Div", "Add", "Sub", stage="fuse")
def fold_scale(node: Node) -> Close | None:
    first, second = required(node, 2)
    source, other = (second, first) if first.is_constant else (first, second)
    maker, number = source.producer, constant(other)
    layer = None if maker is None else layer_of(maker)
    if layer is None or number is None:
        return None
    before = layer.node
    weights, bias = layer.weight.constant, layer.bias
    if weights is None or weights.dtype.kind in "iu":
        return None
    if node.op == "Div" and source is not first:
        return None
    if before.op == "MatMul" and (node.op in ("Add", "Sub") or layer.index == 0 or layer.weight.rank != 2):
        return None
    if len(source.users) != 1 or source.is_output:
        if any(user.op in ("Erf", "Sigmoid") and not user.domain for user in node.outputs[0].users):
            return None  # a GELU or a Swish that is written out: nothing could be folded, nor is to be
        raise Skip(f"others read {source.name!r} too")
    channels = _per_channel(number, source, layer)
    if channels is None:
        raise Skip(f"the constant is not one number a channel: shape {list(number.shape)}")
    if not np.isfinite(channels).all() or (node.op == "Div" and not channels.all()):
        raise Skip("the constant is infinite or NaN, or it divides by zero")
    if bias is None:
        raise Skip(f"the bias of {before.name!r} is not one constant a channel")
    data, biased = before.inputs[0], before.operands(3)[2] is not None
    factor, offset = _affine(node.op, channels, reverse=source is not first)
    new_weights = layer.scaled(factor) if np.any(factor != 1) else layer.weight
    new_bias = np.broadcast_to(bias * factor + offset, (layer.outputs,)).astype(weights.dtype)
    if not biased and not new_bias.any():
        return Close(remake(before, data, new_weights))
    return Close(remake(before, data, new_weights, new_bias))


def _per_channel(number: np.ndarray, source: Tensor, layer: Layer) -> np.ndarray | None:
    """The constant as [1] or [output channels]; None where it has another shape."""
    if source.rank is None or number.ndim > source.rank:
        return None
    if number.size == 1:
        return number.reshape(1).astype(np.float64)
    axis = source.rank - 1 if layer.node.op == "MatMul" else 1
    wanted = [1] * source.rank
    wanted[axis] = layer.outputs
    padded = [1] * (source.rank - number.ndim) + list(number.shape)
    return number.reshape(-1).astype(np.float64) if padded == wanted else None


def _affine(op: str, number: np.ndarray, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """The factor and the offset that `op` applies to each channel."""
    one, zero = np.ones(1), np.zeros(1)
    if op == "Mul":
        return number, zero
    if op == "Div":
        return one / number, zero
    if op == "Add":
        return one, number
    return (-one, number) if reverse else (one, -number)


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2, 4, 4] x) => (y) <float[3, 2, 1, 1] w = {1, 2, 3, -4, 0.5, 0}, float[3] b = {1, 0, -1},
        float[3, 1, 1] c = {2, 3, 0.5}, float k = {3}, float[4] row = {1, 2, 3, 4}> {
        a = Conv (x, w, b)  %s }"""


def _infinite() -> Any:
    """A model whose constant the text form does not have."""
    from onnx.numpy_helper import from_array
    from onnx.parser import parse_model

    model = parse_model(_NET % "y = Mul (a, k)")
    (number,) = (tensor for tensor in model.graph.initializer if tensor.name == "k")
    number.CopyFrom(from_array(np.array(np.inf, np.float32), "k"))
    return model


EXAMPLES = [
    Fires(
        _NET % "m = Mul (a, c)  s = Sub (c, m)  d = Div (s, k)  y = Add (d, c)",
        gone="Mul",
        becomes="""y = Conv (x, [3, 2, 1, 1] {-0.6666667, -1.3333334, -3.0, 4.0, -0.083333336, -0.0}, {2.0, 4.0, 0.8333334})""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 5, 2] x) => (y) <float[2, 3] w = {1, 2, 3, -4, 0.5, 0}, float[3] c = {2, 3, 0.5}> {
            a = MatMul (x, w)  y = Mul (a, c) }""",
        gone="Mul",
        becomes="y = MatMul (x, [2, 3] {2.0, 6.0, 1.5, -8.0, 1.5, 0.0})",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 2] x) => (y) <float[2, 3] w = {1, 2, 3, -4, 0.5, 0}, float[3] c = {2, 3, 0.5}> {
            a = Gemm (x, w)  y = Add (a, c) }""",
        gone="Add",
        becomes="y = Gemm (x, [2, 3] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {2.0, 3.0, 0.5})",
    ),
    Fires(
        _NET % "y = Sub (a, k)",
        gone="Sub",
        becomes="y = Conv (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {-2.0, -3.0, -4.0})",
    ),
    Fires(
        _NET % "y = Sub (k, a)",
        becomes="y = Conv (x, [3, 2, 1, 1] {-1.0, -2.0, -3.0, 4.0, -0.5, -0.0}, {2.0, 3.0, 4.0})",
    ),
    Fires(
        (_NET % "y = Mul (k, a)").replace("(x, w, b)", "(x, w)"),
        becomes="y = Conv (x, [3, 2, 1, 1] {3.0, 6.0, 9.0, -12.0, 1.5, 0.0})",
    ),
    Fires(
        (_NET % "y = Add (a, k)").replace("(x, w, b)", "(x, w)"),
        becomes="y = Conv (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {3.0, 3.0, 3.0})",
    ),
    Skips(
        (_NET % "y = Mul (a, k)").replace("float k = {3}", "float[1, 1, 1, 1, 1] k = {3}"),
        because="one number a channel",
    ),
    Skips((_NET % "y = Add (a, r)").replace("4] x)", "4] x, float r)")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[N, 2] x) => (y) <int32[2, 2] w = {1, 2, 3, 4}, int32 k = {3}> { a = MatMul (x, w)  y = Mul (a, k) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, N] x) => (y) <float[2, 2] w = {1, 2, 3, 4}, float k = {3}> { a = MatMul (w, x)  y = Mul (a, k) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4, 2] x) => (y) <float[1, 2, 2] w = {1, 2, 3, 4}, float k = {3}> { a = MatMul (x, w)  y = Mul (a, k) }"""
    ),
    Skips((_NET % "y = Div (a, k)").replace("{3}", "{0}"), because="divides by zero"),
    Skips(_NET % "y = Add (a, row)", because="not one number a channel"),
    Skips((_NET % "y = Add (a, k)  z = Relu (a)").replace("(y)", "(y, z)"), because="others read"),
    Skips((_NET % "y = Add (a, k)").replace("(y)", "(y, a)"), because="others read"),
    Skips(_NET % "d = Mul (a, k)  s = Sigmoid (d)  y = Mul (a, s)"),
    Skips(_NET % "d = Div (a, k)  e = Erf (d)  y = Mul (a, e)"),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 2] x) => (y) <float[2, 3] w = {1, 2, 3, -4, 0.5, 0}, float[3, 1] c = {1, 2, 3}, float k = {3}> {
            a = Gemm (x, w, c)  y = Mul (a, k) }""",
        because="not one constant a channel",
    ),
    Skips(_NET % "y = Div (k, a)"),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 2] x) => (y) <float[2, 3] w = {1, 2, 3, -4, 0.5, 0}, float[3] c = {2, 3, 0.5}> {
            a = MatMul (x, w)  y = Add (a, c) }"""
    ),
    Skips((_NET % "y = Mul (a, k)").replace("x) =>", "x, float[3, 2, 1, 1] v) =>").replace("(x, w", "(x, v")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[N, 2] x) => (y) <int32[2, 2] w = {1, 2, 3, 4}, int32 k = {3}> { a = MatMul (x, w)  y = Mul (a, k) }"""
    ),
    *(
        Skips(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[{shape}] x) => (y) <float[2, 2] w = {{1, 2, 3, 4}}, float k = {{3}}> {{
                a = MatMul (x, w)  y = {name} (a, k) }}"""
        )
        for shape, name in (("N, 2", "Sub"), ("", "Mul"))
    ),
    Skips(_infinite, because="infinite"),
    Fires((_NET % "y = Mul (a, c)").replace("{2, 3, 0.5}", "{2, 0, 0.5}"), gone="Mul"),
    Fires((_NET % "y = Mul (a, c)").replace("float[3, 1, 1]", "float[1, 3, 1, 1]"), gone="Mul"),
    Fires(
        (_NET % "y = Sub (a, c)").replace("{2, 3, 0.5}", "{1, 0, -1}"),
        becomes="y = Conv (x, [3, 2, 1, 1] {1.0, 2.0, 3.0, -4.0, 0.5, 0.0}, {0.0, 0.0, 0.0})",
    ),
]
