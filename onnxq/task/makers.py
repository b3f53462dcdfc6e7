"""What makes a tensor: the nodes behind it, as far as the search for a task asks."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.graph.moves import MOVES, REARRANGES
from onnxq.graph.statements import inputs_behind
from onnxq.graph.view import Node, Tensor

FAR = 60
"""Nodes that are followed back."""

PRODUCTS = ("MatMul", "Gemm")
"""The operators of layers that are no convolutions."""


def maker_of(tensor: Tensor, scaled: Sequence[str] = ()) -> Node | None:
    """The node that computes a tensor's values: what only moves them is passed, and what `scaled` names.

    A product or quotient is passed where one of its operands is constant, or computed from sizes.
    """
    one: Tensor | None = tensor
    for _ in range(FAR):
        node = None if one is None else one.producer
        if node is None or node.domain:
            return node
        if node.op in scaled and node.op in ("Mul", "Div"):
            operands = [other for other in node.inputs if other is not None and inputs_behind(other)]
            if len(operands) != 1:
                return node
            one = operands[0]
        elif node.op in ("Cast", *REARRANGES, *scaled) or (node.op == "Concat" and len(node.inputs) == 1):
            one = node.inputs[0]
        else:
            return node
    return None


def is_probability(tensor: Tensor) -> bool:
    """Whether a Sigmoid or a Softmax makes all of its values, or a slice of what one does."""
    todo: list[Tensor | None] = [tensor]
    for _ in range(FAR):
        if not todo:
            return True
        one = todo.pop()
        node = None if one is None else one.producer
        if node is None:
            return False
        if node.op in ("Sigmoid", "Softmax", "HardSigmoid"):
            continue
        if node.op == "Concat":
            todo += node.inputs
        elif node.op in MOVES or node.op in ("Cast", "Split"):
            todo.append(node.inputs[0])
        else:
            return False
    return False


def is_whole(tensor: Tensor) -> bool:
    """Whether values were whole numbers before a Cast."""
    node = tensor.producer
    while node is not None and node.op in MOVES and node.inputs[0] is not None:
        node = node.inputs[0].producer
    source = None if node is None or node.op != "Cast" else node.inputs[0]
    return source is not None and source.dtype is not None and source.dtype.kind in "iu"


def is_product(node: Node | None) -> bool:
    """Whether a layer with constant weights, and perhaps a bias, makes something."""
    if node is not None and node.op == "Add":
        made = [one.producer for one in node.inputs if one is not None and not one.is_constant]
        node = made[0] if len(made) == 1 else None
    if node is None or node.op not in PRODUCTS:
        return False
    weight = node.inputs[1]
    return weight is not None and (weight.is_constant or _from_constant(weight))


def _from_constant(tensor: Tensor) -> bool:
    node = tensor.producer
    return node is not None and node.op in MOVES and node.inputs[0] is not None and node.inputs[0].is_constant


def normalised(node: Node) -> bool:
    """Whether values are divided by their sum, as a Softmax does."""
    if node.op != "Div" or None in node.inputs:
        return False
    value, total = node.inputs
    maker = None if total is None else maker_of(total, ("Expand",))
    summed = None if maker is None or maker.op != "ReduceSum" else maker.inputs[0]
    return summed is not None and value is not None and summed.name == value.name


def softmax_word(node: Node) -> str:
    """What a node that makes probabilities is called."""
    return "Softmax" if node.op == "Div" else node.op
