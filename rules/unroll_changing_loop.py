"""Unroll a Loop of few iterations that carries a tensor of another shape each time.

TensorRT wants one shape for all iterations:

    IRecurrenceLayer must have inputs with same shape.
    inputs to IRecurrenceLayer have different shapes.

    before    y = Loop(2, true, x) { a -> Concat(a, x) }
    after     y = Concat(Concat(x, x), x)

The number of iterations must be a constant and the condition never false; at most 64 iterations and 1024 nodes.
Equal bit for bit.
"""

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, inline, op, rule

_MOST, _NODES = 64, 1024


@rule("Loop", stage="compat", lacks="loop-changing-shapes")
def unroll_changing_loop(node: Node) -> dict[int, Value] | None:
    trip, going, *carried = node.inputs
    body, number = node.body("body"), constant(trip)
    if None in carried or not carried or not _changes(node):
        return None
    if number is None:
        name = "" if trip is None else trip.name
        raise Skip(
            f"a tensor that it carries changes its shape, and its number of iterations {name!r} is not known "
            f"before the model runs: state it with --freeze {name}=NUMBER"
            if trip is not None and trip.is_input
            else "a tensor that it carries changes its shape, and how often is not known before the model runs"
        )
    count = int(number.reshape(-1)[0])
    if not 1 <= count <= _MOST or count * len(body.nodes) > _NODES:
        raise Skip(f"a tensor that it carries changes its shape, and {count} iterations are not unrolled")
    if going is not None and not _is_true(going):
        raise Skip("a tensor that it carries changes its shape, and it may not begin")
    collected: list[list[Value]] = [[] for _ in node.outputs[len(carried) :]]
    values: list[Value | None] = list(carried)
    for iteration in range(count):
        again, *given = inline(body, np.int64(iteration), np.array(True), *values)
        if not _is_true(again):
            raise Skip("a tensor that it carries changes its shape, and it may end before")
        values, rows = list(given[: len(values)]), given[len(values) :]
        for row, one in zip(collected, rows, strict=True):
            row.append(unsqueezed(node, one, [0]))
    stacked = [op.Concat(*rows, axis=0) for rows in collected]
    return {index: value for index, value in enumerate([*values, *stacked]) if value is not None}


def _is_true(condition: Value) -> bool:
    known = constant(condition)
    return known is not None and bool(known.all())


def _changes(node: Node) -> bool:
    """Whether a tensor that a Loop carries has another shape after an iteration."""
    _, _, *carried = node.inputs
    body = node.body("body")
    _, *given = inline(body, np.int64(0), np.array(True), *carried)
    for place, pair in enumerate(zip(*(carried, given[: len(carried)]), strict=True)):
        shapes = [one.shape for one in pair if one is not None and one.shape is not None]
        if len(shapes) < 2:
            continue
        declared = body.inputs[2 + place].shape, body.outputs[1 + place].shape
        if len(shapes[0]) != len(shapes[1]) or any(_differ(*sizes) for sizes in zip(*shapes, strict=True)):
            return True
        if shapes[0] != shapes[1] and None not in declared and declared[0] != declared[1]:
            return True
    return False


def _differ(one: int | str | None, other: int | str | None) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one != other


_NET = """<ir_version: 8, opset_import: ["" : %d]>
    g (float[%s, 3] x, int64 k, bool f) => (%s) <int64 n = {%d}, bool on = {1}, float zero = {0}> {
        %s = Loop (%s) <body = b (int64 i, bool c, float[M, 3] a) => (bool d, float[P, 3] r%s) {
            d = %s  r = %s %s }> }"""


def _net(
    trip: str = "n, on, x",
    count: int = 3,
    step: str = "Concat <axis = 0> (a, x)",
    still: str = "Identity (c)",
    size: str = "1",
    rows: str = "",
    opset: int = 13,
) -> str:
    outputs = "y, z" if rows else "y"
    return _NET % (
        opset,
        size,
        outputs,
        count,
        outputs,
        trip,
        ", float[3] q" if rows else "",
        still,
        step,
        rows,
    )


EXAMPLES = [
    Fires(
        _net(),
        becomes="""y: float32[4, 3]; _1 = Concat <axis = 0> (x, x); _2 = Concat <axis = 0> (_1, x)
        y = Concat <axis = 0> (_2, x)""",
    ),
    Fires(_net("n, , x", size="N", rows="q = ReduceMax <axes = [0], keepdims = 0> (r)"), gone="Loop"),
    Skips(_net(step="Sin (a)")),
    Skips(_net(step="Sin (a)").replace("float[1, 3] x", "float[] x").replace("float[M, 3] a", "float[] a")),
    Skips(_net(count=65), because="65 iterations"),
    Skips(_net("k, on, x"), because="--freeze k=NUMBER"),
    Skips(_net("m, on, x").replace("y = Loop", "m = Abs (k)  y = Loop"), because="how often is not known"),
    Skips(_net(", on, x"), because="how often is not known"),
    Skips(_net("n, f, x"), because="may not begin"),
    Skips(_net(still="Identity (f)"), because="may end before"),
    Fires(
        _net(count=1).replace("float[M, 3] a", "float[] a"),
        becomes="y: float32[2, 3]; y = Concat <axis = 0> (x, x)",
    ),
]
