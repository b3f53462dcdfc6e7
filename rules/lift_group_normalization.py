"""Give a `GroupNormalization` of two dimensions a third one.

Input to normalization should be at least 3D, the actual number of dimensions is 2.

before    y = GroupNormalization(x, scale, bias)                                 x: [N, channels]
after     y = Squeeze(GroupNormalization(Unsqueeze(x, 2), scale, bias), 2)
"""

import numpy as np

from onnxq.rule import Close, Fires, Node, Skip, Skips, op, remake, required, rule


@rule("GroupNormalization", stage="compat", lacks="vectors")
def lift_group_normalization(node: Node) -> Close | None:
    x, scale, bias = required(node, 3)
    if x.rank is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    if x.rank != 2:
        return None
    last = np.array([2])
    return Close(op.Squeeze(remake(node, op.Unsqueeze(x, last), scale, bias), last))


_NET = """<ir_version: 10, opset_import: ["" : 21]>
    g (float%s x, float[4] s, float[4] b) => (y) { %sy = GroupNormalization <num_groups = 2> (%s, s, b) }"""

EXAMPLES = [
    Fires(
        _NET % ("[N, 4]", "", "x"),
        becomes="""_1 = Unsqueeze (x, {2}); _2 = GroupNormalization <num_groups = 2> (_1, s, b)
        y = Squeeze (_2, {2})""",
    ),
    Skips(_NET % ("[N, 4, 3]", "", "x")),
    Skips(
        (_NET % ("[N, 4]", "h = com.microsoft.QuickGelu (x) ", "h")).replace(
            ": 21]", ': 21, "com.microsoft" : 1]'
        ),
        because="rank",
    ),
]
