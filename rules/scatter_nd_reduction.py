"""Compute `ScatterND` with a reduction by gathering, combining and scattering.

`x.index_add_`, `index_put_(accumulate=True)` and graph networks export it. TensorRT rejects it:

    importScatterND: UNSUPPORTED_NODE_ATTR: Assertion failed: mode == "none": ScatterND with reduction is not supported.

    before    y = ScatterND<reduction="add">(x, i, u)          i: constant, no place twice
    after     y = ScatterND(x, i, Add(GatherND(x, i), u))

Constant indices that name a place several times make several such rounds (32 at most), each with one update
of a place, in their order: it is bit-equal. Where the indices are computed, each update is compared with
each place, and a sum (product, maximum, minimum) takes those that hit:

    after     y = Add(x, ReduceSum(Where(Equal(i, [[0], [1], ...]), u, 0), axis=1))

which sums in another order. It takes memory for the number of updates times the number of places: at most 2**26
elements, and one of the two numbers must be known and at most 4096. It is no one-hot product, which TensorRT
would round to 11 bits (TF32).
"""

from typing import Any

import numpy as np
from _opsets import size_of
from _scatter import (
    by_comparison,
    claimed,
    combined,
    compared,
    extreme,
    from_zero,
    product,
    reduction_of,
    rounds,
)

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, constant, op, required, rule


@rule("ScatterND", stage="compat", lacks="scatter-nd-reduction")
def scatter_nd_reduction(node: Node) -> Any:
    data, indices, updates = required(node, 3)
    reduction = reduction_of(node, data)
    if reduction is None:
        return None
    values = constant(indices)
    if values is None:
        return _compared(node, data, indices, updates)
    depth = values.shape[-1]
    if data.shape is None:
        raise Skip(f"the rank of {data.name!r} is not known")
    sizes = data.shape[:depth]
    rows = values.reshape(-1, depth).astype(np.int64)
    for axis, size in enumerate(sizes):
        if isinstance(size, int):
            rows[:, axis] = np.where(rows[:, axis] < 0, rows[:, axis] + size, rows[:, axis])
        elif (rows[:, axis] < 0).any():
            raise Skip(
                f"an index is counted from the end, and dimension {axis} of {data.name!r} is dynamic ({size}): "
                "give the size with --shape"
            )
    places = (
        np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1) if depth else np.zeros(len(rows), int)
    )
    parts = rounds(places)
    if len(parts) <= 1:
        whole = rows.reshape(values.shape)
        once = op.ScatterND(data, whole, combined(reduction, op.GatherND(data, whole), updates))
        return extreme(reduction, once, data.dtype)
    if updates.shape is None or updates.rank is None:
        raise Skip(f"the rank of {updates.name!r} is not known")
    flat: Value = updates
    if values.ndim > 2:
        rest = updates.shape[values.ndim - 1 :]
        if sum(not isinstance(size, int) for size in rest) > 0:
            raise Skip(f"the shape of {updates.name!r} is not known")
        flat = op.Reshape(updates, np.array([len(rows), *rest], np.int64))
    y: Value = data
    for part in parts:
        given = op.Gather(flat, part)
        y = op.ScatterND(y, rows[part], combined(reduction, op.GatherND(y, rows[part]), given))
    return extreme(reduction, y, data.dtype)


def _compared(node: Node, data: Tensor, indices: Tensor, updates: Tensor) -> Any:
    reduction = node.attr("reduction")
    if data.shape is None or indices.shape is None or updates.rank is None or updates.shape is None:
        raise Skip("the ranks of its inputs are not known")
    depth = indices.shape[-1]
    if not isinstance(depth, int) or depth < 1:
        raise Skip(f"the last dimension of {indices.name!r} is dynamic")
    rest = data.shape[depth:]
    places, count = product(data.shape[:depth]), product(indices.shape[:-1])
    compared(count, places, product(rest))
    sizes = [size_of(node, data, axis) for axis in range(depth)]
    index: Value | None = None
    for axis, size in enumerate(sizes):
        one = from_zero(op.Gather(indices, np.int64(axis), axis=-1), size)
        index = one if index is None else op.Add(op.Mul(index, size), one)
    assert index is not None
    if not all(isinstance(size, int) for size in rest) and (depth > 1 or len(indices.shape) != 2):
        raise Skip(
            f"a dimension of {data.name!r} behind the indexed ones is dynamic: give the size with --shape"
        )
    tail = [int(size) for size in rest if isinstance(size, int)]
    target: Any = index
    given: Value = updates
    if len(indices.shape) != 2:
        given = op.Reshape(updates, np.array([-1, *tail], np.int64))
        target = op.Reshape(index, np.array([-1]))
    if rest:
        target = op.Reshape(target, np.array([-1] + [1] * len(rest)))
    total: Any = sizes[0]
    for size in sizes[1:]:
        numbers = not isinstance(total, Value) and not isinstance(size, Value)
        total = np.int64(total * size) if numbers else op.Mul(total, size)
    by = by_comparison(node, target, given, total, 0, data.dtype)
    if depth == 1:
        return claimed(node, combined(reduction, data, by), data.dtype)
    shape = data.shape
    if all(isinstance(size, int) for size in shape):
        back: Any = np.array(shape, np.int64)
    else:
        back = op.Shape(data)
    return claimed(node, combined(reduction, data, op.Reshape(by, back)), data.dtype)


