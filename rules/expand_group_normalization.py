"""Write `GroupNormalization` as an InstanceNormalization of its groups, and a scale and a bias for each channel.

TensorRT before 8.6 has no importer for it, and before 10.9 none for that of opset 21, which has a scale for each
channel where it had one for each group:

    scale dimensions not compatible for normalization

Of one group all of them, up to 11.1, normalize each channel alone, without a word.

    before    y = GroupNormalization<num_groups=g>(x, scale, bias)                   x: [N, C, H, W]
    after     y = Reshape(InstanceNormalization(Reshape(x, [0, g, -1]), 1, 0), Shape(x)) * scale + bias

A scale for each group is applied before the second Reshape.
"""

import numpy as np

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule


@rule("GroupNormalization", stage="compat")
def expand_group_normalization(node: Node) -> Except | None:
    groups = node.attr("num_groups")
    lacks = [
        (True, "GroupNormalization"),
        (node.opset >= 21, "group-normalization-21"),
        (groups == 1, "one-group"),
    ]
    if not any(has and node.lacks(name) for has, name in lacks):
        return None
    x, scale, bias = required(node, 3)
    if x.rank is None or x.dtype is None:
        raise Skip(f"the rank or the type of {x.name!r} is not known")
    if x.rank < 3:
        return None  # lift_group_normalization gives it a third dimension
    ones, zeros = np.ones(groups, x.dtype), np.zeros(groups, x.dtype)
    rows = op.Reshape(x, np.array([0, groups, -1]))
    normal = op.InstanceNormalization(rows, ones, zeros, epsilon=node.attr("epsilon", 1e-5))
    if node.opset < 21:  # a scale and a bias for each group
        y = op.Reshape(_scaled(normal, scale, bias, 3), _sizes(x))
    else:
        y = _scaled(op.Reshape(normal, _sizes(x)), scale, bias, x.rank)
    return Except(Close(y), "extreme-input", "of what overflows on the way nothing is known")


def _sizes(x: Tensor) -> Value | np.ndarray:
    """The sizes of x: constant, where one at most is only known at run time."""
    shape = x.shape or ()
    if sum(not isinstance(size, int) for size in shape[1:]) > 1:
        return op.Shape(x)
    return np.array([0, *(size if isinstance(size, int) else -1 for size in shape[1:])])


def _scaled(x: Value, scale: Tensor, bias: Tensor, rank: int) -> Value:
    y: Value = op.Add(op.Mul(x, _a_channel(scale, rank)), _a_channel(bias, rank))
    return y


def _a_channel(values: Tensor, rank: int) -> Value | np.ndarray:
    """A number for each channel, as it is multiplied with a tensor of so many dimensions."""
    sizes, known = [-1, *[1] * (rank - 2)], constant(values)
    return op.Reshape(values, np.array(sizes)) if known is None else known.reshape(sizes)


def _net(sizes: str = "N, 4, H, W", opset: int = 21, s: str = "1, -2, 0.5, 3", kind: str = "float") -> str:
    count = len(s.split(","))
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g ({kind}[{sizes}] x, {kind}[{count}] b) => ({kind}[{sizes}] y) <{kind}[{count}] s = {{{s}}}> {{
        y = GroupNormalization <num_groups = 2, epsilon = 0.01> (x, s, b) }}"""


EXAMPLES = [
    Fires(
        _net(),
        becomes="""_1 = Reshape (x, {0, 2, -1}); _2 = InstanceNormalization <epsilon = 0.01> (_1, {1.0, 1.0}, {0.0, 0.0})
        _3 = Shape (x); _4 = Reshape (_2, _3); _5 = Mul (_4, [4, 1, 1] {1.0, -2.0, 0.5, 3.0})
        _6 = Reshape (b, {-1, 1, 1}); y = Add (_5, _6)""",
    ),
    Fires(
        _net("1, 4, 3, 5"),
        becomes="""_1 = Reshape (x, {0, 2, -1}); _2 = InstanceNormalization <epsilon = 0.01> (_1, {1.0, 1.0}, {0.0, 0.0})
        _3 = Reshape (_2, {0, 4, 3, 5}); _4 = Mul (_3, [4, 1, 1] {1.0, -2.0, 0.5, 3.0})
        _5 = Reshape (b, {-1, 1, 1}); y = Add (_4, _5)""",
    ),
    Fires(_net("N, 4, L"), gone="GroupNormalization"),
    Fires(
        _net("N, 4, 6", 18, "1, -2"),
        becomes="""_1 = Reshape (x, {0, 2, -1}); _2 = InstanceNormalization <epsilon = 0.01> (_1, {1.0, 1.0}, {0.0, 0.0})
        _3 = Mul (_2, [2, 1] {1.0, -2.0}); _4 = Reshape (b, {-1, 1}); _5 = Add (_3, _4)
        y = Reshape (_5, {0, 4, 6})""",
    ),
    Fires(
        _net("1, 4, 3, 5", kind="float16", s="15360, 49152, 14336, 16896"),
        gone="GroupNormalization",
        becomes="""_1 = Reshape (x, {0, 2, -1}); _2 = InstanceNormalization <epsilon = 0.01> (_1, float16 {1.0, 1.0}, float16 {0.0, 0.0})
        _3 = Reshape (_2, {0, 4, 3, 5}); _4 = Mul (_3, float16 [4, 1, 1] {1.0, -2.0, 0.5, 3.0})
        _5 = Reshape (b, {-1, 1, 1}); y = Add (_4, _5)""",
    ),
    Fires(
        _net("N, 4, H, 3").replace(", epsilon = 0.01", ""),
        becomes="""_1 = Reshape (x, {0, 2, -1}); _2 = InstanceNormalization <epsilon = 1e-05> (_1, {1.0, 1.0}, {0.0, 0.0})
        _3 = Reshape (_2, {0, 4, -1, 3}); _4 = Mul (_3, [4, 1, 1] {1.0, -2.0, 0.5, 3.0})
        _5 = Reshape (b, {-1, 1, 1}); y = Add (_4, _5)""",
    ),
    Skips(_net("N, 4")),
    Skips(
        _net()
        .replace("y = ", "h = com.microsoft.QuickGelu (x)  y = ")
        .replace("(x, s", "(h, s")
        .replace(": 21]", ': 21, "com.microsoft" : 1]'),
        because="rank",
    ),
]
