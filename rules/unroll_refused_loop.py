"""Unroll a Loop or a Scan that TensorRT does not compile.

It wants one shape for all iterations, sizes that an iteration does not decide, and a Scan that carries something:

    IRecurrenceLayer must have inputs with same shape.
    inputs to IRecurrenceLayer have different shapes.
    Assertion newNodeOrder.size() == g.nodes.size() failed.
    Assertion !scope.getOp() failed. Data-dependent
    Invalid Node - Scan

    before    y = Loop(2, true, x) { i, a -> Add(a, Slice(t, i, i + 1)) }
    after     y = Add(Add(x, Slice(t, 0, 1)), Slice(t, 1, 2))

The number of iterations must be a constant and the condition never false; at most 2,000 nodes in all. Other Loops
stay: of 58 forms tensorrt-rtx 1.7.1 compiles the 34 that are none of these, and none of the others. It is of stage
`clean`, so that what the number of an iteration decides is folded. Equal bit for bit.
"""

import numpy as np
from _loops import unrolled

from onnxq.rule import Fires, Node, Skips, Value, deciding_operands, inline, rule


@rule("Loop", "Scan", stage="clean", lacks="loop-forms")
def unroll_refused_loop(node: Node) -> dict[int, Value] | None:
    if node.op == "Scan" and node.attr("num_scan_inputs") == len(node.inputs):
        return unrolled(node, "it has no state")
    if node.op == "Loop" and _changes(node):
        return unrolled(node, "a tensor that it carries changes its shape")
    sized = _sized(node)
    return None if sized is None else unrolled(node, f"an iteration decides the sizes of {sized.name!r}")


def _changes(node: Node) -> bool:
    """Whether a tensor that a Loop carries has another shape after an iteration."""
    _, _, *carried = node.inputs
    body = node.body("body")
    if None in carried:
        return False
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


def _sized(node: Node) -> Node | None:
    """A node of the body whose sizes or places are computed from what changes with the iterations."""
    body = node.body("body")
    changing = set(body.inputs)
    for one in (inner for outer in body.nodes for inner in outer.with_bodies):
        if not changing.isdisjoint(deciding_operands(one)):
            return one
        if one.op not in ("Shape", "Size") and not changing.isdisjoint(one.reads):
            changing.update(one.outputs)
    return None


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
    row = ", float[3] q" if rows else ""
    return _NET % (opset, size, outputs, count, outputs, trip, row, still, step, rows)


_SCAN = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[%s, N] x) => (z) { z = Scan <num_scan_inputs = 1 %s,
        body = b (float[N] a) => (float[N] o) { o = Exp (a) }> (x) }"""

_SIZES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 3] x, float[9, 3] t, bool f) => (y) <int64 n = {2}, bool on = {1}, int64[3] starts = {0, 4, 8},
        int64[1] zero = {0}, int64 one = {1}> {
        y = Loop (n, on, x) <body = b (int64 i, bool c, float[2, 3] a) => (bool d, float[2, 3] r) { d = Identity (c)
            p = Gather (starts, i)  j = Add (i, one)  q = Gather (starts, j)
            from = Unsqueeze (p, zero)  to = Unsqueeze (q, zero)  s = Slice (t, from, to, zero)
            m = ReduceSum (s, zero)  r = Add (a, m) }> }"""

