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

_SMALL = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[1, 1, 2, 2] x, float[R, 5] r) => (y) { y = MaxRoiPool <pooled_shape = [1, 1]> (x, r) }"""

EXAMPLES = [
    Fires(
        _SMALL,
        becomes="""_1 = Slice (r, {3}, {4}, {1}, {1}); _2 = Mul (_1, 1.0); _3 = Abs (_2)
                  _4 = Floor (_3); _5 = Sub (_3, _4); _6 = Less (_5, 0.5); _7 = Not (_6)
                  _8 = Add (_4, 1.0); _9 = Where (_7, _8, _4); _10 = Sign (_2); _11 = Mul (_9, _10)
                  _12 = Slice (r, {1}, {2}, {1}, {1}); _13 = Mul (_12, 1.0); _14 = Abs (_13)
                  _15 = Floor (_14); _16 = Sub (_14, _15); _17 = Less (_16, 0.5); _18 = Not (_17)
                  _19 = Add (_15, 1.0); _20 = Where (_18, _19, _15); _21 = Sign (_13)
                  _22 = Mul (_20, _21); _23 = Sub (_11, _22); _24 = Add (_23, 1.0)
                  _25 = Less (_24, 1.0); _26 = Where (_25, 1.0, _24); _27 = Div (_26, 1.0)
                  _28 = Mul (_27, 0.0); _29 = Floor (_28); _30 = Add (_29, _22)
                  _31 = Less ([1, 2] {0.0, 1.0}, _30); _32 = Not (_31); _33 = Mul (_27, 1.0)
                  _34 = Ceil (_33); _35 = Add (_34, _22); _36 = Less ([1, 2] {0.0, 1.0}, _35)
                  _37 = And (_32, _36); _38 = Unsqueeze (_37, {1})
                  _39 = Slice (r, {4}, {5}, {1}, {1}); _40 = Mul (_39, 1.0); _41 = Abs (_40)
                  _42 = Floor (_41); _43 = Sub (_41, _42); _44 = Less (_43, 0.5); _45 = Not (_44)
                  _46 = Add (_42, 1.0); _47 = Where (_45, _46, _42); _48 = Sign (_40)
                  _49 = Mul (_47, _48); _50 = Slice (r, {2}, {3}, {1}, {1}); _51 = Mul (_50, 1.0)
                  _52 = Abs (_51); _53 = Floor (_52); _54 = Sub (_52, _53); _55 = Less (_54, 0.5)
                  _56 = Not (_55); _57 = Add (_53, 1.0); _58 = Where (_56, _57, _53)
                  _59 = Sign (_51); _60 = Mul (_58, _59); _61 = Sub (_49, _60); _62 = Add (_61, 1.0)
                  _63 = Less (_62, 1.0); _64 = Where (_63, 1.0, _62); _65 = Div (_64, 1.0)
                  _66 = Mul (_65, 0.0); _67 = Floor (_66); _68 = Add (_67, _60)
                  _69 = Less ([1, 2] {0.0, 1.0}, _68); _70 = Not (_69); _71 = Mul (_65, 1.0)
                  _72 = Ceil (_71); _73 = Add (_72, _60); _74 = Less ([1, 2] {0.0, 1.0}, _73)
                  _75 = And (_70, _74); _76 = Unsqueeze (_75, {1, 3})
                  _77 = Slice (r, {0}, {1}, {1}, {1}); _78 = Squeeze (_77, {1})
                  _79 = Cast <to = 7> (_78); _80 = Gather <axis = 0> (x, _79)
                  _81 = Where (_76, _80, -inf); _82 = ReduceMax <keepdims = 0> (_81, {2})
                  _83 = Where (_38, _82, -inf); _84 = ReduceMax <keepdims = 1> (_83, {2})
                  _85 = Concat <axis = 2> (_84); _86 = Unsqueeze (_85, {2})
                  _87 = Concat <axis = 2> (_86); _88 = Less (_87, -3.4028235e+38)
                  y = Where (_88, 0.0, _87)""",
    ),
    Fires(
        _NET % ("float", "float"),
        gone="MaxRoiPool",
    ),
    Skips((_NET % ("float", "float")).replace("[2, 3]", "[2, 129]"), because="258 bins"),
    Skips((_NET % ("float", "float")).replace("[2, 3]", "[1, 257]"), because="257 bins"),
]
