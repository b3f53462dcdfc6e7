"""Attention: both products in int8 with all five pairs, or none of them."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.pairs import QDQ, QUANTIZE, pairs_of, readers_of
from onnxq.graph.view import Node, Tensor, every_node

# What stands between the first product and the Softmax, and between that and the second.
_SCORED = ("Add", "Sum", "Sub", "Mul", "Div", "Where", "Max", "Min", "Neg", "Clip")
_SHAPED = (*REARRANGES, "Cast", "Dropout")
OUTPUT = "the output"


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention: softmax(q k) v.

    Attributes:
        scores: the product of queries and keys.
        values: the product of their Softmax and the values.
        raw: whether there is a pair on the scores, in front of the Softmax.
    """

    scores: Node
    values: Node
    raw: bool


def attentions(model: Model) -> list[Attention]:
    """All attention of a model that is written as products."""
    attention = []
    for node in every_node(model):
        if node.op == "Softmax" and not node.domain:
            last, (first, paired) = _values(node), _scores(node)
            if first is not None and last is not None:
                attention.append(Attention(first, last, paired))
    return attention


def pairs_in(one: Attention) -> dict[str, bool]:
    """Which of its pairs are there, by what they are on."""
    query, key = one.scores.operands(2)
    shares, value = one.values.operands(2)
    operands = {"queries": query, "keys": key, "the Softmax": shares, "values": value}
    have = {name: tensor is not None and bool(pairs_of(tensor)) for name, tensor in operands.items()}
    output = one.values.outputs[0]
    return {**have, OUTPUT: any(node.op == QUANTIZE for node, _ in readers_of(output))}


def _values(softmax: Node) -> Node | None:
    """The product that the Softmax goes into."""
    todo = list(softmax.outputs[:1])
    while todo:
        tensor = todo.pop()
        for user in tensor.users:
            if _multiplies_activations(user) and user.inputs[0] == tensor:
                return user
            if not user.domain and user.op in (*_SHAPED, *QDQ) and user.inputs[0] == tensor:
                todo += user.outputs[:1]
    return None


def _scores(softmax: Node) -> tuple[Node | None, bool]:
    """The product that the Softmax is of, and whether there is a pair on the way."""
    todo: list[tuple[Tensor | None, bool]] = [(softmax.inputs[0], False)]
    seen: set[Tensor] = set()
    while todo:
        tensor, paired = todo.pop()
        maker = tensor.producer if tensor is not None else None
        if tensor is None or maker is None or maker.domain or tensor in seen:
            continue
        seen.add(tensor)
        if _multiplies_activations(maker):
            return maker, paired
        if maker.op in _SCORED:
            todo += [(read, paired) for read in maker.inputs]
        elif maker.op in (*_SHAPED, *QDQ):
            todo.append((maker.inputs[0], paired or maker.op in QDQ))
    return None, False


def _multiplies_activations(node: Node) -> bool:
    if node.op != "MatMul" or node.domain or layer_of(node, quantized=True) is not None:
        return False
    return not any(tensor is not None and tensor.is_constant for tensor in node.operands(2))
