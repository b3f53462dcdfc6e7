"""Write a dilated `AveragePool` as sums of slices.

TensorRT rejects it:

    poolingCheckHelper: UNSUPPORTED_NODE: (dilations[i] == 1) && "This version of TensorRT does not support
    dilations other than 1."

    before    y = AveragePool<kernel_shape=[2, 2], dilations=[2, 2]>(x)
    after     r = Add(x[:, :, :-2], x[:, :, 2:]);  y = Div(Add(r[:, :, :, :-2], r[:, :, :, 2:]), 4)

Where there is padding, what it is divided by is counted for each window. A convolution with weights of 1/4 would
round to 11 bits there (TF32). It sums in another order.
"""

from typing import Any

import numpy as np
from _opsets import size_of
from _windows import Window, float_type, pooled, spread, windows_of

from onnxq.rule import Close, Except, Fires, Node, Skips, Tensor, Value, op, required, rule


@rule("AveragePool", stage="compat", lacks="dilated-pools")
def average_pool_dilated(node: Node) -> Any:
    (x,) = required(node, 1)
    if all(one == 1 for one in node.attr("dilations", [])):
        return None
    kind = float_type(x)
    windows = windows_of(node, x)
    y = pooled(node, spread(node, x, windows, np.array(0, kind)), windows, op.Add)
    whole = 1
    for window in windows:
        counts = _counts(node, x, window, len(windows) + 2)
        if counts is None:
            whole *= window.kernel
        else:
            y = op.Div(y, counts)
    y = op.Div(y, np.array(whole, kind)) if whole > 1 else y
    return Except(Close(y), "infinite-input", "infinities of either sign cancel in any order of a sum")


def _counts(node: Node, x: Tensor, window: Window, rank: int) -> Any:
    """By how many its windows along an axis are divided; None: by its kernel's size."""
    shape = [1] * rank
    shape[window.axis] = -1
    counted = window.counted if node.attr("count_include_pad", 0) else 0
    begin = 0 if node.attr("count_include_pad", 0) else window.begin
    if not begin and counted == window.end:
        return None
    size = size_of(node, x, window.axis)
    own = window.begin - begin + counted
    if not isinstance(size, Value):
        ones = np.concatenate([np.zeros(begin), np.ones(int(size) + own), np.zeros(window.end - counted)])
        places = np.arange(0, len(ones) - window.span + 1, window.stride)
        counts = sum(ones[places + number * window.dilation] for number in range(window.kernel))
        return np.asarray(counts, x.dtype).reshape(shape)
    length = op.Reshape(op.Add(size, np.int64(own)), np.array([1]))
    around = op.Reshape(op.Expand(np.ones(1, x.dtype), length), np.array(shape))
    ends = [0] * rank, [0] * rank
    ends[0][window.axis], ends[1][window.axis] = begin, window.end - counted
    wide = op.Pad(around, np.array([*ends[0], *ends[1]]), np.array(0, x.dtype))
    return pooled(node, wide, [window], op.Add)


def _net(attributes: str, shape: str = "N, 2, H, W") -> str:
    return f"""<ir_version: 9, opset_import: ["" : 19]>
        g (float[{shape}] x) => (y) {{ y = AveragePool <{attributes}> (x) }}"""


EXAMPLES = [
    Fires(
        _net("kernel_shape = [2, 1], dilations = [2, 1]", "1, N, 4, 2"),
        becomes="""_1 = Slice (x, {0}, {-2}, {2}, {1}); _2 = Slice (x, {2}, {2147483647}, {2}, {1})
        _3 = Add (_1, _2); y = Div (_3, 2.0)""",
    ),
    Fires(_net("kernel_shape = [3], dilations = [2], pads = [1, 2]", "1, 2, L")),
    Fires(
        _net("kernel_shape = [3], dilations = [2], pads = [2, 1]", "1, 2, 6"),
        becomes="""_1 = Pad (x, {0, 0, 2, 0, 0, 1}, 0.0); _2 = Slice (_1, {0}, {-4}, {2}, {1})
        _3 = Slice (_1, {2}, {-2}, {2}, {1}); _4 = Add (_2, _3)
        _5 = Slice (_1, {4}, {2147483647}, {2}, {1}); _6 = Add (_4, _5)
        y = Div (_6, [1, 1, 5] {2.0, 2.0, 3.0, 3.0, 2.0})""",
    ),
    Fires(
        _net(
            "kernel_shape = [2, 1], dilations = [2, 1], pads = [1, 0, 1, 0], count_include_pad = 1",
            "1, 1, H, 2",
        )
    ),
    Fires(_net("kernel_shape = [2, 2], dilations = [2, 1], strides = [2, 2], ceil_mode = 1", "1, 2, 6, 7")),
    Fires(
        _net(
            "kernel_shape = [2], dilations = [2], strides = [2], pads = [1, 1], count_include_pad = 1, ceil_mode = 1",
            "1, 1, 4",
        ),
        becomes="""_1 = Pad (x, {0, 0, 1, 0, 0, 2}, 0.0); _2 = Slice (_1, {0}, {-2}, {2}, {2})
        _3 = Slice (_1, {2}, {2147483647}, {2}, {2}); _4 = Add (_2, _3)
        y = Div (_4, [1, 1, 3] {2.0, 2.0, 1.0})""",
    ),
    Skips(_net("kernel_shape = [2, 2]")),
    Skips(_net("kernel_shape = [33, 33], dilations = [2, 2]"), because="64"),
]
