"""Compute both branches of an If, and take one.

    before    y = If(c) { then: Relu(x)  else: Exp(x) }
    after     y = Gather([Exp(x), Relu(x)], c)

Both must have one static shape, and neither may hold a Loop. (onnxruntime's Where loses the sign of a zero.)
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, inline, is_static, op, rule


@rule("If", stage="compat")
def both_branches(node: Node) -> dict[int, Value] | None:
    condition = node.inputs[0]
    if condition is None or condition.is_constant:
        return None
    bodies = [node.body("then_branch"), node.body("else_branch")]
    if any(inner.op == "Loop" for body in bodies for inner in body.nodes):
        raise Skip("a branch holds a Loop")
    first, scalar = np.array([0]), np.array([], np.int64)
    results = {}
    pairs = zip(*(inline(body) for body in bodies), strict=True)
    for index, (one, other) in enumerate(pairs):
        if not is_static(one.shape) or one.shape != other.shape or one.dtype != other.dtype:
            raise Skip(f"the branches give {one.shape} and {other.shape}")
        both = op.Concat(op.Unsqueeze(other, first), op.Unsqueeze(one, first), axis=0)
        results[index] = op.Gather(both, op.Reshape(op.Cast(condition, to=7), scalar))
    return results


def _net(then: str, other: str, shape: str = "2, 3") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[{shape}] x, float[2, 3] z) => (y) {{
            y = If (c) <then_branch = b1 () => (a) <float k = {{3}}> {{ {then} }},
                        else_branch = b2 () => (b) <float k = {{5}}> {{ {other} }}> }}"""


EXAMPLES = [
    Fires(_net("e = Relu (x)  a = Mul (e, k)", "e = Exp (x)  b = Mul (e, k)"), gone="If"),
    Fires(_net("a = Identity (z)", "b = Neg (z)"), gone="If"),
    Skips(_net("a = Relu (x)", "b = Exp (x)", "N, 3"), because="branches give"),
    Skips(_net("a = Relu (x)", "b = Exp (x)", "1, 3").replace("b = Exp (x)", "b = Exp (z)"), because="give"),
]
