"""Write `RoiAlign` as four Gathers of each sample's neighbours and their weighted sum.

TensorRT has it as a plugin only, which TensorRT-RTX does not have:

    importRoiAlign: UNSUPPORTED_NODE: Assertion failed: plugin != nullptr: ROIAlign plugin was not found in the plugin registry!

    before    y = RoiAlign<output_height=h, output_width=w, sampling_ratio=s>(x, rois, images)
    after     low, high, weight of each sample's row and column, computed as onnxruntime does
              v = Gather(rows of x, image, row, column) * weight, four times, added up
              y = ReduceMean over each bin's s * s samples

It takes memory for four values a sample and channel. `max` takes the largest of the weighted neighbours, as
onnxruntime does. With sampling_ratio 0, of constant regions, the number of samples depends on each region: those weights are summed
up for each bin and row, and for each bin and column, and multiplied with x; TensorRT may round these products like
those of a convolution (TF32).
"""

from typing import Any

import numpy as np
from _opsets import reduced, size_of, sliced, unsqueezed

from onnxq.rule import (
    Close,
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Value,
    constant,
    float32_only,
    op,
    required,
    rule,
)

_FLOAT, _INT64 = 1, 7
_MOST = 512


@rule("RoiAlign", stage="compat", lacks="RoiAlign")
def roi_align_gathers(node: Node) -> Any:
    x, rois, images = required(node, 3)
    if x.dtype != np.float32 or rois.dtype != np.float32:
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}")
    if x.shape is None or not isinstance(x.shape[1], int):
        raise Skip(f"how many channels {x.name!r} has is not known")
    ratio = node.attr("sampling_ratio", 0)
    bins = node.attr("output_height", 1), node.attr("output_width", 1)
    sizes = size_of(node, x, 2), size_of(node, x, 3)
    regions = [_bounds(node, rois, 1 - side, bins[side]) for side in (0, 1)]
    if ratio == 0:
        if constant(rois) is None:
            raise Skip(
                "with sampling_ratio=0 the number of samples depends on regions that are computed, and has no bound: "
                "export with sampling_ratio=2"
            )
        y = _adaptive(node, x, images, bins, sizes, regions)
        return Except(Close(y), "extreme-input", "a region of so many samples has no end")
    rows, columns = (
        _samples(start, step, bins[side], ratio, sizes[side]) for side, (start, step, _) in enumerate(regions)
    )
    flat = op.Reshape(op.Transpose(x, perm=[0, 2, 3, 1]), np.array([-1, x.shape[1]]))
    image = op.Mul(op.Reshape(op.Cast(images, to=_INT64), np.array([-1, 1, 1])), _times(*sizes))
    parts = []
    for row, row_weight in rows:
        begin = op.Add(image, op.Mul(unsqueezed(node, row, [2]), sizes[1]))
        for column, column_weight in columns:
            where = op.Add(begin, unsqueezed(node, column, [1]))  # [R, h * s, w * s]
            weight = op.Mul(unsqueezed(node, row_weight, [2]), unsqueezed(node, column_weight, [1]))
            parts.append(op.Mul(op.Gather(flat, where), unsqueezed(node, weight, [3])))
    highest = node.attr("mode", "avg") == "max"
    total = parts[0]
    for part in parts[1:]:
        total = op.Max(total, part) if highest else op.Add(total, part)
    split = op.Reshape(total, np.array([-1, bins[0], ratio, bins[1], ratio, x.shape[1]]))
    y = reduced(node, "ReduceMax" if highest else "ReduceMean", split, [2, 4])
    return Except(
        Close(op.Transpose(y, perm=[0, 3, 1, 2])), "extreme-input", "a region of so many samples has no end"
    )


def _times(height: Any, width: Any) -> Any:
    numbers = not isinstance(height, Value) and not isinstance(width, Value)
    return np.int64(height * width) if numbers else op.Mul(height, width)


