"""Inline the branch that an If always takes.

Exporters turn Python conditions on sizes into `If` nodes; with static shapes the condition is a
constant, and one branch is never taken. TensorRT wants both branches to have the same rank:

    IIfConditionalOutputLayer inputs must have the same shape.

    before    y = If(true) { then: Squeeze(x, 1)  else: Identity(x) }
    after     y = Squeeze(x, 1)

The branch's nodes keep their names. An If whose condition is computed from the inputs stays.
"""

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, required, rule


@rule("If", stage="clean")
def inline_if(node: Node) -> dict[int, Tensor] | None:
    (condition,) = required(node, 1)
    if not condition.is_constant:
        if condition.producer is None:
            states = f"--freeze {condition.name}=true, or false, states it"
            raise Skip(f"the condition is the input {condition.name!r}: {states}")
        raise Skip("the condition is not known before the model runs")
    branch = "then_branch" if condition.scalar else "else_branch"
    return dict(enumerate(node.body(branch)))


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 1, 4] x) => (float[2, 4] y) <int64 one = {1}, int64[1] axis = {1}> {
            s = Shape (x)  d = Gather (s, one)  c = Equal (d, one)
            t = If (c) <then_branch = b1 () => (float[2, 4] a) { a = Squeeze (x, axis) },
                        else_branch = b2 () => (float[2, 1, 4] b) { b = Identity (x) }>
            y = Relu (t) }""",
        gone="If",
        after=("fold_constants",),
        becomes="a = Squeeze (x, {1}); y = Relu (a)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[2, 3] y) <bool c = {0}> {
            y = If (c) <then_branch = b1 () => (float[2, 3] a) { a = Relu (x) },
                        else_branch = b2 () => (float[2, 3] b) { e = Exp (x)  b = Neg (e) }> }""",
        gone="If",
        becomes="e = Exp (x); y = Neg (e)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2, 3] x) => (float[2, 3] y) {
            y = If (c) <then_branch = b1 () => (float[2, 3] a) { a = Relu (x) },
                        else_branch = b2 () => (float[2, 3] b) { b = Exp (x) }> }""",
        because="--freeze c=true",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[2, 3] y) <float n = {0}> {
            m = ReduceMean <keepdims = 0> (x)  c = Greater (m, n)
            y = If (c) <then_branch = b1 () => (float[2, 3] a) { a = Relu (x) },
                        else_branch = b2 () => (float[2, 3] b) { b = Exp (x) }> }""",
        because="not known",
    ),
]
