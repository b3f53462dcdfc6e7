"""Compute `ScatterElements` with a reduction by gathering, combining and scattering.

`x.scatter_add`, `scatter_reduce` and segment sums export it. TensorRT-RTX, and TensorRT before 10, reject it:

    importScatterElements: UNSUPPORTED_NODE_ATTR: Unsupported reduction type

    before    y = ScatterElements<axis=1, reduction="add">(x, i, u)          i: constant, no place twice
    after     y = ScatterElements<axis=1>(x, i, Add(GatherElements<axis=1>(x, i), u))

Constant indices that name a place several times make several rounds (32 at most) of GatherND and ScatterND, each
with one update of a place, in their order: it is bit-equal. Where the indices are computed, each update is
compared with each place of the axis, and a sum (product, maximum, minimum) takes those that hit:

    after     y = Add(x, ReduceSum(Where(Equal(Unsqueeze(i), [[0], [1], ...]), Unsqueeze(u), 0)))

which sums in another order. It takes memory for the number of updates times the size of the axis: at most 2**26
elements, and one of the two numbers must be known and at most 4096.
"""

from typing import Any

import numpy as np
from _opsets import padded, size_of
from _scatter import (
    by_comparison,
    claimed,
    combined,
    compared,
    extreme,
    from_zero,
    neutral,
    product,
    reduction_of,
    rounds,
)

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule

_INT64 = 7


@rule("ScatterElements", stage="compat", lacks="scatter-elements-reduction")
def scatter_elements_reduction(node: Node) -> Any:
    data, indices, updates = required(node, 3)
    reduction = reduction_of(node, data)
    if reduction is None:
        return None
    if data.shape is None or indices.shape is None:
        raise Skip("the ranks of its inputs are not known")
    axis = node.attr("axis", 0) % len(data.shape)
    values = constant(indices)
    if values is None:
        return _compared(node, data, indices, updates, axis)
    size = data.shape[axis]
    index = values.astype(np.int64)
    if isinstance(size, int):
        index = np.where(index < 0, index + size, index)
    elif (index < 0).any():
        raise Skip(
            f"an index is counted from the end, and dimension {axis} of {data.name!r} is dynamic ({size}): give "
            "the size with --shape"
        )
    coordinates = np.stack([one.reshape(-1) for one in np.indices(index.shape)], axis=-1)
    rows = coordinates.copy()
    rows[:, axis] = index.reshape(-1)
    places = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    parts = rounds(places)
    if len(parts) <= 1:
        given = combined(reduction, op.GatherElements(data, index, axis=axis), updates)
        return extreme(reduction, op.ScatterElements(data, index, given, axis=axis), data.dtype)
    y: Value = data
    for part in parts:
        given = combined(reduction, op.GatherND(y, rows[part]), op.GatherND(updates, coordinates[part]))
        y = op.ScatterND(y, rows[part], given)
    return extreme(reduction, y, data.dtype)


def _compared(node: Node, data: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Any:
    reduction = node.attr("reduction")
    assert data.shape is not None
    assert indices.shape is not None
    if updates.rank is None:
        raise Skip(f"the rank of {updates.name!r} is not known")
    others = [other for other in range(len(data.shape)) if other != axis]
    more = [0] * len(data.shape)
    for other in others:
        size, given = data.shape[other], indices.shape[other]
        if isinstance(size, int) and isinstance(given, int):
            more[other] = size - given
        elif size != given or size is None:
            raise Skip(
                f"dimension {other} of {data.name!r} is {size or 'dynamic'}, of {indices.name!r} {given or 'dynamic'}: "
                "give the sizes with --shape"
            )
    count, places = product([indices.shape[axis]]), product([data.shape[axis]])
    compared(count, places, product(indices.shape[other] for other in others))
    length = size_of(node, data, axis)
    wide = indices if indices.dtype == np.int64 else op.Cast(indices, to=_INT64)
    by = by_comparison(node, from_zero(wide, length), updates, length, axis, data.dtype)
    by = padded(node, by, [0] * len(more), more, neutral(reduction, data.dtype))
    return claimed(node, combined(reduction, data, by), data.dtype)


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[%s] x, %s float[%s] u) => (y) <%s> { y = ScatterElements <axis = 1, reduction = "%s"> (x, i, u) }"""

EXAMPLES = [
    Fires(
        _NET % ("2, 5", "", "2, 2", "int32[2, 2] i = {0, 3, -1, 0}", "add"),
        becomes="""_1 = GatherElements <axis = 1> (x, [2, 2] {0, 3, 4, 0}); _2 = Add (_1, u)
        y = ScatterElements <axis = 1> (x, [2, 2] {0, 3, 4, 0}, _2)""",
    ),
    Fires(
        _NET % ("N, 3", "", "1, 3", "int64[1, 3] i = {0, 1, 0}", "add"),
        becomes="""_1 = GatherND (x, [2, 2] {0, 0, 0, 1}); _2 = GatherND (u, [2, 2] {0, 0, 0, 1})
        _3 = Add (_1, _2); _4 = ScatterND (x, [2, 2] {0, 0, 0, 1}, _3)
        _5 = GatherND (_4, [1, 2] {0, 0}); _6 = GatherND (u, [1, 2] {0, 2}); _7 = Add (_5, _6)
        y = ScatterND (_4, [1, 2] {0, 0}, _7)""",
    ),
    Fires(
        (_NET % ("3, N", "", "3, 1", "int64[3, 1] i = {0, 1, 0}", "max")).replace("axis = 1", "axis = -2"),
    ),
    Fires(
        _NET % ("N, 3", "int64[N, K] i,", "N, K", "", "add"),
        becomes="""_1 = Less (i, 0); _2 = Add (i, 3); _3 = Where (_1, _2, i); _4 = Unsqueeze (_3, {1})
        _5 = Equal (_4, [1, 3, 1] {0, 1, 2}); _6 = Unsqueeze (u, {1})
        _7 = Where (_5, _6, 0.0); _8 = ReduceSum <keepdims = 0> (_7, {2}); y = Add (x, _8)""",
    ),
    Fires(_NET % ("3, 4, 2", "int32[2, 2, 1] i,", "2, 2, 1", "", "min")),
    Fires(_NET % ("2, W", "int64[2, 3] i,", "2, 3", "", "mul")),
    Fires((_NET % ("2, 5", "int64[2, 3] i,", "2, 3", "", "mul")).replace("float[", "int64[")),
    Fires((_NET % ("2, 5", "int64[2, 3] i,", "2, 3", "", "max")).replace("float[", "int32[")),
    Skips(_NET % ("2, 5", "int64[2, 3] i,", "2, 3", "", "none")),
    Skips(_NET % ("2, W", "", "2, 1", "int64[2, 1] i = {0, -1}", "add"), because="--shape"),
    Skips(_NET % ("2, W", "int64[2, K] i,", "2, K", "", "add"), because="--shape"),
    Skips(_NET % ("M, 5", "int64[2, K] i,", "2, K", "", "add"), because="dimension 0"),
    Skips(
        _NET % ("2, 5", "", "1, 33", f"int64[1, 33] i = {{{', '.join('0' * 33)}}}", "add"), because="33 times"
    ),
    Skips(_NET % ("2, 5000", "int64[2, 5000] i,", "2, 5000", "", "add"), because="computed"),
]