def _bounds(node: Node, rois: Value, first: int, bins: int) -> tuple[Value, Value, Value]:
    """Where each region begins, how large its bins and how large it is: [R, 1] each."""
    usual = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    half = node.attr("coordinate_transformation_mode", usual) == "half_pixel"
    scale, offset = np.float32(node.attr("spatial_scale", 1.0)), np.float32(0.5 if half else 0)
    start = op.Mul(sliced(node, rois, [first], [first + 1], [1]), scale)
    end = op.Mul(sliced(node, rois, [first + 2], [first + 3], [1]), scale)
    if half:
        start, end = op.Sub(start, offset), op.Sub(end, offset)
    start = float32_only(start)
    length = float32_only(op.Sub(end, start))
    if not half:
        length = op.Where(op.Less(length, np.float32(1)), np.float32(1), length)
    return start, op.Div(length, np.float32(bins)), length


def _in_float(size: Any) -> Any:
    return op.Cast(size, to=_FLOAT) if isinstance(size, Value) else np.float32(size)


def _samples(start: Value, step: Value, bins: int, ratio: int, size: Any) -> list[tuple[Value, Value]]:
    """Of each sample along an axis the element before and behind it, and their weights: [R, bins * ratio]."""
    number = np.repeat(np.arange(bins, dtype=np.float32), ratio)[None]
    inside = np.tile(np.arange(ratio, dtype=np.float32) + np.float32(0.5), bins)[None]
    place = op.Add(op.Add(start, op.Mul(step, number)), op.Div(op.Mul(step, inside), np.float32(ratio)))
    return _neighbours(float32_only(place), size)


def _neighbours(place: Value, size: Any) -> list[tuple[Value, Value]]:
    wide = _in_float(size)
    last = op.Sub(wide, np.float32(1)) if isinstance(size, Value) else np.float32(size - 1)
    outside = op.Or(op.Less(place, np.float32(-1)), op.Greater(place, wide))
    place = op.Where(outside, np.float32(0), place)
    place = op.Where(op.Less(place, np.float32(0)), np.float32(0), place)
    low = op.Floor(place)
    at_end = op.Not(op.Less(low, last))
    low = op.Where(at_end, last, low)
    high = op.Where(at_end, last, op.Add(low, np.float32(1)))
    behind = op.Where(at_end, np.float32(0), op.Sub(place, low))
    before = op.Sub(np.float32(1), behind)
    return [
        (op.Cast(float32_only(index), to=_INT64), op.Where(outside, np.float32(0), weight))
        for index, weight in ((low, before), (high, behind))
    ]


def _adaptive(node: Node, x: Value, images: Value, bins: Any, sizes: Any, regions: Any) -> Value:
    """With as many samples as each region is large."""
    if node.attr("mode", "avg") == "max":
        raise Skip(
            "with sampling_ratio=0 and mode=max its samples cannot be summed up: export with sampling_ratio=2"
        )
    if any(isinstance(size, Value) for size in sizes) or max(sizes) > _MOST:
        raise Skip(
            f"with sampling_ratio=0 the size of {x.name!r} must be known, and at most {_MOST}: give it with --shape, "
            "or export with sampling_ratio=2"
        )
    weights, counts = [], []
    for side, (start, step, _) in enumerate(regions):
        matrix, count = _summed(node, start, step, bins[side], int(sizes[side]))
        weights.append(matrix)
        counts.append(count)
    given = op.Gather(x, op.Cast(images, to=_INT64), axis=0)  # [R, C, H, W]
    part = op.MatMul(unsqueezed(node, weights[0], [1]), given)
    y = op.MatMul(part, unsqueezed(node, op.Transpose(weights[1], perm=[0, 2, 1]), [1]))
    count = op.Mul(*counts)
    count = op.Where(op.Less(count, np.float32(1)), np.float32(1), count)
    return op.Div(y, unsqueezed(node, count, [2, 3]))


