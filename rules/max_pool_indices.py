"""Compute the indices of a `MaxPool` by comparing the places of its windows.

`MaxPool2d(return_indices=True)` has a second output, from which TensorRT refuses the node:

    emptyOutputChecker: UNSUPPORTED_NODE: This version of TensorRT doesn't support mode than 1 outputs for MaxPool nodes!

    before    y, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x)
    after     y = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x)
              b = x[0::2, 0::2];  n = 0                                  the largest so far, and its place
              n = Where(Greater(x[0::2, 1::2], b), 1, n);  b = Max(...)  ... place by place
              i = Gather([0, 1, W, W + 1], n) + first element of each window

Of equal ones the first is taken, as in onnxruntime. Windows have at most 64 places.
"""

from typing import Any

import numpy as np
from _opsets import size_of
from _windows import MOST_PLACES, Window, place, pooled, spread, windows_of

from onnxq.rule import Except, Fires, Node, Skip, Skips, Tensor, Value, is_float, op, remake, required, rule


@rule("MaxPool", stage="compat", lacks="max-pool-indices")
def max_pool_indices(node: Node) -> Any:
    (x,) = required(node, 1)
    if len(node.outputs) < 2 or not (node.outputs[1].users or node.outputs[1].is_output):
        return None
    if x.dtype is None or not is_float(x.dtype):
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}")
    windows = windows_of(node, x)
    if np.prod([window.kernel for window in windows]) > MOST_PLACES:
        raise Skip(f"its windows have more than {MOST_PLACES} places, and its indices are read")
    wide = spread(node, x, windows, np.array(-np.inf, x.dtype))
    if all(window.dilation == 1 for window in windows):
        y = remake(node, x, storage_order=None)
    else:
        y = pooled(node, wide, windows, op.Max)
    answer: Any = {0: y, 1: _indices(node, x, wide, windows)}
    answer = Except(answer, "zero-sign", "which of two zeros is the larger is not defined")
    return Except(answer, "infinite-input", "the index of a maximum of infinities or NaN is not defined")


def _indices(node: Node, x: Tensor, wide: Any, windows: list[Window]) -> Value:
    steps = _steps(node, x, windows)
    best: Any = None
    chosen: Any = np.int64(0)
    table: list[Any] = []
    for number, places in enumerate(np.ndindex(*[window.kernel for window in windows])):
        value = place(node, wide, windows, list(places))
        offset: Any = np.int64(0)
        for window, step, one in zip(windows, steps, places, strict=True):
            offset = _add(offset, _mul(step, one * window.dilation))
        table.append(offset)
        if best is None:
            best = value
            continue
        more = op.Greater(value, best)
        chosen = op.Where(more, np.int64(number), chosen)
        best = op.Where(more, value, best)
    if all(not isinstance(one, Value) for one in table):
        offsets: Any = np.array(table, np.int64)
    else:
        offsets = op.Concat(*[op.Reshape(one, np.array([1])) for one in table], axis=0)
    index = (
        op.Gather(offsets, chosen)
        if len(table) > 1
        else op.Mul(op.Cast(op.Identity(best), to=7), np.int64(0))
    )
    rank = len(windows) + 2
    shape = op.Shape(best)
    for window, step in zip(windows, steps, strict=True):
        count = op.Gather(shape, np.int64(window.axis))
        first = op.Range(np.int64(0), count, np.int64(1))
        first = op.Sub(op.Mul(first, np.int64(window.stride)), np.int64(window.begin))
        index = op.Add(index, op.Reshape(op.Mul(first, step), _alone(window.axis, rank)))
    area: Any = np.int64(1)
    for window in windows:
        area = _mul(area, size_of(node, x, window.axis))
    channels = size_of(node, x, 1)
    for axis, step in ((0, _mul(area, channels)), (1, area)):
        size = size_of(node, x, axis)
        if not isinstance(size, Value) and size == 1:
            continue
        first = op.Range(np.int64(0), size, np.int64(1))
        index = op.Add(index, op.Reshape(op.Mul(first, step), _alone(axis, rank)))
    return index


def _steps(node: Node, x: Tensor, windows: list[Window]) -> list[Any]:
    """How far apart neighbours along each pooled axis are in the index."""
    order = windows if node.attr("storage_order", 0) else windows[::-1]
    step: Any = np.int64(1)
    steps = {}
    for window in order:
        steps[window.axis] = step
        step = _mul(step, size_of(node, x, window.axis))
    return [steps[window.axis] for window in windows]


def _alone(axis: int, rank: int) -> np.ndarray:
    return np.array([-1 if one == axis else 1 for one in range(rank)])


def _mul(one: Any, other: Any) -> Any:
    if not isinstance(one, Value) and not isinstance(other, Value):
        return np.int64(one * other)
    return op.Mul(*(n if isinstance(n, Value) else np.int64(n) for n in (one, other)))


def _add(one: Any, other: Any) -> Any:
    if not isinstance(one, Value) and not isinstance(other, Value):
        return np.int64(one + other)
    return op.Add(*(n if isinstance(n, Value) else np.int64(n) for n in (one, other)))


def _net(attributes: str, shape: str = "N, 2, H, W", outputs: str = "y, i") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{shape}] x) => ({outputs}) {{ y, i = MaxPool <{attributes}> (x) }}"""


EXAMPLES = [
    Fires(
        _net("kernel_shape = [2, 1], strides = [2, 1]", "N, 1, 4, 3"),
        becomes="""y = MaxPool <kernel_shape = [2, 1], strides = [2, 1]> (x)
        _1 = Slice (x, {1, 0}, {2147483647, 2147483647}, {2, 3}, {2, 1})
        _2 = Slice (x, {0, 0}, {-1, 2147483647}, {2, 3}, {2, 1}); _3 = Greater (_1, _2)
        _4 = Where (_3, 1, 0); _5 = Gather ({0, 3}, _4); _6 = Where (_3, _1, _2)
        _7 = Shape (_6); _8 = Gather (_7, 2); _9 = Range (0, _8, 1); _10 = Mul (_9, 2)
        _11 = Sub (_10, 0); _12 = Mul (_11, 3); _13 = Reshape (_12, {1, 1, -1, 1})
        _14 = Add (_5, _13); _15 = Gather (_7, 3); _16 = Range (0, _15, 1); _17 = Mul (_16, 1)
        _18 = Sub (_17, 0); _19 = Mul (_18, 1); _20 = Reshape (_19, {1, 1, 1, -1})
        _21 = Add (_14, _20); _22 = Shape (x); _23 = Gather (_22, 0); _24 = Range (0, _23, 1)
        _25 = Mul (_24, 12); _26 = Reshape (_25, {-1, 1, 1, 1}); i = Add (_21, _26)""",
    ),
    Fires(_net("kernel_shape = [2, 2], strides = [2, 2], dilations = [1, 2]")),
    Fires(
        _net(
            "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], storage_order = 1",
            "1, 2, 5, N",
            "i",
        )
    ),
    Fires(_net("kernel_shape = [2], strides = [2], ceil_mode = 1", "1, 2, 5")),
    Skips(_net("kernel_shape = [2, 2]", outputs="y")),
    Skips(_net("kernel_shape = [9, 9]"), because="64"),
]
