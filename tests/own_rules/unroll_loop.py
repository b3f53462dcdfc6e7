"""Unroll a Loop of a few iterations.

    before    y = Loop(3, true, x) { x -> Mul(x, w) }
    after     y = Mul(Mul(Mul(x, w), w), w)

It is one whose number of iterations is a constant and whose condition is never false.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, inline, op, rule

_MOST = 16


@rule("Loop", stage="compat")
def unroll_loop(node: Node) -> dict[int, Value]:
    trip, going, *carried = node.inputs
    count = constant(trip)
    if count is None:
        raise Skip("the number of iterations is not known")
    if not 1 <= int(count.reshape(-1)[0]) <= _MOST:
        raise Skip(f"{int(count.reshape(-1)[0])} iterations")
    if None in carried or (going is not None and not np.all(constant(going))):
        raise Skip("it may not begin")
    collected: list[list[Value]] = [[] for _ in node.outputs[len(carried) :]]
    for number in range(int(count.reshape(-1)[0])):
        again, *given = inline(node.body("body"), number, True, *carried)
        if constant(again) is None or not np.all(constant(again)):
            raise Skip("it may end before")
        carried, rows = given[: len(carried)], given[len(carried) :]
        for row, one in zip(collected, rows, strict=True):
            row.append(op.Unsqueeze(one, np.array([0])))
    return dict(enumerate([*carried, *(op.Concat(*row, axis=0) for row in collected)]))


def _net(count: int, body: str, going: str = "go", more: str = "") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c{more}) => (float[N, 4] y, float[M, N, 4] rows)
        <int64 n = {{{count}}}, bool go = {{1}}, float two = {{2}}, int64 one = {{1}}> {{
            y, rows = Loop (n, {going}, x) <body = b (int64 i, bool on, float[N, 4] a)
                => (bool still, float[N, 4] next, float[N, 4] row) {{ {body} }}> }}"""


_STEP = "still = Identity (on)  f = Cast <to = 1> (i)  s = Add (a, f)  next = Mul (s, two)  row = Tanh (next)"
_NESTED = """still = Identity (on)  odd = Equal (i, one)  t = Add (a, two)  row = Identity (a)
    next = If (odd) <then_branch = p () => (float[N, 4] u) { u = Mul (t, a) },
                     else_branch = q () => (float[N, 4] v) { w = Neg (t)  v = Add (w, two) }>"""

EXAMPLES = [
    Fires(_net(3, _STEP), gone="Loop"),
    Fires(_net(3, _STEP, going=""), gone="Loop"),
    Fires(_net(4, _NESTED), gone="Loop"),
    Fires(_net(2, _STEP.replace("Identity (on)", "Constant <value = bool {1}> ()")), gone="Loop"),
    Skips(_net(17, _STEP), because="17 iterations"),
    Skips(
        _net(2, _STEP.replace("Identity (on)", "Constant <value = bool {0}> ()")), because="may end before"
    ),
    Skips(_net(3, _STEP, going="c"), because="may not begin"),
    Skips(_net(3, _STEP.replace("Identity (on)", "Less (i, one)")), because="may end before"),
    Skips(_net(3, _STEP).replace("int64 n = {3}, ", "").replace("bool c", "int64 n"), because="not known"),
]
