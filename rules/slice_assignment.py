"""Write an assignment to a slice (`x[:, 1:3] = y`) as a `Concat` of what is before it, of it and of what is behind it.

It is exported as ScatterND, of one row (`x[..., 0] = y`) as ScatterElements. TensorRT before 8.2 has no importer for them:

    No importer registered for op: ScatterND

    before    y = ScatterND(x, [[1], [2]], u)                x: [5, N]
    after     y = Concat(Slice(x, 0, 1), u, Slice(x, 3, 5), axis=0)

Rows that do not follow each other (`x[::2] = y`) are gathered of both, joined:

    after     y = Gather(Concat(x, u, axis=0), [5, 1, 6, 3, 7])

In a box of several axes (`x[:, 1:3, 2:4] = y`) the slice of the first axis is written in the same way before. Each
axis takes 4 nodes and moves its values once more. What the indices count may be computed: all rows of a dynamic
dimension, as exporters write `x[:, 1:3]`. Values are only moved: equal bit for bit. Left alone are indices that
are computed otherwise, that make no box, or that name a place several times, where ONNX does not say which counts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _boxes import box_of_places, rows_of_elements, sizes_of
from _opsets import sliced

from onnxq.rule import (
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    constant,
    made_by,
    op,
    required,
    rule,
)

_END = np.iinfo(np.int64).max


@rule("ScatterND", "ScatterElements", "Scatter", stage="compat")
def slice_assignment(node: Node) -> Value | None:
    if not node.lacks(node.op) or node.attr("reduction", "none") != "none":
        return None
    data, indices, updates = required(node, 3)
    if node.op == "ScatterND":
        box = box_of_places(indices, data)
        given = _shaped(updates, sizes_of(box, data))
        rows = [(axis, part) for axis, part in enumerate(box) if part is not None]
    else:
        rows, given = [rows_of_elements(indices, data, node.attr("axis"))], updates
    assert data.shape is not None
    written = _assigned(node, data, data.shape, rows, given)
    return op.Identity(written) if isinstance(written, Tensor) else written


def _assigned(
    node: Node, x: Value, shape: Sequence[Any], rows: Sequence[tuple[int, np.ndarray]], u: Value
) -> Value:
    """x, with u in place of these rows of these axes."""
    if not rows:
        return u
    (axis, places), *more = rows
    size = shape[axis]
    together = (np.diff(places) == 1).all()
    if not together and not isinstance(size, int):
        raise Skip(f"it writes rows of dimension {axis} that do not follow each other, and its size is dynamic ({size}): "
                   "give the size with --shape")  # fmt: skip
    first, end = int(places[0]), int(places[-1]) + 1
    if more:
        part = (
            sliced(node, x, [first], [end or _END], [axis]) if together else op.Gather(x, places, axis=axis)
        )
        u = _assigned(node, part, shape, more, u)
    if not together:
        source = np.arange(size)
        source[places] = size + np.arange(len(places))
        return op.Gather(op.Concat(x, u, axis=axis), source, axis=axis)
    parts = [u]
    if first != 0:
        parts.insert(0, sliced(node, x, [0], [first], [axis]))
    if end not in (0, size):
        parts.append(sliced(node, x, [end], [size if isinstance(size, int) else _END], [axis]))
    return op.Concat(*parts, axis=axis) if len(parts) > 1 else u


def _shaped(updates: Tensor, sizes: list[Any]) -> Value:
    """The updates in the shape of the box; where an exporter computes that for a Reshape, of what it read."""
    source, made = updates, made_by(updates, "Reshape")
    if made is not None:
        given, shape = required(made, 2)
        source = given if constant(shape) is None else updates
    if source.shape == tuple(sizes) and None not in sizes:
        return source
    fits = updates.rank == len(sizes)
    if (source is not updates or not fits) and sum(not isinstance(size, int) for size in sizes) <= 1:
        return op.Reshape(source, np.array([size if isinstance(size, int) else -1 for size in sizes]))
    if not fits:
        raise Skip(f"the shape of {updates.name!r} is not known")
    return updates


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[%s] x, %s float[%s] u) => (y) <%s> { y = ScatterND (x, i, u) }"""
_STATIC = _NET.replace(" %s float", " float")