def _summed(node: Node, start: Value, step: Value, bins: int, size: int) -> tuple[Value, Value]:
    """The weights of all samples of a bin for each element, [R, bins, size], and how many samples, [R, 1].

    Samples are half an element apart or more (or one a bin), so that few of a bin are inside.
    """
    most = 2 * size + 6
    grid = op.Ceil(step)
    number = op.Add(start, op.Mul(step, np.arange(bins, dtype=np.float32)[None]))  # [R, bins]
    apart = op.Div(step, grid)
    first = op.Floor(op.Div(op.Sub(np.float32(-1), number), apart))
    first = op.Where(op.Greater(first, np.float32(1)), op.Sub(first, np.float32(1)), np.float32(0))
    index = op.Add(unsqueezed(node, first, [2]), np.arange(most, dtype=np.float32)[None, None])
    wide_step, wide_grid = unsqueezed(node, step, [2]), unsqueezed(node, grid, [2])
    within = op.Div(op.Mul(op.Add(index, np.float32(0.5)), wide_step), wide_grid)
    place = float32_only(op.Add(unsqueezed(node, number, [2]), within))  # [R, bins, most]
    there = op.Less(index, wide_grid)
    total: Value | None = None
    for element, weight in _neighbours(place, np.int64(size)):
        weight = op.Where(there, weight, np.float32(0))
        hits = op.Equal(unsqueezed(node, element, [3]), np.arange(size))
        summed = reduced(node, "ReduceSum", op.Where(hits, unsqueezed(node, weight, [3]), np.float32(0)), [2])
        total = summed if total is None else op.Add(total, summed)
    assert total is not None
    return total, grid


_NET = """<ir_version: 8, opset_import: ["" : 16]>
    g (float[%s] x, float[R, 4] r, int64[R] b) => (y) {
        y = RoiAlign <output_height = 2, output_width = 1, %s> (x, r, b) }"""

_FIXED = """<ir_version: 8, opset_import: ["" : 16]>
    g (float[%s] x) => (y) <float[2, 4] r = {0, 0, 3, 2, -1, 0.5, 1.5, 9}, int64[2] b = {0, 0}> {
        y = RoiAlign <output_height = 2, output_width = 1, sampling_ratio = 0%s> (x, r, b) }"""

