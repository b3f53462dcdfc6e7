"""Cut a TopK that asks for more than the target takes into several.

    ITopKLayer: K exceeds the maximum value allowed (3840)

What a part leaves, in its own order, is what the next one sees, so that ties and infinities are where they were:

    before    v, i = TopK<K>(x)
    after     v0, i0 = TopK<limit>(x)
              v1, i1 = TopK<limit>(what is left of x without i0) ...
              v = Concat(v0, v1, ...)    i = Concat(i0, left0[i1], ...)

The indices of what is left are moved behind those that were taken: with c the running count of what was taken, an
element goes to c - 1 where it was, else to limit + j - c. What comes of a row with a NaN is the sort's own affair,
in TensorRT another one than in onnxruntime.
"""

import numpy as np
from _topk import asked, is_cut

from onnxq.rule import Except, Fires, Node, Skip, Skips, Value, float32_only, op, required, rule

_PARTS = 12
"""So many at most: each sorts what is left."""


@rule("TopK", stage="compat")
def topk_over_limit(node: Node) -> Except | None:
    most, count = node.limit("topk-k"), asked(node)
    if most is None or count is None or count <= most or is_cut(node):
        return None
    (source,) = required(node, 1)
    if node.opset < 11:
        raise Skip(f"K is {count}, the target takes {most}, and opset {node.opset} has no GatherElements")
    if not node.attr("sorted"):
        raise Skip(f"K is {count}, the target takes {most}, and the order of its values is open (sorted = 0)")
    if source.shape is None or count > most * _PARTS:
        raise Skip(
            f"K is {count}, the target takes {most} (give --shape, or ask for at most {most * _PARTS})"
        )
    axis, rank = node.attr("axis") % len(source.shape), len(source.shape)
    left: Value = source
    names: Value | None = None  # what is left, and where it was; None: where it is
    values, indices = [], []
    for start in range(0, count, most):
        size = min(most, count - start)
        value, index = op.TopK(
            left, np.array([size]), axis=axis, largest=node.attr("largest"), sorted=1, outputs=2
        )
        values.append(value)
        indices.append(index if names is None else op.GatherElements(names, index, axis=axis))
        if start + size < count:
            rest = _rest(left, index, size, axis, rank)
            left = op.GatherElements(left, rest, axis=axis)
            names = rest if names is None else op.GatherElements(names, rest, axis=axis)
    results = {0: op.Concat(*values, axis=axis), 1: op.Concat(*indices, axis=axis)}
    return Except(results, "nan-input", "no order of a NaN is defined")


def _rest(left: Value, index: Value, size: int, axis: int, rank: int) -> Value:
    """The indices of what was not taken, in ascending order."""
    one_axis = np.array([-1 if i == axis else 1 for i in range(rank)])
    shape, length = op.Shape(left), op.Gather(op.Shape(left), np.array(axis))
    places = op.Reshape(op.Range(np.array(0), length, np.array(1)), one_axis)
    numbers = op.Expand(places, shape)
    taken = op.ScatterElements(
        op.Expand(np.array(0), shape), index, op.Expand(np.array(1), op.Shape(index)), axis=axis
    )
    before = float32_only(op.CumSum(taken, np.array(axis)))
    behind = op.Sub(op.Add(numbers, np.array(size)), before)
    place = op.Where(op.Cast(taken, to=9), op.Sub(before, np.array(1)), behind)
    order = op.ScatterElements(numbers, place, numbers, axis=axis)
    end = np.array([np.iinfo(np.int64).max])
    return op.Slice(order, np.array([size]), end, np.array([axis]), np.array([1]))


def _net(
    k: int, attributes: str = "", kind: str = "float", shape: str = "N, 9", opset: int = 17, more: str = ""
) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g ({kind}[{shape}] x) => (v, i) <int64[1] k = {{{k}}}, int64[1] o = {{0}}, int64[1] a = {{1}}, int64[1] e = {{2}}> {{
            v, i = TopK {attributes} (x, k) {more} }}"""


EXAMPLES = [
    Fires(_net(9), limits={"topk-k": 4}),
    Fires(
        _net(3, shape="4"),
        limits={"topk-k": 2},
        becomes="""_1, _2 = TopK <axis = 0, largest = 1, sorted = 1> (x, {2}); _3 = Shape (x); _4 = Gather (_3, 0)
        _5 = Range (0, _4, 1); _6 = Reshape (_5, {-1}); _7 = Shape (x); _8 = Expand (_6, _7)
        _9 = Expand (0, _7); _10 = Shape (_2); _11 = Expand (1, _10)
        _12 = ScatterElements <axis = 0> (_9, _2, _11); _13 = Cast <to = 9> (_12); _14 = CumSum (_12, 0)
        _15 = Sub (_14, 1); _16 = Add (_8, 2); _17 = Sub (_16, _14); _18 = Where (_13, _15, _17)
        _19 = ScatterElements <axis = 0> (_8, _18, _8)
        _20 = Slice (_19, {2}, {9223372036854775807}, {0}, {1}); _21 = GatherElements <axis = 0> (x, _20)
        _22, _23 = TopK <axis = 0, largest = 1, sorted = 1> (_21, {1}); v = Concat <axis = 0> (_1, _22)
        _24 = GatherElements <axis = 0> (_20, _23); i = Concat <axis = 0> (_2, _24)""",
    ),
    Fires(_net(5, "<largest = 0, axis = 0>", "int32", "7, N", 11), limits={"topk-k": 4}),
    Fires(_net(6, shape="8", opset=13), limits={"topk-k": 3}),
    Skips(_net(4), limits={"topk-k": 4}),
    Skips(_net(9)),
    Skips(_net(9, "<sorted = 0>"), because="order", limits={"topk-k": 4}),
    Skips(_net(9, opset=10), because="opset 10", limits={"topk-k": 4}),
    Skips(_net(40, shape="N, 50"), because="at most 36", limits={"topk-k": 3}),
    Skips(
        _net(9, more="w = Slice (v, o, e, a)  j = Slice (i, o, e, a)").replace("(v, i) <", "(w, j) <"),
        limits={"topk-k": 4},
    ),
]
