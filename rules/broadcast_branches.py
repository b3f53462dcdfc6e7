"""Compute both branches of an If whose ranks differ where the readers broadcast them alike.

TensorRT wants branches of one rank where the condition is computed:

    IConditionalOutputLayer: Must have inputs with equal ranks when condition is not build-time constant

    before    y = x * If(c) { then: 2.0  else: [3.0] }
    after     y = x * Where(c, [2.0], [3.0])

The shapes may differ by leading ones only, and what is combined with them must have as many dimensions, so that the
result has one shape. Both branches are computed: at most 64 nodes, none with a body. Equal but for the sign of zeros,
which onnxruntime's Where does not keep.
"""

import numpy as np

from onnxq.rule import (
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    inline,
    is_static,
    made_by,
    op,
    remake,
    rule,
)

_READERS = ("Add", "Sub", "Mul", "Div", "Pow")
_MOST = 64


@rule("If", *_READERS, stage="compat", lacks="if-branches-of-different-rank")
def broadcast_branches(node: Node) -> Except | None:
    if node.op == "If":
        _explain(node)
        return None
    for place, tensor in enumerate(node.inputs):
        branch = made_by(tensor, "If")
        if branch is None or tensor is None or branch.inputs[0] is None or branch.inputs[0].is_constant:
            continue
        others = [one.rank for one in node.inputs if one is not None and one != tensor]
        chosen = _chosen(
            branch, tensor, None if None in others else max((rank or 0 for rank in others), default=0)
        )
        if chosen is not None:
            inputs = [chosen if one == tensor else one for one in node.inputs]
            answer = remake(node, *inputs)
            return Except(answer, "zero-sign", f"onnxruntime's Where does not keep it (input {place})")
    return None


def _shapes(branch: Node, index: int) -> list[tuple[int, ...]] | None:
    """The shapes that the branches give, the one of fewer dimensions first; None where they have one rank."""
    given = [branch.body(name)[index].shape for name in ("then_branch", "else_branch")]
    if None in given or len({len(shape or ()) for shape in given}) == 1:
        return None
    if not all(is_static(shape) for shape in given):
        raise Skip(f"its branches give {given[0]} and {given[1]}")
    return sorted((tuple(int(dim or 0) for dim in shape or ()) for shape in given), key=len)


def _chosen(branch: Node, tensor: Tensor, rank: int | None) -> Value | None:
    """One of what both branches give, in one shape; None where that is not what is wrong."""
    index = branch.outputs.index(tensor)
    shapes = _shapes(branch, index)
    if shapes is None:
        return None
    few, many = shapes
    if (1,) * (len(many) - len(few)) + few != many:
        raise Skip(f"it reads branches of an If that give {list(few)} and {list(many)}")
    if rank is None or rank < len(many):
        raise Skip("its result has as many dimensions as a branch of an If gives")
    bodies = [branch.body(name) for name in ("then_branch", "else_branch")]
    inner = [one for body in bodies for one in body.nodes]
    if len(inner) > _MOST or any(one.has_body for one in inner):
        raise Skip(f"the branches of {branch.name!r} have {len(inner)} nodes, or a body in a body")
    results = [op.Reshape(inline(body)[index], np.array(many, np.int64)) for body in bodies]
    return op.Where(branch.inputs[0], *results)


def _explain(node: Node) -> None:
    """What would help an If whose condition is an input of the model."""
    condition = node.inputs[0]
    if condition is None or not condition.is_input:
        return
    for index, tensor in enumerate(node.outputs):
        given = [node.body(name)[index].rank for name in ("then_branch", "else_branch")]
        if None not in given and given[0] != given[1]:
            raise Skip(
                f"its branches give {tensor.name!r} with {given[0]} and {given[1]} dimensions: state which is taken "
                f"with --freeze {condition.name}=1 or --freeze {condition.name}=0"
            )


_NET = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[2, 3] x, bool c) => (y) <float zero = {0}, float[1] three = {3}, int64[1] all = {0}> {
        s = ReduceSum <keepdims = 0> (x)  p = Greater (s, zero)
        t = If (%s) <then_branch = b1 () => (%s a) { %s }, else_branch = b2 () => (%s b) { %s }>  y = %s }"""

EXAMPLES = [
    Fires(
        _NET % ("p", "float", "a = Neg (s)", "float[1]", "b = Identity (three)", "Mul (x, t)"),
        gone="If",
        becomes="""y: float32[2, 3]; s = ReduceSum <keepdims = 0> (x); p = Greater (s, 0.0); _1 = Neg (s)
        _2 = Reshape (_1, {1}); _3 = Reshape ({3.0}, {1}); _4 = Where (p, _2, _3); y = Mul (x, _4)""",
    ),
    Fires(
        _NET
        % (
            "c",
            "float[3]",
            "a = ReduceSum <keepdims = 0> (x, all)",
            "float[1, 3]",
            "b = ReduceSum <keepdims = 1> (x, all)",
            "Sub (t, x)",
        ),
        gone="If",
    ),
    Skips(
        _NET % ("p", "float", "a = Neg (s)", "float[2, 3]", "b = Neg (x)", "Mul (x, t)"),
        because="[] and [2, 3]",
    ),
    Skips(
        _NET % ("p", "float", "a = Neg (s)", "float[1]", "b = Identity (three)", "Mul (s, t)"),
        because="as many",
    ),
    Skips(
        _NET % ("c", "float", "a = Neg (s)", "float[2, 3]", "b = Neg (x)", "Exp (t)"), because="--freeze c=1"
    ),
    Skips(_NET % ("p", "float[2, 3]", "a = Exp (x)", "float[2, 3]", "b = Neg (x)", "Mul (x, t)")),
]
