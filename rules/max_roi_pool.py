"""Write `MaxRoiPool` as maxima under masks of the rows and columns of each bin.

Detectors of the Fast R-CNN kind have it; TensorRT has no importer:

    checkMaxRoiPool: UNSUPPORTED_NODE: false

    before    y = MaxRoiPool<pooled_shape=[2, 2], spatial_scale=0.5>(x, rois)
    after     of each bin: rows from floor(i * height / 2) to ceil((i + 1) * height / 2) of the region
              y = ReduceMax(Where(columns, ReduceMax(Where(rows, Gather(x, image), -inf)), -inf))

One bin's rows at a time: it takes memory for the x of each region once. Bounds are computed as onnxruntime
does, in float32.
"""

from typing import Any

import numpy as np
from _opsets import reduced, size_of, sliced, squeezed, unsqueezed

from onnxq.rule import Except, Fires, Node, Skip, Skips, Value, float32_only, op, required, rule

_MOST = 256


@rule("MaxRoiPool", stage="compat", lacks="MaxRoiPool")
def max_roi_pool(node: Node) -> Any:
    x, rois = required(node, 2)
    if x.dtype != np.float32:
        raise Skip(f"the type of {x.name!r} is {x.dtype or 'not known'}")
    scale = np.float32(node.attr("spatial_scale", 1.0))
    images = op.Cast(squeezed(node, sliced(node, rois, [0], [1], [1]), [1]), to=7)
    given = op.Gather(x, images, axis=0)  # [R, C, H, W]
    bins = node.attr("pooled_shape")
    if bins[0] * bins[1] > _MOST:
        raise Skip(f"its regions have {bins[0] * bins[1]} bins, more than {_MOST}")
    rows = _masks(node, rois, scale, 1, bins[0], size_of(node, x, 2))
    columns = _masks(node, rois, scale, 0, bins[1], size_of(node, x, 3))
    lowest = np.float32(-np.inf)
    lines = []
    for row in rows:
        part = reduced(node, "ReduceMax", op.Where(unsqueezed(node, row, [1, 3]), given, lowest), [2])
        lines.append(
            op.Concat(
                *[
                    reduced(
                        node,
                        "ReduceMax",
                        op.Where(unsqueezed(node, column, [1]), part, lowest),
                        [2],
                        keepdims=1,
                    )
                    for column in columns
                ],
                axis=2,
            )
        )
    y = op.Concat(*[unsqueezed(node, line, [2]) for line in lines], axis=2)
    y = op.Where(op.Less(y, np.float32(np.finfo(np.float32).min)), np.float32(0), y)  # a bin of no element
    answer = Except(y, "zero-sign", "which of two zeros is the larger is not defined")
    return Except(answer, "infinite-input", "regions of infinite size")


def _masks(node: Node, rois: Value, scale: np.float32, first: int, bins: int, size: Any) -> list[Value]:
    """Which rows (or columns) each bin has: [R, size] each."""
    start = _rounded(op.Mul(sliced(node, rois, [first + 1], [first + 2], [1]), scale))
    end = _rounded(op.Mul(sliced(node, rois, [first + 3], [first + 4], [1]), scale))
    length = op.Add(op.Sub(end, start), np.float32(1))
    length = op.Where(op.Less(length, np.float32(1)), np.float32(1), length)
    step = float32_only(op.Div(length, np.float32(bins)))
    if isinstance(size, Value):
        places: Any = unsqueezed(node, op.Cast(op.Range(np.int64(0), size, np.int64(1)), to=1), [0])
    else:
        places = np.arange(int(size), dtype=np.float32)[None]
    masks = []
    for number in range(bins):
        low = op.Add(op.Floor(op.Mul(step, np.float32(number))), start)
        high = op.Add(op.Ceil(op.Mul(step, np.float32(number + 1))), start)
        masks.append(op.And(op.Not(op.Less(places, low)), op.Less(places, high)))
    return masks


def _rounded(value: Value) -> Value:
    """To the nearest, halves away from zero."""
    size = op.Abs(float32_only(value))
    whole = op.Floor(size)
    up = op.Not(op.Less(op.Sub(size, whole), np.float32(0.5)))
    return op.Mul(op.Where(up, op.Add(whole, np.float32(1)), whole), op.Sign(value))


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (%s[2, 2, 4, W] x) => (y) <%s[2, 5] r = {0, 0, 1, 3, 7, 1, 1.5, 2, 2, 2}> {
        y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.5> (x, r) }"""

EXAMPLES = [
    Fires(_NET % ("float", "float"), gone="MaxRoiPool"),
    Skips((_NET % ("float", "float")).replace("[2, 3]", "[40, 40]"), because="1600 bins"),
]
