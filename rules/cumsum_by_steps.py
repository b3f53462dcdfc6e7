"""Write a CumSum that TensorRT sums along another one's axis as sums with what stands 1, 2, 4, ... places before.

From 10.8 on TensorRT was seen to compute all CumSums of a model along one axis, or in one direction, without a word
(github.com/NVIDIA/TensorRT, issues 4551 and 4513). The first CumSum stays, and those with its axis and direction:

    before    a = CumSum(x, 0)    b = CumSum(x, 1)
    after     a = CumSum(x, 0)    x1 = x + (x one place before, else 0)    b = x1 + (x1 two places before, else 0)

log2 of the size steps, none of which takes more memory than the result. Integers are equal, floats are added in
another order, of half precision in float32. The size has to be known.
"""

import numpy as np

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, is_float, op, required, rule


@rule("CumSum", stage="compat", lacks="cumsum-settings")
def cumsum_by_steps(node: Node) -> Except | Value | None:
    x, _ = required(node, 2)
    settings = [setting for one in node.alike if (setting := _setting(one)) is not None]
    own = _setting(node)
    if own is None or own == settings[0]:
        return None
    assert x.shape is not None
    axis, back = own
    size = x.shape[axis]
    if not isinstance(size, int):
        raise Skip(f"dimension {axis} is dynamic ({size}): give --assume {size}=16, or another size")
    short = x.dtype == np.float16
    value: Value = op.Cast(x, to=1) if short else x
    if node.attr("exclusive"):
        value = _shifted(value, 1, size, axis, len(x.shape), back)
    for bit in range(max(size - 1, 0).bit_length()):
        value = op.Add(value, _shifted(value, 1 << bit, size, axis, len(x.shape), back))
    if value is x:
        return op.Identity(x)
    value = op.Cast(value, to=10) if short else value
    if x.dtype is not None and not is_float(x.dtype):
        return value
    return Except(Close(value), "extreme-input", "whether a sum overflows on its way depends on the order")


def _setting(node: Node) -> tuple[int, bool] | None:
    """The axis of a CumSum, and whether it runs backwards; None where the axis or the rank is not known."""
    x, axis = node.operands(2)
    if x is None or axis is None or axis.scalar is None or x.shape is None:
        return None
    return int(axis.scalar) % max(len(x.shape), 1), bool(node.attr("reverse"))


def _shifted(value: Value, by: int, size: int, axis: int, rank: int, back: bool) -> Value:
    """The values `by` places before (behind, for `back`), and zeros where there are none."""
    pads = np.zeros((2, rank), np.int64)
    pads[int(back), axis] = by
    kept = (by, size) if back else (0, size - by)
    return op.Pad(op.Slice(value, *(np.array([number]) for number in (*kept, axis))), pads.ravel())


def _net(second: str = "", axis: str = "one", shape: str = "N, 5", kind: str = "float") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({kind}[{shape}] x, int64 r) => (y, z) <int64 zero = {{0}}, int64 one = {{1}}> {{
        y = CumSum (x, zero)  z = CumSum {second} (x, {axis}) }}"""


_STEPS = """y = CumSum (x, 0); _1 = Slice (x, {0}, {4}, {1}); _2 = Pad (_1, {0, 1, 0, 0}); _3 = Add (x, _2)
        _4 = Slice (_3, {0}, {3}, {1}); _5 = Pad (_4, {0, 2, 0, 0}); _6 = Add (_3, _5)
        _7 = Slice (_6, {0}, {1}, {1}); _8 = Pad (_7, {0, 4, 0, 0}); z = Add (_6, _8)"""

EXAMPLES = [
    Fires(_net(), becomes=_STEPS),
    Fires(
        _net("<exclusive = 1, reverse = 1>", shape="N, 2"),
        becomes="""y = CumSum (x, 0); _1 = Slice (x, {1}, {2}, {1}); _2 = Pad (_1, {0, 0, 0, 1})
        _3 = Slice (_2, {1}, {2}, {1}); _4 = Pad (_3, {0, 0, 0, 1}); z = Add (_2, _4)""",
    ),
    Fires(
        _net("<reverse = 1>", "zero", "3, N"),
        becomes="""y = CumSum (x, 0); _1 = Slice (x, {1}, {3}, {0}); _2 = Pad (_1, {0, 0, 1, 0}); _3 = Add (x, _2)
        _4 = Slice (_3, {2}, {3}, {0}); _5 = Pad (_4, {0, 0, 2, 0}); z = Add (_3, _5)""",
    ),
    Fires(_net(kind="int32"), becomes=_STEPS),
    Fires(
        _net(kind="float16", shape="N, 2"),
        becomes="""y = CumSum (x, 0); _1 = Cast <to = 1> (x); _2 = Slice (_1, {0}, {1}, {1})
        _3 = Pad (_2, {0, 1, 0, 0}); _4 = Add (_1, _3); z = Cast <to = 10> (_4)""",
    ),
    Fires(_net(shape="N, 1"), becomes="y = CumSum (x, 0); z = Identity (x)"),
    Skips(_net("<exclusive = 1>", "zero")),
    Skips(_net(axis="r")),
    Skips(_net(shape="5, N"), because="--assume N="),
]
