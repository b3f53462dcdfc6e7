"""Read what an `Optional` holds, instead of the optional.

An optional input of a scripted function becomes an Optional, a test whether it holds something and a read of
it. TensorRT has no importer for any of them:

    No importer registered for op: Optional. (...) UNSUPPORTED_NODE: false
    No importer registered for op: OptionalHasElement. (...) UNSUPPORTED_NODE: false

    before    y = OptionalGetElement(Optional(x))     h = OptionalHasElement(Optional(x))
    after     y = x                                   h = true

Equal bit for bit. The branch that is never taken goes with `inline_if`. What an optional input of the model
holds is known only when it runs.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, made_by, operands, rule


@rule("OptionalGetElement", "OptionalHasElement", stage="clean")
def optional_to_value(node: Node) -> Tensor | np.ndarray:
    (given,) = operands(node, 1)
    held = made_by(given, "Optional")
    value = given if held is None else next(iter(held.inputs), None)
    is_known = given is None or held is not None or given.shape is not None
    if not is_known:
        raise Skip(f"whether {given.name if given else ''!r} holds a value is known only when the model runs")
    if node.op == "OptionalHasElement":
        return np.array(value is not None)
    if value is None:
        raise Skip("it reads what an empty Optional holds")
    return value


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (%s) => (float[2, 3] y) { %s }"""
_ASKED = """h = OptionalHasElement (o)  t = If (h) <then_branch = p () => (float[2, 3] a) { a = Relu (x) },
    else_branch = q () => (float[2, 3] b) { b = Neg (x) }>  y = Abs (t)"""


def _net(nodes: str, given: str = "float[2, 3] x") -> str:
    return _NET % (given, nodes)


EXAMPLES = [
    Fires(_net("o = Optional (x)  e = OptionalGetElement (o)  y = Neg (e)"), becomes="y = Neg (x)"),
    Fires(_net("e = OptionalGetElement (x)  y = Neg (e)"), becomes="y = Neg (x)"),
    Fires(_net(f"o = Optional (x)  {_ASKED}"), after=("inline_if",), becomes="a = Relu (x); y = Abs (a)"),
    Fires(
        _net(f"o = Optional <type = float[2, 3]> ()  {_ASKED}"),
        after=("inline_if",),
        becomes="b = Neg (x); y = Abs (b)",
    ),
    Skips(
        _net("e = OptionalGetElement (o)  y = Neg (e)", "optional(float[2, 3]) o"),
        because="'o' holds a value is known only",
    ),
]
