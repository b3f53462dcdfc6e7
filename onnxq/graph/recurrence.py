"""States of recurrent layers: those that a model is fed to begin with, and those that it gives at the end."""

from __future__ import annotations

from onnxq.graph.layers import RECURRENT
from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.view import Node, Tensor

MANY = 8
"""Steps of which each tells what the states before it are worth."""

_FIRST = 5  # the input of these operators that is the first of the states they begin with


def begins(model: Model) -> frozenset[str]:
    """The inputs of a model that recurrent layers begin with, and nothing else reads: 0 as a rule."""
    return frozenset(one.name for one in model.inputs if _begins(one))


def ends(tensor: Tensor) -> bool:
    """Whether a tensor is the state of a recurrent layer after many steps, each of which hangs on others."""
    node, behind = tensor.producer, tensor
    while node is not None and _moves(node) and node.inputs[0] is not None:
        behind = node.inputs[0]
        node = behind.producer
    if node is None or node.op not in RECURRENT or node.inputs[0] is None:
        return False
    steps = (node.inputs[0].shape or (None,))[0]
    return behind.name != node.outputs[0].name and isinstance(steps, int) and steps >= MANY


def _begins(tensor: Tensor) -> bool:
    if tensor.is_output or not tensor.users:
        return False
    return all(
        _begins(node.outputs[0])
        if _moves(node)
        else node.op in RECURRENT and tensor.name not in [one.name for one in node.inputs[:_FIRST] if one]
        for node in tensor.users
    )


def _moves(node: Node) -> bool:
    return node.op in ("Cast", *REARRANGES) and not node.domain
