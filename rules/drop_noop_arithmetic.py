"""Remove arithmetic that changes nothing, bit for bit.

`x * 1`, `x / 1`, `x - 0` and `x ** 1` are `x` for every float, NaN and the zeros included; for
integers `x + 0` as well. A float `x + 0` stays: it turns -0 into +0.

    before    y = Div(x, 1.0)
    after     y = x
"""

import numpy as np

from onnxq.rule import Fires, Node, Skips, Tensor, Value, required, rule

NEUTRAL = {"Mul": 1, "Div": 1, "Sub": 0, "Pow": 1, "Add": 0}


@rule("Mul", "Div", "Sub", "Pow", "Add", stage="clean")
def drop_noop_arithmetic(node: Node) -> Value | None:
    one, other = required(node, 2)
    if node.op in ("Mul", "Add") and one.is_constant:
        one, other = other, one
    values = other.constant
    if values is None or not _is_neutral(node.op, values):
        return None
    return one if _keeps_shape(one, values.shape, node.outputs[0]) else None


def _keeps_shape(one: Tensor, other: tuple[int, ...], out: Tensor) -> bool:
    """Whether a constant of the shape `other` does not broadcast the other operand to its own shape."""
    if one.shape is None:
        return False
    if one.shape == out.shape and None not in one.shape:
        return True
    return len(other) <= len(one.shape) and set(other) <= {1}


def _is_neutral(op: str, values: np.ndarray) -> bool:
    if op == "Add" and values.dtype.kind not in "iu":
        return False
    if op == "Sub" and np.signbit(values.astype(np.float64)).any():  # x - -0 makes +0 of -0
        return False
    return bool((values == NEUTRAL[op]).all())


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3] x) => (float[N, 3] y) <float one = {1}, float zero = {0}, float minus = {-0.0}, float two = {2},
        float[3] row = {1, 2, 1}> { b = %s  y = Relu (b) }"""

EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3] x) => (float[N, 3] y) <float one = {1}, float[1] zero = {0}> {
            a = Mul (one, x)  b = Sub (a, zero)  c = Div (b, one)  y = Relu (c) }""",
        gone="Div",
        becomes="y = Relu (x)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3] x) => (float[N, 3] y) <float zero = {0}> { y = Add (x, zero) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 1] x) => (float[N, 3] y) <float[3] one = {1, 1, 1}> { y = Mul (x, one) }"""
    ),
    *(
        Fires(_NET % call, becomes="y = Relu (x)")
        for call in ("Mul (x, one)", "Sub (x, zero)", "Pow (x, one)")
    ),
    *(Skips(_NET % call) for call in ("Mul (x, two)", "Mul (row, x)", "Sub (zero, x)", "Div (one, x)")),
    Skips(_NET % "Sub (x, minus)"),
    Skips((_NET % "Mul (x, one)").replace("[N, 3]", "[]")),
    Skips("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (y) <float[1, 1] one = {1}> { y = Mul (x, one) }"""),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[N, 3] x) => (y) <int32[3] none = {0, 0, 0}> { a = Add (none, x)  y = Abs (a) }""",
        becomes="y = Abs (x)",
    ),
]