_NET = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[%s] x, %s float[%s] u) => (y) <%s> { y = ScatterND <reduction = "%s"> (x, i, u) }"""
_ONCE = "int64[3, 1] i = {0, 3, -1}"
_TWICE = "int64[4, 1] i = {0, 3, 0, -2}"

EXAMPLES = [
    Fires(
        _NET % ("5, N", "", "3, N", _ONCE, "add"),
        becomes="""_1 = GatherND (x, [3, 1] {0, 3, 4}); _2 = Add (_1, u)
        y = ScatterND (x, [3, 1] {0, 3, 4}, _2)""",
    ),
    Fires(
        _NET % ("5, 2", "", "4, 2", _TWICE, "mul"),
        becomes="""_1 = GatherND (x, [2, 1] {0, 3}); _2 = Gather (u, {0, 1}); _3 = Mul (_1, _2)
        _4 = ScatterND (x, [2, 1] {0, 3}, _3); _5 = GatherND (_4, [2, 1] {0, 3})
        _6 = Gather (u, {2, 3}); _7 = Mul (_5, _6); y = ScatterND (_4, [2, 1] {0, 3}, _7)""",
    ),
    Fires(_NET % ("4, 3", "", "2, 2", "int64[2, 2, 2] i = {0, 0, 1, -1, 0, 0, 1, 2}", "max")),
    Fires(
        _NET % ("5, N", "int64[K, 1] i,", "K, N", "", "add"),
        becomes="""_1 = Gather <axis = -1> (i, 0); _2 = Less (_1, 0); _3 = Add (_1, 5)
        _4 = Where (_2, _3, _1); _5 = Reshape (_4, {-1, 1}); _6 = Unsqueeze (_5, {0})
        _7 = Equal (_6, [5, 1, 1] {0, 1, 2, 3, 4}); _8 = Unsqueeze (u, {0})
        _9 = Where (_7, _8, 0.0); _10 = ReduceSum <keepdims = 0> (_9, {1}); y = Add (x, _10)""",
    ),
    Fires(
        _NET % ("5", "int64[K, 1] i,", "K", "", "add"),
        becomes="""_1 = Gather <axis = -1> (i, 0); _2 = Less (_1, 0); _3 = Add (_1, 5); _4 = Where (_2, _3, _1)
        _5 = Unsqueeze (_4, {0}); _6 = Equal (_5, [5, 1] {0, 1, 2, 3, 4}); _7 = Unsqueeze (u, {0})
        _8 = Where (_6, _7, 0.0); _9 = ReduceSum <keepdims = 0> (_8, {1}); y = Add (x, _9)""",
    ),
    Fires(_NET % ("3, 2, 2", "int64[K, 2] i,", "K, 2", "", "add")),
    Fires(_NET % ("5, 2", "int64[2, 2, 1] i,", "2, 2, 2", "", "min")),
    Fires((_NET % ("5, 2", "int64[3, 1] i,", "3, 2", "", "mul")).replace("float[", "int64[")),
    Skips(_NET % ("5, 2", "", "3, 2", _ONCE, "none")),
    Skips(_NET % ("M, 2", "", "3, 2", _ONCE, "add"), because="--shape"),
    Skips(_NET % ("M, 2", "int64[K, 1] i,", "K, 2", "", "add"), because="--shape"),
    Skips(
        _NET % ("5, 2", "", "33, 2", f"int64[33, 1] i = {{{', '.join('0' * 33)}}}", "add"), because="33 times"
    ),
    Skips(_NET % ("5000, 2", "int64[5000, 1] i,", "5000, 2", "", "add"), because="computed"),
]
