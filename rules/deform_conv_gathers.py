"""Write `DeformConv` as four Gathers of each place that a kernel reads, and a 1x1 convolution.

`torchvision.ops.deform_conv2d` exports it; TensorRT has it as a plugin, which TensorRT-RTX does not have:

    importFallbackPluginImporter: UNSUPPORTED_NODE: Assertion failed: creator: Plugin not found, are the plugin name,
    version, and namespace correct?

    before    y = DeformConv<kernel_shape=[3, 3]>(x, w, offset, b, mask)
    after     place = its own + offset, its four neighbours and their weights
              v = Gather(pixels of x, place) * weight * mask, four times, added up        [N, C * 9, oh, ow]
              y = Conv(v, Reshape(w, [O, C * 9, 1, 1]), b)

It takes memory for all that the kernels read. Coordinates are not those of GridSample, which round by the size
of the image.
"""

from typing import Any

import numpy as np
from _opsets import size_of, sliced, unsqueezed

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    constant,
    float32_only,
    op,
    operands,
    required,
    rule,
)


@rule("DeformConv", stage="compat", lacks="DeformConv")
def deform_conv_gathers(node: Node) -> Any:
    x, weights, offset = required(node, 3)
    bias, mask = operands(node, 5)[3:]
    if x.dtype != np.float32 or x.shape is None or not isinstance(x.shape[1], int):
        raise Skip(f"the type or the number of channels of {x.name!r} is not known, or no float32's")
    if x.rank != 4 or weights.shape is None or offset.rank != 4:
        raise Skip("it has other than two dimensions of space")
    kernel = node.attr("kernel_shape") or list(weights.shape[2:])
    if not all(isinstance(size, int) for size in kernel):
        raise Skip(f"the size of its kernel {weights.name!r} is not known")
    parts, places = node.attr("offset_group", 1), kernel[0] * kernel[1]
    height, width = size_of(node, x, 2), size_of(node, x, 3)
    pixels = op.Reshape(op.Transpose(x, perm=[0, 2, 3, 1]), np.array([-1, x.shape[1]]))
    images = size_of(node, x, 0)
    numbers = (
        op.Range(np.int64(0), images, np.int64(1)) if isinstance(images, Value) else np.arange(int(images))
    )
    area = op.Mul(height, width) if isinstance(height, Value) or isinstance(width, Value) else height * width
    begin = op.Mul(op.Reshape(numbers, np.array([-1, 1, 1, 1])), area)  # of each image
    read = []
    each = x.shape[1] // parts
    for part in range(parts):
        lines = []
        for side, size in enumerate((height, width)):
            first = part * 2 * places + side
            moved = sliced(node, offset, [first], [(part + 1) * 2 * places], [1], [2])  # [N, K, oh, ow]
            own = _own(node, offset, kernel, side)
            lines.append(_neighbours(op.Add(moved, own), size))
        channels = pixels if parts == 1 else sliced(node, pixels, [part * each], [(part + 1) * each], [1])
        total: Value | None = None
        for row, row_weight in lines[0]:
            for column, column_weight in lines[1]:
                where = op.Add(op.Add(begin, op.Mul(row, width)), column)
                weight = op.Mul(row_weight, column_weight)
                term = op.Mul(op.Gather(channels, where), unsqueezed(node, weight, [4]))
                total = term if total is None else op.Add(total, term)
        if mask is not None:
            strength = mask if parts == 1 else sliced(node, mask, [part * places], [(part + 1) * places], [1])
            total = op.Mul(total, unsqueezed(node, strength, [4]))
        read.append(total)
    values = read[0] if parts == 1 else op.Concat(*read, axis=4)  # [N, K, oh, ow, C]
    shape = _shape(offset, x.shape[1] * places)
    zero = None if isinstance(shape, np.ndarray) else 1  # a computed size may be 0
    values = op.Reshape(op.Transpose(values, perm=[0, 4, 1, 2, 3]), shape, allowzero=zero)
    flat = constant(weights)
    ones = np.array([0, -1, 1, 1])
    filters = op.Reshape(weights, ones) if flat is None else flat.reshape(len(flat), -1, 1, 1)
    y = op.Conv(values, filters, *([] if bias is None else [bias]), group=node.attr("group", 1))
    return Except(Close(y), "extreme-input", "a place so far away has no neighbours")


