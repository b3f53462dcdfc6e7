"""Write `DeformConv` as four Gathers of each place that a kernel reads, and a 1x1 convolution.

`torchvision.ops.deform_conv2d` exports it; TensorRT has it as a plugin, which TensorRT-RTX does not have:

    importFallbackPluginImporter: UNSUPPORTED_NODE: Assertion failed: creator: Plugin not found, are the plugin name,
    version, and namespace correct?

    before    y = DeformConv<kernel_shape=[3, 3]>(x, w, offset, b, mask)
    after     place = its own + offset, its four neighbours and their weights
              v = Gather(pixels of x, place) * weight * mask, four times, added up        [N, C * 9, oh, ow]
              y = Conv(v, Reshape(w, [O, C * 9, 1, 1]), b)        of a dynamic image: a MatMul

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
    is_static,
    op,
    operands,
    required,
    rule,
)


@rule("DeformConv", stage="compat", lacks="DeformConv")
def deform_conv_gathers(node: Node) -> Any:
    x, weights, offset = required(node, 3)
    mask = operands(node, 5)[4]
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
    begin = op.Mul(op.Reshape(numbers, np.array([-1, 1, 1, 1])), height)  # the first row of each image
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
            line = op.Mul(op.Add(begin, row), width)
            for column, column_weight in lines[1]:
                where = op.Add(line, column)
                weight = op.Mul(row_weight, column_weight)
                term = op.Mul(op.Gather(channels, where), unsqueezed(node, weight, [4]))
                total = term if total is None else op.Add(total, term)
        if mask is not None:
            strength = mask if parts == 1 else sliced(node, mask, [part * places], [(part + 1) * places], [1])
            total = op.Mul(total, unsqueezed(node, strength, [4]))
        read.append(total)
    values = read[0] if parts == 1 else op.Concat(*read, axis=4)  # [N, K, oh, ow, C]
    y = _combined(node, values, x.shape[1] * places)
    return Except(Close(y), "extreme-input", "a place so far away has no neighbours")


def _combined(node: Node, values: Any, count: int) -> Value:
    """The products of each pixel's values, [N, K, oh, ow, C], with the weights."""
    _, weights, offset = required(node, 3)
    bias, groups, sizes = operands(node, 5)[3], node.attr("group", 1), (offset.shape or ())[2:]
    more = [] if bias is None else [bias]
    if is_static(sizes):
        values = op.Reshape(op.Transpose(values, perm=[0, 4, 1, 2, 3]), np.array([0, count, *sizes]))
        flat = constant(weights)
        ones = np.array([0, -1, 1, 1])
        filters = op.Reshape(weights, ones) if flat is None else flat.reshape(len(flat), -1, 1, 1)
        return op.Conv(values, filters, *more, group=groups)
    if groups > 1:
        raise Skip(f"its image is dynamic, and it has {groups} groups: give the sizes with --shape")
    values = op.Reshape(op.Transpose(values, perm=[0, 2, 3, 4, 1]), np.array([0, 0, 0, count]))
    filters = op.Transpose(op.Reshape(weights, np.array([-1, count])), perm=[1, 0])
    y = op.MatMul(values, filters)  # the image may be empty: onnxruntime's Conv takes no such
    return op.Transpose(op.Add(y, *more) if more else y, perm=[0, 3, 1, 2])


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
    Fires(_NET % ("1, 1, 2, 2", "1, 1, 1, 1", "1, 2, 2, 2", "1", "group = 1", ""), becomes="""_1 = Transpose <perm = [0, 2, 3, 1]> (x)
                                                                                   _2 = Reshape (_1, {-1, 1})
                                                                                   _3 = Reshape ({0}, {-1, 1, 1, 1})
                                                                                   _4 = Mul (_3, 2)
                                                                                   _5 = Slice (o, {0}, {2}, {1}, {2})
                                                                                   _6 = Add (_5, [1, 2, 1] {0.0, 1.0})
                                                                                   _7 = Greater (_6, -1.0)
                                                                                   _8 = Less (_6, 2.0)
                                                                                   _9 = And (_7, _8)
                                                                                   _10 = Where (_9, _6, -1.0)
                                                                                   _11 = Floor (_10)
                                                                                   _12 = Less (_11, 0.0)
                                                                                   _13 = Greater (_11, 1.0)
                                                                                   _14 = Or (_12, _13)
                                                                                   _15 = Not (_14)
                                                                                   _16 = Where (_15, _11, 0.0)
                                                                                   _17 = Cast <to = 7> (_16)
                                                                                   _18 = Add (_4, _17)
                                                                                   _19 = Mul (_18, 2)
                                                                                   _20 = Slice (o, {1}, {2}, {1}, {2})
                                                                                   _21 = Add (_20, [1, 1, 2] {0.0, 1.0})
                                                                                   _22 = Greater (_21, -1.0)
                                                                                   _23 = Less (_21, 2.0)
                                                                                   _24 = And (_22, _23)
                                                                                   _25 = Where (_24, _21, -1.0)
                                                                                   _26 = Floor (_25)
                                                                                   _27 = Less (_26, 0.0)
                                                                                   _28 = Greater (_26, 1.0)
                                                                                   _29 = Or (_27, _28)
                                                                                   _30 = Not (_29)
                                                                                   _31 = Where (_30, _26, 0.0)
                                                                                   _32 = Cast <to = 7> (_31)
                                                                                   _33 = Add (_19, _32)
                                                                                   _34 = Gather (_2, _33)
                                                                                   _35 = Sub (_10, _11)
                                                                                   _36 = Sub (1.0, _35)
                                                                                   _37 = Where (_15, _36, 0.0)
                                                                                   _38 = Sub (_25, _26)
                                                                                   _39 = Sub (1.0, _38)
                                                                                   _40 = Where (_30, _39, 0.0)
                                                                                   _41 = Mul (_37, _40)
                                                                                   _42 = Unsqueeze (_41, {4})
                                                                                   _43 = Mul (_34, _42)
                                                                                   _44 = Add (_26, 1.0)
                                                                                   _45 = Less (_44, 0.0)
                                                                                   _46 = Greater (_44, 1.0)
                                                                                   _47 = Or (_45, _46)
                                                                                   _48 = Not (_47)
                                                                                   _49 = Where (_48, _44, 0.0)
                                                                                   _50 = Cast <to = 7> (_49)
                                                                                   _51 = Add (_19, _50)
                                                                                   _52 = Gather (_2, _51)
                                                                                   _53 = Where (_48, _38, 0.0)
                                                                                   _54 = Mul (_37, _53)
                                                                                   _55 = Unsqueeze (_54, {4})
                                                                                   _56 = Mul (_52, _55)
                                                                                   _57 = Add (_43, _56)
                                                                                   _58 = Add (_11, 1.0)
                                                                                   _59 = Less (_58, 0.0)
                                                                                   _60 = Greater (_58, 1.0)
                                                                                   _61 = Or (_59, _60)
                                                                                   _62 = Not (_61)
                                                                                   _63 = Where (_62, _58, 0.0)
                                                                                   _64 = Cast <to = 7> (_63)
                                                                                   _65 = Add (_4, _64)
                                                                                   _66 = Mul (_65, 2)
                                                                                   _67 = Add (_66, _32)
                                                                                   _68 = Gather (_2, _67)
                                                                                   _69 = Where (_62, _35, 0.0)
                                                                                   _70 = Mul (_69, _40)
                                                                                   _71 = Unsqueeze (_70, {4})
                                                                                   _72 = Mul (_68, _71)
                                                                                   _73 = Add (_57, _72)
                                                                                   _74 = Add (_66, _50)
                                                                                   _75 = Gather (_2, _74)
                                                                                   _76 = Mul (_69, _53)
                                                                                   _77 = Unsqueeze (_76, {4})
                                                                                   _78 = Mul (_75, _77)
                                                                                   _79 = Add (_73, _78)
                                                                                   _80 = Transpose <perm = [0, 4, 1, 2, 3]> (_79)
                                                                                   _81 = Reshape (_80, {0, 1, 2, 2})
                                                                                   _82 = Reshape (w, {0, -1, 1, 1})
                                                                                   y = Conv <group = 1> (_81, _82)"""),
    Fires(
        _NET % ("N, 2, H, W", "1, 2, 1, 1", "N, 2, H, W", "1", "group = 1", ", m"), gone="DeformConv"
    ),
    Fires(_NET % ("N, 1, 3, 4", "2, 1, 2, 1", "N, 4, 2, 4", "1", "group = 1", ""), gone="DeformConv"),
    Fires(
        _NET
        % (
            "1, 2, 3, 4", "2, 1, 1, 2", "1, 8, 2, 3", "1, 4, 2, 3",
            "group = 2, offset_group = 2, strides = [2, 1], pads = [0, 1, 1, 0], dilations = [1, 2]", ", , m",
        ),
        gone="DeformConv",
    ),
    Skips(_NET % ("N, 2, H, W", "2, 1, 1, 1", "N, 2, H, W", "1", "group = 2", ""), because="2 groups"),
    Skips(_NET % ("N, C, 3, 4", "2, 1, 2, 1", "N, 4, 2, 4", "1", "group = 1", ""), because="channels"),
]  # fmt: skip