def _batch(column: str, more: str = "") -> str:
    """`x[:, ...] = u` with a dynamic batch, as it is exported: a grid of the batch and of rows."""
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 6, K] x, float[N, 2, K] u) => (y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64[2] column = {{-1, 1}}, int64[1] last = {{-1}}, int64[2] rows = {{{column}}}> {{
            s = Shape (x)  n = Gather (s, zero)  r = Range (zero, n, one)  b = Reshape (r, column)
            a = Add (b, rows)  grid = Shape (a)
            e = Expand (b, grid)  i0 = Unsqueeze (e, last)  f = Expand (rows, grid)  i1 = Unsqueeze (f, last)
            i = Concat <axis = -1> (i0, i1)  {more or "y = ScatterND (x, i, u)"} }}"""


_ELEMENTS = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[%s] x, %s float[%s] u) => (y) <%s> { y = ScatterElements <axis = %s> (x, i, u) }"""
_SPREAD = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 4] x, float[%s] u) => (y) <int64%s v = {-1}> {
        n = Shape (u)  i = Expand (v, n)  y = ScatterElements <axis = 1> (x, i, u) }"""

EXAMPLES = [
    Fires(
        _STATIC % ("5, N", "2, N", "int64[2, 1] i = {1, 2}"),
        becomes="""_1 = Slice (x, {0}, {1}, {0}, {1}); _2 = Slice (x, {3}, {5}, {0}, {1}); y = Concat <axis = 0> (_1, u, _2)""",
    ),
    Fires(
        _STATIC % ("5, N", "2, N", "int64[2, 1] i = {-2, -1}"),
        becomes="""_1 = Slice (x, {0}, {3}, {0}, {1}); y = Concat <axis = 0> (_1, u)""",
    ),
    Fires(
        _STATIC % ("5, N", "3, N", "int64[3, 1] i = {0, 2, -1}"),
        becomes="""_1 = Concat <axis = 0> (x, u); y = Gather <axis = 0> (_1, {5, 1, 6, 3, 7})""",
    ),
    Fires(
        _STATIC % ("N, 3", "1, 3", "int64[1, 1] i = {1}"),
        becomes="""_1 = Slice (x, {0}, {1}, {0}, {1}); _2 = Slice (x, {2}, {9223372036854775807}, {0}, {1}); y = Concat <axis = 0> (_1, u, _2)""",
    ),
    Fires(
        _STATIC % ("N, 3", "2, 3", "int64[2, 1] i = {-3, -2}"),
        becomes="""_1 = Slice (x, {0}, {-3}, {0}, {1}); _2 = Slice (x, {-1}, {9223372036854775807}, {0}, {1}); y = Concat <axis = 0> (_1, u, _2)""",
    ),
    Fires(
        _STATIC % ("N, 3", "2, 3", "int64[2, 1] i = {-2, -1}"),
        becomes="""_1 = Slice (x, {0}, {-2}, {0}, {1}); y = Concat <axis = 0> (_1, u)""",
    ),
    Fires(_STATIC % ("2, N", "2, N", "int64[2, 1] i = {0, 1}"), becomes="""y = Identity (u)"""),
    Fires(
        _STATIC % ("3, 4", "2, 2", "int64[2, 2, 2] i = {0, 1, 0, 2, 1, 1, 1, 2}"),
        becomes="""_1 = Slice (x, {0}, {2}, {0}, {1})
        _2 = Slice (_1, {0}, {1}, {1}, {1})
        _3 = Slice (_1, {3}, {4}, {1}, {1})
        _4 = Concat <axis = 1> (_2, u, _3)
        _5 = Slice (x, {2}, {3}, {0}, {1})
        y = Concat <axis = 0> (_4, _5)""",
    ),
    Fires(
        _STATIC % ("3, 4", "4", "int64[4, 2] i = {0, 1, 0, 3, 2, 1, 2, 3}"),
        becomes="""_1 = Gather <axis = 0> (x, {0, 2})
        _2 = Reshape (u, {2, 2})
        _3 = Concat <axis = 1> (_1, _2)
        _4 = Gather <axis = 1> (_3, {0, 4, 2, 5})
        _5 = Concat <axis = 0> (x, _4)
        y = Gather <axis = 0> (_5, {3, 1, 4})""",
    ),  # a list of places
    Fires(
        _STATIC % ("4, N", "1, 2, N", "int64[1, 2, 1] i = {1, 2}"),
        becomes="""_1 = Slice (x, {0}, {1}, {0}, {1})
        _2 = Reshape (u, {2, -1})
        _3 = Slice (x, {3}, {4}, {0}, {1})
        y = Concat <axis = 0> (_1, _2, _3)""",
    ),
    Fires(
        _batch("1, 2"),
        gone="ScatterND",
        becomes="""_1 = Slice (x, {0}, {1}, {1}, {1})
        _2 = Slice (x, {3}, {6}, {1}, {1})
        y = Concat <axis = 1> (_1, u, _2)""",
    ),
    Fires(
        _batch("0, -1"),
        gone="ScatterND",
        becomes="""_1 = Concat <axis = 1> (x, u)
        y = Gather <axis = 1> (_1, {6, 1, 2, 3, 4, 7})""",
    ),
    Fires(
        _STATIC % ("N, 4", "2, 2", "int64[2, 2, 2] i = {-2, 1, -2, 2, -1, 1, -1, 2}"),
        becomes="""_1 = Slice (x, {0}, {-2}, {0}, {1})
        _2 = Slice (x, {-2}, {9223372036854775807}, {0}, {1})
        _3 = Slice (_2, {0}, {1}, {1}, {1})
        _4 = Slice (_2, {3}, {4}, {1}, {1})
        _5 = Concat <axis = 1> (_3, u, _4)
        y = Concat <axis = 0> (_1, _5)""",
    ),
    Fires(
        _batch("1, 2", "t = Concat <axis = 0> (grid, rest)  w = Reshape (u, t)  y = ScatterND (x, i, w)")
        .replace("last = {-1}", "last = {-1}, int64[1] rest = {3}")
        .replace("N, 2, K]", "N, 6]")
        .replace("K] ", "3] "),
        gone="ScatterND",
        becomes="""_1 = Slice (x, {0}, {1}, {1}, {1})
        _2 = Reshape (u, {-1, 2, 3})
        _3 = Slice (x, {3}, {6}, {1}, {1})
        y = Concat <axis = 1> (_1, _2, _3)""",
    ),
    Fires(  # two of its sizes are not known: its Reshape stays
        _batch(
            "1, 2",
            "k = Slice (s, two, three)  t = Concat <axis = 0> (grid, k)  w = Reshape (u, t)  y = ScatterND (x, i, w)",
        )
        .replace("last = {-1}", "last = {-1}, int64[1] two = {2}, int64[1] three = {3}")
        .replace("N, 2, K]", "N, K, 2]"),
        gone="ScatterND",
        becomes="""_1 = Slice (x, {0}, {1}, {1}, {1})
        s = Shape (x)
        n = Gather (s, 0)
        r = Range (0, n, 1)
        b = Reshape (r, {-1, 1})
        a = Add (b, {1, 2})
        grid = Shape (a)
        k = Slice (s, {2}, {3})
        t = Concat <axis = 0> (grid, k)
        w = Reshape (u, t)
        _2 = Slice (x, {3}, {6}, {1}, {1})
        y = Concat <axis = 1> (_1, w, _2)""",
    ),
    Fires(
        _STATIC.replace("y = ", "w = Reshape (u, s)  y = ").replace("i, u", "i, w")
        % ("5, 3", "6", "int64[2, 1] i = {1, 2}, int64[2] s = {2, 3}"),
        becomes="""_1 = Slice (x, {0}, {1}, {0}, {1})
        w = Reshape (u, {2, 3})
        _2 = Slice (x, {3}, {5}, {0}, {1})
        y = Concat <axis = 0> (_1, w, _2)""",
    ),
    Fires(
        _ELEMENTS % ("2, 2", "", "2, 2", "int64[2, 2] i = {0, 1, 0, 1}", "1"), becomes="""y = Identity (u)"""
    ),
    Fires(  # what is assigned is put into the shape of the grid
        _batch("1, 2", "t = Concat <axis = 0> (grid, rest)  w = Reshape (u, t)  y = ScatterND (x, i, w)")
        .replace("last = {-1}", "last = {-1}, int64[1] rest = {3}")
        .replace("K] ", "3] "),
        gone="ScatterND",
        becomes="""_1 = Slice (x, {0}, {1}, {1}, {1})
        _2 = Slice (x, {3}, {6}, {1}, {1})
        y = Concat <axis = 1> (_1, u, _2)""",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[N, 3] x, float[N, 3] u) => (y) <int64 zero = {0}, int64 one = {1}> {
            s = Shape (x)  n = Gather (s, zero)  r = Range (zero, n, one)  i = Unsqueeze <axes = [-1]> (r)
            y = ScatterND (x, i, u) }""",
        becomes="""y = Identity (u)""",
    ),
    Fires(
        _ELEMENTS % ("2, 4", "", "2, 1", "int64[2, 1] i = {3, 3}", "1"),
        becomes="""_1 = Slice (x, {0}, {3}, {1}, {1})
        y = Concat <axis = 1> (_1, u)""",
    ),
    Fires(
        _ELEMENTS % ("2, 4", "", "2, 2", "int64[2, 2] i = {-1, 1, -1, 1}", "-1"),
        becomes="""_1 = Concat <axis = 1> (x, u)
        y = Gather <axis = 1> (_1, {0, 5, 2, 4})""",
    ),
    Fires(
        _SPREAD % ("N, 1", ""),
        gone="ScatterElements",
        becomes="""_1 = Slice (x, {0}, {3}, {1}, {1})
        y = Concat <axis = 1> (_1, u)""",
    ),
    Fires(
        _SPREAD % ("N, 1", "[1]"),
        gone="ScatterElements",
        becomes="""_1 = Slice (x, {0}, {3}, {1}, {1})
        y = Concat <axis = 1> (_1, u)""",
    ),
    Fires(
        (_ELEMENTS % ("2, 4", "", "2, 1", "int64[2, 1] i = {0, 0}", "1"))
        .replace(": 17", ": 10")
        .replace("Elements", ""),
        becomes="""_1 = Slice (x, {1}, {4}, {1}, {1})
        y = Concat <axis = 1> (u, _1)""",
    ),
    Skips(_STATIC % ("5, N", "2, N", "int64[2, 1] i = {1, 1}"), because="several times"),
    Skips(_STATIC % ("5, N", "2, N", "int64[2, 1] i = {4, -1}"), because="several times"),
    Skips(_STATIC % ("3, 4", "3", "int64[3, 2] i = {0, 1, 0, 2, 1, 1}"), because="no box"),
    Skips(_STATIC % ("N, 3", "2, 3", "int64[2, 1] i = {0, -1}"), because="--shape"),
    Skips(_STATIC % ("N, 3", "2, 3", "int64[2, 1] i = {0, 2}"), because="--shape"),
    Skips(
        _STATIC.replace("(x, i", '<reduction = "add"> (x, i').replace(": 17", ": 18")
        % ("5, N", "2, N", "int64[2, 1] i = {1, 2}")
    ),
    Skips(_NET % ("5, N", "int64[2, 1] i,", "2, N", ""), because="computed"),
    Skips(_NET % ("5, 4", "int64[2, 2] i,", "2", ""), because="computed"),
    Skips(_STATIC % ("4, N, M", "1, 2, N, M", "int64[1, 2, 1] i = {1, 2}"), because="the shape of 'u'"),
    Skips(_batch("1, 1"), because="several times"),
    Skips(_batch("1, 2").replace("(zero, n, one)", "(one, n, one)"), because="computed"),
    Skips(_batch("1, 2").replace("(zero, n, one)", "(zero, one, one)"), because="computed"),
    Skips(_batch("1, 2").replace("(i0, i1)", "(i1, i0)"), because="no box"),
    Skips(_batch("1, 2").replace("<axis = -1>", "<axis = 0>"), because="computed"),
    Skips(_ELEMENTS % ("2, 4", "int64[2, 1] i,", "2, 1", "", "1"), because="computed"),
    Skips(_ELEMENTS % ("2, 4", "", "2, 1", "int64[2, 1] i = {3, 2}", "1"), because="no rows"),
    Skips(_ELEMENTS % ("2, 4", "", "2, 2", "int64[2, 2] i = {3, -1, 3, -1}", "1"), because="several times"),
    Skips(_ELEMENTS % ("3, 4", "", "2, 1", "int64[2, 1] i = {3, 3}", "1"), because="a part of dimension 0"),
    Skips(_SPREAD % ("M, 1", ""), because="a part of dimension 0"),
    Skips(_SPREAD % ("N, 2", ""), because="several times"),
]