def _shape(offset: Tensor, channels: int) -> Any:
    sizes = (offset.shape or ())[2:]
    if sum(not isinstance(size, int) for size in sizes) < 2:
        return np.array([0, channels, *(size if isinstance(size, int) else -1 for size in sizes)], np.int64)
    own = op.Shape(offset)
    return op.Concat(
        op.Gather(own, np.array([0])), np.array([channels]), op.Gather(own, np.array([2, 3])), axis=0
    )


def _own(node: Node, offset: Tensor, kernel: list[int], side: int) -> Any:
    """Where each kernel's element is without an offset, along one side: [K, oh, ow], sizes of 1 left out."""
    stride, dilation = node.attr("strides", [1, 1])[side], node.attr("dilations", [1, 1])[side]
    begin, count = node.attr("pads", [0, 0, 0, 0])[side], size_of(node, offset, 2 + side)
    element = np.indices(kernel)[side].reshape(-1, 1, 1) * dilation - begin
    shape = np.array([1, -1, 1] if side == 0 else [1, 1, -1])
    if not isinstance(count, Value):
        return (element + (np.arange(int(count)) * stride).reshape(shape)).astype(np.float32)
    along = op.Reshape(op.Range(np.int64(0), op.Mul(count, np.int64(stride)), np.int64(stride)), shape)
    return op.Cast(op.Add(along, element), to=1)


def _neighbours(place: Value, size: Any) -> list[tuple[Value, Value]]:
    """The element before and behind each place, and their weights, zero outside."""
    last: Any = op.Sub(size, np.int64(1)) if isinstance(size, Value) else np.int64(size - 1)
    end = op.Cast(last, to=1) if isinstance(last, Value) else np.float32(last)
    limit = op.Add(end, np.float32(1)) if isinstance(end, Value) else np.float32(end + 1)
    near = op.And(op.Greater(place, np.float32(-1)), op.Less(place, limit))
    place = op.Where(near, float32_only(place), np.float32(-1))
    low = op.Floor(place)
    behind = op.Sub(place, low)
    high = op.Add(low, np.float32(1))
    found = []
    for element, weight in ((low, op.Sub(np.float32(1), behind)), (high, behind)):
        inside = op.Not(op.Or(op.Less(element, np.float32(0)), op.Greater(element, end)))
        index = op.Where(inside, float32_only(element), np.float32(0))
        found.append((op.Cast(index, to=7), op.Where(inside, weight, np.float32(0))))
    return found


_NET = """<ir_version: 9, opset_import: ["" : 19]>
    g (float[%s] x, float[%s] w, float[%s] o, float[%s] m) => (y) { y = DeformConv <%s> (x, w, o%s) }"""

EXAMPLES = [
    Fires(_NET % ("N, 1, 3, 4", "2, 1, 2, 1", "N, 4, 2, 4", "1", "group = 1", ""), gone="DeformConv"),
    Fires(
        _NET
        % (
            "1, 2, 3, 4", "2, 1, 1, 2", "1, 8, 2, 3", "1, 4, 2, 3",
            "group = 2, offset_group = 2, strides = [2, 1], pads = [0, 1, 1, 0], dilations = [1, 2]", ", , m",
        ),
        gone="DeformConv",
    ),
    Skips(_NET % ("N, C, 3, 4", "2, 1, 2, 1", "N, 4, 2, 4", "1", "group = 1", ""), because="channels"),
]  # fmt: skip
