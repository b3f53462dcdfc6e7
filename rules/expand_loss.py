"""Write the losses of training as what they pick and add up.

A model that was exported with its loss. TensorRT has no importer for either:

    No importer registered for op: SoftmaxCrossEntropyLoss. (...) UNSUPPORTED_NODE: false
    No importer registered for op: NegativeLogLikelihoodLoss. (...) UNSUPPORTED_NODE: false

    before    loss, log = SoftmaxCrossEntropyLoss(x, label, weights)
    after     log = LogSoftmax(x), each = -log[label] * weights[label], loss = Sum(each) / Sum(weights[label])

Labels that are ignored weigh nothing. Picked by index, so that nothing is rounded; the sums may have another order.
"""

import numpy as np
from _opsets import squeezed, unsqueezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Tensor, Value, op, operands, required, rule


@rule(
    "SoftmaxCrossEntropyLoss",
    "NegativeLogLikelihoodLoss",
    stage="compat",
    lacks="SoftmaxCrossEntropyLoss",
)
def expand_loss(node: Node) -> Except:
    x, label = required(node, 2)
    if x.dtype is None or label.dtype is None or x.rank is None:
        raise Skip(f"the type or the rank of {x.name!r} is not known")
    scores: Value = x if node.op == "NegativeLogLikelihoodLoss" else _logarithms(node, x)
    given = {0: _loss(node, scores, label, operands(node, 3)[2])}
    if len(node.outputs) > 1 and node.outputs[1].name:
        given[1] = scores
    return Except(Close(given), "extreme-input", "a score that is no number is of no class")


def _logarithms(node: Node, x: Tensor) -> Value:
    if node.opset >= 13 or x.rank == 2:
        return op.LogSoftmax(x, axis=1)
    order = [0, *range(2, x.rank or 2), 1]  # before opset 13 it takes all behind the axis for one
    back = [0, len(order) - 1, *range(1, len(order) - 1)]
    return op.Transpose(op.LogSoftmax(op.Transpose(x, perm=order), axis=len(order) - 1), perm=back)


def _loss(node: Node, scores: Value, label: Tensor, weights: Tensor | None) -> Value:
    none, ignored = label.dtype.type(0) if label.dtype is not None else 0, node.attr("ignore_index")
    kind = (scores.dtype or np.dtype(np.float32)).type
    is_ignored = None if ignored is None else op.Equal(label, np.array(ignored, label.dtype))
    known = label if is_ignored is None else op.Where(is_ignored, none, label)
    picked = op.GatherElements(scores, unsqueezed(node, known, [1]), axis=1)
    each = op.Neg(squeezed(node, picked, [1]))
    share: Value | None = None if weights is None else op.Gather(weights, known, axis=0)
    if is_ignored is not None:
        share = op.Where(is_ignored, kind(0), kind(1) if share is None else share)
        each = op.Where(is_ignored, kind(0), each)
    each = each if share is None else op.Mul(each, share)
    reduction = node.attr("reduction", "mean")
    if reduction == "none":
        return each
    if share is None or reduction == "sum":
        return _total("ReduceMean" if reduction == "mean" else "ReduceSum", each)
    return op.Div(_total("ReduceSum", each), _total("ReduceSum", share))


def _total(name: str, value: Value) -> Value:
    reduction: Value = getattr(op, name)(value, keepdims=0)
    return reduction


_NET = """<ir_version: 8, opset_import: ["" : %d]>
    g (%s x, %s l, float[4] w) => (%s) { %s = %s }"""


def _net(
    call: str, outputs: str = "y", opset: int = 13, x: str = "float[N, 4, 2]", label: str = "int64[N, 2]"
) -> str:
    return _NET % (opset, x, label, outputs, outputs, call)


EXAMPLES = [
    Fires(
        _net("NegativeLogLikelihoodLoss (x, l)", x="float[3, 4]", label="int64[3]"),
        becomes="""_1 = Unsqueeze (l, {1}); _2 = GatherElements <axis = 1> (x, _1); _3 = Squeeze (_2, {1})
        _4 = Neg (_3); y = ReduceMean <keepdims = 0> (_4)""",
    ),
    Fires(_net("NegativeLogLikelihoodLoss <ignore_index = -1> (x, l, w)", label="int32[N, 2]")),
    Fires(_net('SoftmaxCrossEntropyLoss <reduction = "sum"> (x, l, w)', "y, z", 12)),
    Fires(
        _net('SoftmaxCrossEntropyLoss <reduction = "none", ignore_index = 1> (x, l)'),
        becomes="""_1 = Equal (l, 1); _2 = LogSoftmax <axis = 1> (x); _3 = Where (_1, 0, l); _4 = Unsqueeze (_3, {1})
        _5 = GatherElements <axis = 1> (_2, _4); _6 = Squeeze (_5, {1}); _7 = Neg (_6)
        _8 = Where (_1, 0.0, _7); _9 = Where (_1, 0.0, 1.0); y = Mul (_8, _9)""",
    ),
    Skips(_net("Add (x, x)")),
]
