"""Count places where `NonZero` is asked for those of ones: `torch.arange` of older exporters.

TensorRT-RTX has no NonZero, whose size the values decide:

    importNonZero: UNSUPPORTED_NODE: Assertion failed: creator && getPluginCreatorVersion(creator) == CreatorVersion::kV3ONE: NonZero plugin creator version 1 was not found in plugin registry.

    before    y = NonZero(ConstantOfShape<1>(s))                             s: [1]
    after     y = Unsqueeze(Range(0, s, 1), 0)

Of ones of several dimensions each place is divided into its coordinates. Bit-equal.
"""

from typing import Any

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import Fires, Node, Skips, Value, constant, made_by, op, required, rule


@rule("NonZero", stage="compat")
def non_zero_of_ones(node: Node) -> Value | None:
    (ones,) = required(node, 1)
    filled = made_by(ones, "ConstantOfShape", "Expand")
    if filled is None or not ones.rank or node.opset < 12:
        return None
    given: Any
    if filled.op == "Expand":
        value, sizes = required(filled, 2)
        given = constant(value)
    else:
        (sizes,), given = required(filled, 1), filled.attr("value")
    if np.size(given) != 1 or not np.any(given) or sizes.shape != (ones.rank,):
        return None
    lengths = [op.Gather(sizes, np.int64(axis)) for axis in range(ones.rank)]
    behind: list[Any] = [None]  # how many places a step of the axis is
    for length in reversed(lengths[1:]):
        behind.insert(0, length if behind[0] is None else op.Mul(behind[0], length))
    total = lengths[0] if behind[0] is None else op.Mul(lengths[0], behind[0])
    places = op.Range(np.int64(0), total, np.int64(1))
    rows = []
    for axis, (length, step) in enumerate(zip(lengths, behind, strict=True)):
        row = places if step is None else op.Div(places, op.Max(step, np.int64(1)))
        rows.append(unsqueezed(node, row if axis == 0 else op.Mod(row, op.Max(length, np.int64(1))), [0]))
    return rows[0] if len(rows) == 1 else op.Concat(*rows, axis=0)


_NET = """<ir_version: 8, opset_import: ["" : %d]>
    g (float[%s] x) => (y)
    <int64[1] one = {1}, int64[1, 1] ones = {1}, float[2] two = {1, 1}, float z = {0}, int64[0] none = {}> { s = Shape (x)  o = %s  y = NonZero (o) }"""

EXAMPLES = [
    Fires(
        _NET % (17, "N", "ConstantOfShape <value = int64[1] {1}> (s)"),
        becomes="s = Shape (x); _1 = Gather (s, 0); _2 = Range (0, _1, 1); y = Unsqueeze (_2, {0})",
    ),
    Fires(_NET % (17, "N, M, 2", "ConstantOfShape <value = float[1] {2.5}> (s)"), gone="NonZero"),
    Fires(_NET % (12, "N, M", "Expand (one, s)"), gone="NonZero"),
    Skips(_NET % (11, "N", "Expand (one, s)")),
    Skips(_NET % (17, "N", "ConstantOfShape (s)")),
    Skips(_NET % (17, "N", "Expand (z, s)")),
    Skips(_NET % (17, "N", "Expand (ones, s)")),
    Skips(_NET % (17, "2", "Expand (two, s)")),
    Skips(_NET % (17, "N", "ConstantOfShape <value = int64[1] {1}> (none)")),
    Skips(_NET % (17, "N", "Relu (x)")),
]
