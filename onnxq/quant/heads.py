"""The heads of a model, by position: the last layers, of which only decoding is left to the outputs.

A head is a Conv, ConvTranspose, Gemm or MatMul with constant weights for which every way from its output ends
at an output of the model and passes only

- movement: reshapes, transposes, Concat, Slice, Split, Gather, Pad, Resize, DepthToSpace, ...;
- decoding: what is computed element by element (Sigmoid, Exp, Clip, Mul, Add, comparisons, Where), Softmax
  and its kin, casts, sums and maxima along axes, the mean of a whole map (GlobalAveragePool);
- selection: ArgMax, TopK, NonMaxSuppression, gathers and scatters.

So nothing that a head gives is normalized, pooled by windows, multiplied with another activation as a matrix,
or read by another layer. There is one exception: a layer of one output channel that reads a Softmax is an
expectation over bins, as detectors decode distances with it; it is decoding too, and a head like what is in
front of it.

Names play no part, nor does what a model is for: a classifier's last product is a head, and so are the
convolutions that give the boxes, classes and masks of a detector at each of its scales.
"""

from __future__ import annotations

from onnxq.base.reason import Reason, reason
from onnxq.graph.layers import layer_of, multiplies
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node, Tensor

_MOVEMENT = {*MOVES, "Concat", "Pad", "Resize", "Cast"} - {"MaxPool"}
_DECODING = {
    "Abs", "Add", "And", "Ceil", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Floor", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax",
    "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round",
    "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Sqrt", "Sub", "Sum", "Tanh", "Where", "Xor",
    "CumSum", "GlobalAveragePool", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceSum",
}  # fmt: skip
_SELECTION = {
    "ArgMax", "ArgMin", "GatherElements", "GatherND", "NonMaxSuppression", "NonZero", "OneHot",
    "ScatterElements", "ScatterND", "TopK",
}  # fmt: skip
_PASSES = _MOVEMENT | _DECODING | _SELECTION


def heads(model: Model) -> tuple[str, ...]:
    """The names of the heads of a model's main graph, in its order.

    Args:
        model: a model whose nodes are in topological order and have names.
    """
    names: list[str] = []
    ends: set[str] = set()  # nodes from which every way ends at an output
    for node in reversed(model.nodes):
        if node.op == "Shape" and not node.domain:  # it passes no value on
            ends.add(node.name)
        if node.domain or not all(_ends(tensor, ends) for tensor in node.outputs):
            continue
        if layer_of(node, quantized=True) is not None:
            names.append(node.name)
            if _is_expectation(node):
                ends.add(node.name)
        elif node.op in _PASSES and not multiplies(node):
            ends.add(node.name)
    return tuple(reversed(names))


def eligible_heads(model: Model) -> tuple[str, ...]:
    """The names of the heads that int8 gains something for."""
    names = set(heads(model))
    layers = [layer_of(node, quantized=True) for node in model.nodes if node.name in names]
    return tuple(layer.node.name for layer in layers if layer is not None and layer.ineligible is None)


def in_float(model: Model) -> dict[str, Reason]:
    """Why each head is in float where all are to be."""
    return dict.fromkeys(eligible_heads(model), reason("heads", "user"))


def _ends(tensor: Tensor, ends: set[str]) -> bool:
    """Whether every way from a tensor ends at an output; what nobody reads is on none."""
    return all(user.name in ends for user in tensor.users)


def _is_expectation(node: Node) -> bool:
    """Whether a layer of one output channel reads a Softmax, moved at most."""
    layer = layer_of(node, quantized=True)
    if layer is None or layer.outputs != 1:
        return False
    tensor = node.operands(2)[1 - layer.index]
    while tensor is not None and (maker := tensor.producer) is not None and not maker.domain:
        if maker.op == "Softmax":
            return True
        if maker.op not in _MOVEMENT:
            return False
        tensor = maker.inputs[0]
    return False
