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
    Fires(
        _NET % ("float", "float"),
        becomes="""_1 = Shape (x); _2 = Gather (_1, 3); _3 = Range (0, _2, 1)
                                     _4 = Cast <to = 1> (_3); _5 = Unsqueeze (_4, {0})
                                     _6 = Slice ([2, 5] {0.0, 0.0, 1.0, 3.0, 7.0, 1.0, 1.5, 2.0, 2.0, 2.0}, {3}, {4}, {1}, {1})
                                     _7 = Mul (_6, 0.5); _8 = Abs (_7); _9 = Floor (_8)
                                     _10 = Sub (_8, _9); _11 = Less (_10, 0.5); _12 = Not (_11)
                                     _13 = Add (_9, 1.0); _14 = Where (_12, _13, _9)
                                     _15 = Sign (_7); _16 = Mul (_14, _15)
                                     _17 = Slice ([2, 5] {0.0, 0.0, 1.0, 3.0, 7.0, 1.0, 1.5, 2.0, 2.0, 2.0}, {1}, {2}, {1}, {1})
                                     _18 = Mul (_17, 0.5); _19 = Abs (_18); _20 = Floor (_19)
                                     _21 = Sub (_19, _20); _22 = Less (_21, 0.5); _23 = Not (_22)
                                     _24 = Add (_20, 1.0); _25 = Where (_23, _24, _20)
                                     _26 = Sign (_18); _27 = Mul (_25, _26); _28 = Sub (_16, _27)
                                     _29 = Add (_28, 1.0); _30 = Less (_29, 1.0)
                                     _31 = Where (_30, 1.0, _29); _32 = Div (_31, 3.0)
                                     _33 = Mul (_32, 0.0); _34 = Floor (_33); _35 = Add (_34, _27)
                                     _36 = Less (_5, _35); _37 = Not (_36); _38 = Mul (_32, 1.0)
                                     _39 = Ceil (_38); _40 = Add (_39, _27); _41 = Less (_5, _40)
                                     _42 = And (_37, _41); _43 = Unsqueeze (_42, {1})
                                     _44 = Slice ([2, 5] {0.0, 0.0, 1.0, 3.0, 7.0, 1.0, 1.5, 2.0, 2.0, 2.0}, {4}, {5}, {1}, {1})
                                     _45 = Mul (_44, 0.5); _46 = Abs (_45); _47 = Floor (_46)
                                     _48 = Sub (_46, _47); _49 = Less (_48, 0.5); _50 = Not (_49)
                                     _51 = Add (_47, 1.0); _52 = Where (_50, _51, _47)
                                     _53 = Sign (_45); _54 = Mul (_52, _53)
                                     _55 = Slice ([2, 5] {0.0, 0.0, 1.0, 3.0, 7.0, 1.0, 1.5, 2.0, 2.0, 2.0}, {2}, {3}, {1}, {1})
                                     _56 = Mul (_55, 0.5); _57 = Abs (_56); _58 = Floor (_57)
                                     _59 = Sub (_57, _58); _60 = Less (_59, 0.5); _61 = Not (_60)
                                     _62 = Add (_58, 1.0); _63 = Where (_61, _62, _58)
                                     _64 = Sign (_56); _65 = Mul (_63, _64); _66 = Sub (_54, _65)
                                     _67 = Add (_66, 1.0); _68 = Less (_67, 1.0)
                                     _69 = Where (_68, 1.0, _67); _70 = Div (_69, 2.0)
                                     _71 = Mul (_70, 0.0); _72 = Floor (_71); _73 = Add (_72, _65)
                                     _74 = Less ([1, 4] {0.0, 1.0, 2.0, 3.0}, _73); _75 = Not (_74)
                                     _76 = Mul (_70, 1.0); _77 = Ceil (_76); _78 = Add (_77, _65)
                                     _79 = Less ([1, 4] {0.0, 1.0, 2.0, 3.0}, _78)
                                     _80 = And (_75, _79); _81 = Unsqueeze (_80, {1, 3})
                                     _82 = Slice ([2, 5] {0.0, 0.0, 1.0, 3.0, 7.0, 1.0, 1.5, 2.0, 2.0, 2.0}, {0}, {1}, {1}, {1})
                                     _83 = Squeeze (_82, {1}); _84 = Cast <to = 7> (_83)
                                     _85 = Gather <axis = 0> (x, _84); _86 = Where (_81, _85, -inf)
                                     _87 = ReduceMax <keepdims = 0> (_86, {2})
                                     _88 = Where (_43, _87, -inf)
                                     _89 = ReduceMax <keepdims = 1> (_88, {2}); _90 = Mul (_32, 1.0)
                                     _91 = Floor (_90); _92 = Add (_91, _27); _93 = Less (_5, _92)
                                     _94 = Not (_93); _95 = Mul (_32, 2.0); _96 = Ceil (_95)
                                     _97 = Add (_96, _27); _98 = Less (_5, _97)
                                     _99 = And (_94, _98); _100 = Unsqueeze (_99, {1})
                                     _101 = Where (_100, _87, -inf)
                                     _102 = ReduceMax <keepdims = 1> (_101, {2})
                                     _103 = Mul (_32, 2.0); _104 = Floor (_103)
                                     _105 = Add (_104, _27); _106 = Less (_5, _105)
                                     _107 = Not (_106); _108 = Mul (_32, 3.0); _109 = Ceil (_108)
                                     _110 = Add (_109, _27); _111 = Less (_5, _110)
                                     _112 = And (_107, _111); _113 = Unsqueeze (_112, {1})
                                     _114 = Where (_113, _87, -inf)
                                     _115 = ReduceMax <keepdims = 1> (_114, {2})
                                     _116 = Concat <axis = 2> (_89, _102, _115)
                                     _117 = Unsqueeze (_116, {2}); _118 = Unsqueeze (_42, {1})
                                     _119 = Mul (_70, 1.0); _120 = Floor (_119)
                                     _121 = Add (_120, _65)
                                     _122 = Less ([1, 4] {0.0, 1.0, 2.0, 3.0}, _121)
                                     _123 = Not (_122); _124 = Mul (_70, 2.0); _125 = Ceil (_124)
                                     _126 = Add (_125, _65)
                                     _127 = Less ([1, 4] {0.0, 1.0, 2.0, 3.0}, _126)
                                     _128 = And (_123, _127); _129 = Unsqueeze (_128, {1, 3})
                                     _130 = Where (_129, _85, -inf)
                                     _131 = ReduceMax <keepdims = 0> (_130, {2})
                                     _132 = Where (_118, _131, -inf)
                                     _133 = ReduceMax <keepdims = 1> (_132, {2})
                                     _134 = Unsqueeze (_99, {1}); _135 = Where (_134, _131, -inf)
                                     _136 = ReduceMax <keepdims = 1> (_135, {2})
                                     _137 = Unsqueeze (_112, {1}); _138 = Where (_137, _131, -inf)
                                     _139 = ReduceMax <keepdims = 1> (_138, {2})
                                     _140 = Concat <axis = 2> (_133, _136, _139)
                                     _141 = Unsqueeze (_140, {2})
                                     _142 = Concat <axis = 2> (_117, _141)
                                     _143 = Less (_142, -3.4028235e+38); y = Where (_143, 0.0, _142)""",
    ),
    Skips((_NET % ("float", "float")).replace("[2, 3]", "[1, 257]"), because="257 bins"),
]
