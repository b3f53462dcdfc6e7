"""The windows of a pooling operator, one slice for each of their places.

    place k of a window of size 3, dilation d, stride s:   Slice(padded x, starts=k*d, ends=-(2-k)*d, steps=s)

It needs no sizes: they may be dynamic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _opsets import padded, size_of, sliced

from onnxq.rule import Node, Skip, Tensor, is_float, op

_TO_THE_END = np.iinfo(np.int32).max
MOST_PLACES = 64


@dataclass(frozen=True)
class Window:
    """The windows along one axis.

    Attributes:
        axis: which.
        kernel: how many places it has.
        stride: how far apart windows are.
        dilation: how far apart places are.
        begin: how many places there are before the first element.
        end: and behind the last one, what rounding up needs included.
        counted: how many of those behind it are padding, which `count_include_pad` counts.
    """

    axis: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    counted: int

    @property
    def span(self) -> int:
        """The places from a window's first to its last, both included."""
        return (self.kernel - 1) * self.dilation + 1


def float_type(x: Tensor) -> np.dtype:
    """The type of what is pooled.

    Raises:
        Skip: it is not known, or no float's.
    """
    if x.dtype is None or not is_float(x.dtype):
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}")
    return x.dtype


def windows_of(node: Node, x: Tensor) -> list[Window]:
    """The windows of a pooling node, an axis each.

    Raises:
        Skip: what decides about its padding is not known.
    """
    if x.shape is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    kernel = node.attr("kernel_shape")
    count = len(kernel)
    if count != len(x.shape) - 2:
        raise Skip(f"its kernel has {count} sizes, {x.name!r} {len(x.shape) - 2} that are pooled")
    strides, dilations = node.attr("strides", [1] * count), node.attr("dilations", [1] * count)
    return [
        _window(node, x, axis, count, kernel[axis], strides[axis], dilations[axis]) for axis in range(count)
    ]


def _window(node: Node, x: Tensor, axis: int, count: int, kernel: int, stride: int, dilation: int) -> Window:
    assert x.shape is not None
    size, mode, span = x.shape[axis + 2], node.attr("auto_pad"), (kernel - 1) * dilation + 1
    pads = node.attr("pads", [0] * 2 * count)
    begin, end = (pads[axis], pads[axis + count]) if mode == "NOTSET" else (0, 0)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if dilation > 1:
            raise Skip(f"it is dilated, where ONNX and onnxruntime read {mode} unlike")
        if stride == 1:
            total = span - 1
        elif isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
        else:
            raise Skip(
                f"{mode} of dimension {axis + 2} of {x.name!r}, which is dynamic: give it with --shape"
            )
        begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
        end = total - begin
    counted = end
    if node.attr("ceil_mode", 0) and mode == "NOTSET":
        if isinstance(size, int):
            windows = -(-(size + begin + end - span) // stride) + 1
            if (windows - 1) * stride >= size + begin:
                windows -= 1
            end = (windows - 1) * stride + span - size - begin  # negative: what no window reads
        elif stride + end <= span:
            end += stride - 1
        else:
            raise Skip(
                f"it rounds up the windows of dimension {axis + 2} of {x.name!r}, which is dynamic: give it with "
                "--shape"
            )
    return Window(axis + 2, kernel, stride, dilation, begin, max(end, 0), min(counted, max(end, 0)))


def spread(node: Node, x: Any, windows: list[Window], filling: Any) -> Any:
    """X with the elements that windows read before its first and behind its last."""
    x = _not_too_short(node, x, windows, filling)
    begin = [0, 0] + [window.begin for window in windows]
    return padded(node, x, begin, [0, 0] + [window.end for window in windows], filling)


def _not_too_short(node: Node, x: Any, windows: list[Window], filling: Any) -> Any:
    """x, and what a strided window lacks of it: onnxruntime gives the window of an axis that is too short."""
    lacking: list[Any] = []
    for axis, size in enumerate(x.shape):
        window = next((one for one in windows if one.axis == axis), None)
        least = 1 + window.begin + window.end if window else 0
        if window is None or isinstance(size, int) or window.stride == 1 or least >= window.span:
            lacking.append(np.zeros(1, np.int64))
            continue
        if node.opset < 13:
            raise Skip("its sizes are dynamic, and its opset is older than 13: give them with --shape")
        length = size_of(node, x, axis)
        short = op.Sub(np.array([window.span - window.begin - window.end]), length)
        few = op.Less(short, np.int64(window.stride))
        lacking.append(op.Where(few, op.Max(short, np.int64(0)), np.int64(0)))
    if all(isinstance(one, np.ndarray) for one in lacking):
        return x
    begin = np.zeros(len(lacking), np.int64)
    return op.Pad(x, op.Concat(begin, *lacking, axis=0), filling)


def place(node: Node, x: Any, windows: list[Window], places: list[int]) -> Any:
    """The element at these places of all windows, of an x that is `spread`."""
    starts, ends, steps = [], [], []
    for window, number in zip(windows, places, strict=True):
        start = number * window.dilation
        starts.append(start)
        ends.append(start + 1 - window.span or _TO_THE_END)
        steps.append(window.stride)
    return sliced(node, x, starts, ends, [window.axis for window in windows], steps)


def pooled(node: Node, x: Any, windows: list[Window], combine: Callable[[Any, Any], Any]) -> Any:
    """What an operation such as Max or Add makes of all windows, axis by axis, of an x that is `spread`."""
    if sum(window.kernel for window in windows) > MOST_PLACES:
        raise Skip(f"its windows are larger than {MOST_PLACES} places")
    for window in windows:
        if window.kernel == window.stride == 1 and not window.begin and not window.end:
            continue
        total = place(node, x, [window], [0])
        for number in range(1, window.kernel):
            total = combine(total, place(node, x, [window], [number]))
        x = total
    return x