EXAMPLES = [
    Fires(_NET % ("2, 2, 4, W", "sampling_ratio = 2"), gone="RoiAlign"),
    Fires(
        _NET % ("1, 1, 4, 3", "sampling_ratio = 1"),
        becomes="""_1 = Transpose <perm = [0, 2, 3, 1]> (x); _2 = Reshape (_1, {-1, 1}); _3 = Cast <to = 7> (b)
        _4 = Reshape (_3, {-1, 1, 1}); _5 = Mul (_4, 12); _6 = Slice (r, {1}, {2}, {1}, {1})
        _7 = Mul (_6, 1.0); _8 = Sub (_7, 0.5); _9 = Slice (r, {3}, {4}, {1}, {1}); _10 = Mul (_9, 1.0)
        _11 = Sub (_10, 0.5); _12 = Sub (_11, _8); _13 = Div (_12, 2.0)
        _14 = Mul (_13, [1, 2] {0.0, 1.0}); _15 = Add (_8, _14); _16 = Mul (_13, [1, 2] {0.5, 0.5})
        _17 = Div (_16, 1.0); _18 = Add (_15, _17); _19 = Less (_18, -1.0); _20 = Greater (_18, 4.0)
        _21 = Or (_19, _20); _22 = Where (_21, 0.0, _18); _23 = Less (_22, 0.0)
        _24 = Where (_23, 0.0, _22); _25 = Floor (_24); _26 = Less (_25, 3.0); _27 = Not (_26)
        _28 = Where (_27, 3.0, _25); _29 = Cast <to = 7> (_28); _30 = Unsqueeze (_29, {2})
        _31 = Mul (_30, 3); _32 = Add (_5, _31); _33 = Slice (r, {0}, {1}, {1}, {1}); _34 = Mul (_33, 1.0)
        _35 = Sub (_34, 0.5); _36 = Slice (r, {2}, {3}, {1}, {1}); _37 = Mul (_36, 1.0)
        _38 = Sub (_37, 0.5); _39 = Sub (_38, _35); _40 = Div (_39, 1.0); _41 = Mul (_40, [1, 1] {0.0})
        _42 = Add (_35, _41); _43 = Mul (_40, [1, 1] {0.5}); _44 = Div (_43, 1.0); _45 = Add (_42, _44)
        _46 = Less (_45, -1.0); _47 = Greater (_45, 3.0); _48 = Or (_46, _47); _49 = Where (_48, 0.0, _45)
        _50 = Less (_49, 0.0); _51 = Where (_50, 0.0, _49); _52 = Floor (_51); _53 = Less (_52, 2.0)
        _54 = Not (_53); _55 = Where (_54, 2.0, _52); _56 = Cast <to = 7> (_55)
        _57 = Unsqueeze (_56, {1}); _58 = Add (_32, _57); _59 = Gather (_2, _58); _60 = Sub (_24, _28)
        _61 = Where (_27, 0.0, _60); _62 = Sub (1.0, _61); _63 = Where (_21, 0.0, _62)
        _64 = Unsqueeze (_63, {2}); _65 = Sub (_51, _55); _66 = Where (_54, 0.0, _65)
        _67 = Sub (1.0, _66); _68 = Where (_48, 0.0, _67); _69 = Unsqueeze (_68, {1})
        _70 = Mul (_64, _69); _71 = Unsqueeze (_70, {3}); _72 = Mul (_59, _71); _73 = Add (_55, 1.0)
        _74 = Where (_54, 2.0, _73); _75 = Cast <to = 7> (_74); _76 = Unsqueeze (_75, {1})
        _77 = Add (_32, _76); _78 = Gather (_2, _77); _79 = Unsqueeze (_63, {2})
        _80 = Where (_48, 0.0, _66); _81 = Unsqueeze (_80, {1}); _82 = Mul (_79, _81)
        _83 = Unsqueeze (_82, {3}); _84 = Mul (_78, _83); _85 = Add (_72, _84); _86 = Add (_28, 1.0)
        _87 = Where (_27, 3.0, _86); _88 = Cast <to = 7> (_87); _89 = Unsqueeze (_88, {2})
        _90 = Mul (_89, 3); _91 = Add (_5, _90); _92 = Unsqueeze (_56, {1}); _93 = Add (_91, _92)
        _94 = Gather (_2, _93); _95 = Where (_21, 0.0, _61); _96 = Unsqueeze (_95, {2})
        _97 = Unsqueeze (_68, {1}); _98 = Mul (_96, _97); _99 = Unsqueeze (_98, {3})
        _100 = Mul (_94, _99); _101 = Add (_85, _100); _102 = Unsqueeze (_75, {1}); _103 = Add (_91, _102)
        _104 = Gather (_2, _103); _105 = Unsqueeze (_95, {2}); _106 = Unsqueeze (_80, {1})
        _107 = Mul (_105, _106); _108 = Unsqueeze (_107, {3}); _109 = Mul (_104, _108)
        _110 = Add (_101, _109); _111 = Reshape (_110, {-1, 2, 1, 1, 1, 1})
        _112 = ReduceMean <axes = [2, 4], keepdims = 0> (_111); y = Transpose <perm = [0, 3, 1, 2]> (_112)""",
    ),
    Fires(
        (_NET % ("1, 1, 4, 3", "sampling_ratio = 1, spatial_scale = 0.5")).replace(": 16]", ": 10]"),
        gone="RoiAlign",
    ),
    Fires(_NET % ("1, 1, 4, 3", 'sampling_ratio = 2, mode = "max"'), gone="RoiAlign"),
    Fires(_FIXED % ("1, 2, 3, 4", ""), gone="RoiAlign"),
    Skips(_FIXED % ("1, 2, 3, W", ""), because="--shape"),
    Skips(_FIXED % ("1, 2, 3, 4", ', mode = "max"'), because="sampling_ratio=2"),
    Skips(_NET % ("1, 2, 3, 4", "sampling_ratio = 0"), because="sampling_ratio=2"),
]
