"""Count by a sum what is not zero, where `NonZero` is read for its size alone.

TensorRT-RTX has no NonZero, whose size the values decide:

    importNonZero: UNSUPPORTED_NODE: Assertion failed: creator && getPluginCreatorVersion(creator) == CreatorVersion::kV3ONE: NonZero plugin creator version 1 was not found in plugin registry.

and where there is one, each run waits for its count.

    before    s = Shape(NonZero(x))                                          x: [N, M]
    after     s = Concat(2, ReduceSum(Cast(Cast(x, bool), int64), keepdims=1))

Also behind a Transpose. Everything that reads the NonZero must be such a Shape. Bit-equal.
"""

from typing import Any

import numpy as np
from _opsets import reduced

from onnxq.rule import Fires, Node, Skips, Tensor, Value, made_by, op, operands, required, rule

_BOOL, _INT64 = 9, 7


@rule("Shape", stage="compat")
def count_non_zero(node: Node) -> Value | None:
    (found,) = required(node, 1)
    turned = made_by(found, "Transpose")
    source = found if turned is None else operands(turned, 1)[0]
    search = made_by(source, "NonZero")
    data = None if search is None else operands(search, 1)[0]
    if data is None or not data.rank or source is None or not _is_measured(source):
        return None
    mask: Any = data if data.dtype == np.dtype(bool) else op.Cast(data, to=_BOOL)
    total = op.Reshape(
        reduced(node, "ReduceSum", op.Cast(mask, to=_INT64), list(range(data.rank))), np.array([1])
    )
    sizes: list[Any] = [np.array([data.rank]), total]
    if turned is not None and (turned.attr("perm") or [1, 0]) == [1, 0]:
        sizes.reverse()
    wanted = sizes[slice(node.attr("start", 0), node.attr("end"))]
    if total not in wanted:
        return None  # the rank is a constant for `fold_constants`
    return total if len(wanted) == 1 else op.Concat(*wanted, axis=0)


def _is_measured(value: Tensor) -> bool:
    """Whether a value is read for its size alone."""
    if value.is_output:
        return False
    return all(
        user.op == "Shape" or (user.op == "Transpose" and _is_measured(user.outputs[0]))
        for user in value.users
    )


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (%s x) => (%s) { n = NonZero (x)  %s }"""

EXAMPLES = [
    Fires(
        _NET % ("bool[N, 3]", "y", "y = Shape (n)"),
        becomes="""_1 = Cast <to = 7> (x); _2 = ReduceSum <keepdims = 0> (_1, {0, 1})
        _3 = Reshape (_2, {1}); y = Concat <axis = 0> ({2}, _3)""",
    ),
    Fires(_NET % ("float[4]", "y", "t = Transpose (n)  y = Shape (t)"), gone="NonZero"),
    Fires(_NET % ("float[4, M]", "y", "y = Shape <start = -1> (n)"), gone="NonZero"),
    Skips(_NET % ("float[4]", "y, n", "y = Shape (n)")),
    Skips(_NET % ("float[4]", "y, t", "y = Shape (n)  t = Neg (n)")),
]