_STATE = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[3] h, int64[2] x, float[9, 3] t) => (y, z) <int64[1] zero = {0}, int64[1] one = {1}> {
        y, z = Scan <num_scan_inputs = 1, scan_input_axes = [-1], body = b (float[3] a, int64 i)
            => (float[3] r, float[3] o) { p = Unsqueeze (i, zero)  q = Add (p, one)  s = Slice (t, p, q, zero)
            m = ReduceSum <keepdims = 0> (s, zero)  r = Add (a, m)  o = Exp (r) }> (h, x) }"""

EXAMPLES = [
    Fires(
        _net(),
        becomes="""y: float32[4, 3]; _1 = Concat <axis = 0> (x, x); _2 = Concat <axis = 0> (_1, x)
        y = Concat <axis = 0> (_2, x)""",
    ),
    Fires(_net("n, , x", size="N", rows="q = ReduceMax <axes = [0], keepdims = 0> (r)"), gone="Loop"),
    Fires(
        _net(count=1).replace("float[M, 3] a", "float[] a"),
        becomes="y: float32[2, 3]; y = Concat <axis = 0> (x, x)",
    ),
    Fires(
        _SIZES,
        after=("fold_constants",),
        becomes="""y: float32[2, 3]; _1 = Slice (t, {0}, {4}, {0}); _2 = ReduceSum (_1, {0}); _3 = Add (x, _2)
        _4 = Slice (t, {4}, {8}, {0}); _5 = ReduceSum (_4, {0}); y = Add (_3, _5)""",
    ),
    Fires(
        _STATE,
        becomes="""_1 = Gather <axis = -1> (x, 0); _2 = Unsqueeze (_1, {0}); _3 = Add (_2, {1})
        _4 = Slice (t, _2, _3, {0}); _5 = ReduceSum <keepdims = 0> (_4, {0}); _6 = Add (h, _5)
        _7 = Gather <axis = -1> (x, 1); _8 = Unsqueeze (_7, {0}); _9 = Add (_8, {1})
        _10 = Slice (t, _8, _9, {0}); _11 = ReduceSum <keepdims = 0> (_10, {0}); y = Add (_6, _11)
        _12 = Exp (_6); _13 = Unsqueeze (_12, {0}); _14 = Exp (y); _15 = Unsqueeze (_14, {0})
        z = Concat <axis = 0> (_13, _15)""",
    ),
    Fires(_net(count=1, still="Identity (f)"), gone="Loop"),
    Skips(_net(step="Sin (a)")),
    Skips(_net(step="Sin (a)").replace("float[1, 3] x", "float[] x").replace("float[M, 3] a", "float[] a")),
    Skips(_net(count=1001), because="1001 iterations"),
    Skips(_net(count=0), because="0 iterations"),
    Skips(_net("k, on, x"), because="--freeze k=NUMBER"),
    Skips(
        _net("m, on, x").replace("y = Loop", "m = Abs (k)  y = Loop"),
        because="how often it runs is not known",
    ),
    Skips(_net(", on, x"), because="how often it runs is not known"),
    Skips(_net("n, f, x"), because="may not begin"),
    Skips(_net(still="Identity (f)"), because="may end before"),
    Skips(_net(step="Concat <axis = 0> (a, x)  w = RandomNormalLike (x)"), because="at random"),
    Fires(
        _SCAN % ("2", ", scan_output_axes = [-1], scan_input_directions = [1]"),
        becomes="""_1 = Gather <axis = 0> (x, 1); _2 = Exp (_1); _3 = Unsqueeze (_2, {1})
        _4 = Gather <axis = 0> (x, 0); _5 = Exp (_4); _6 = Unsqueeze (_5, {1})
        z = Concat <axis = 1> (_3, _6)""",
    ),
    Fires(_SCAN % ("3", ", scan_output_directions = [1]"), gone="Scan"),
    Fires(
        (_SCAN % ("N", ", scan_input_axes = [1]")).replace("N, N] x", "N, 1] x"),
        becomes="""_1 = Gather <axis = 1> (x, 0); _2 = Exp (_1); _3 = Unsqueeze (_2, {0}); z = Concat <axis = 0> (_3)""",
    ),
    Fires((_SCAN % ("2", "")).replace("float[N] o) { o = Exp", "float[] o) { o = Squeeze"), gone="Scan"),
    Skips(
        (_SCAN % ("2", ", scan_output_axes = [-1]")).replace(
            "float[N] o) { o = Exp", "float[] o) { o = Squeeze"
        ),
        because="the rank of what",
    ),
    Skips(_SCAN % ("2001", ""), because="2001 iterations"),
    Skips(_SCAN % ("T", ""), because="how many steps"),
]
