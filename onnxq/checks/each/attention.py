"""Attention: both products in int8 with all five pairs, or none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.checks import Fact, Subject, check
from onnxq.checks.api import COMPLETE
from onnxq.checks.engine import in_float, without_attention
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


@check(
    "half-product", needs="pairs", judge=in_float,
    command=COMPLETE,
)  # fmt: skip
def half_products(subject: Subject) -> Iterator[Fact]:
    """A product of two activations, one of them quantized; that of attention is judged with its partner."""
    inside = {
        node for attention in attentions(subject.model) for node in (attention.scores, attention.values)
    }
    for product in subject.products:
        if product.layer is not None or bool(product.of_data) == bool(product.of_weight):
            continue
        if product.node in inside or product.weight.is_constant:
            continue
        which = product.data if product.of_data else product.weight
        yield Fact("half-product", (product.node.name, product.node.op, which.name), {"tensor": which.name})


@check("half-attention", needs="pairs", judge=without_attention)
def half_attention(subject: Subject) -> Iterator[Fact]:
    """Some of the pairs of attention."""
    for part in attentions(subject.model):
        have = pairs_in(part)
        operands = [is_there for name, is_there in have.items() if name != OUTPUT]
        if not any(operands) or (all(have.values()) and not part.raw):
            continue  # a pair on the output alone is that of the layer behind it
        missing = [name for name, is_there in have.items() if not is_there]
        yield Fact(
            "half-attention" if missing else "half-attention.scored",
            (part.values.name, part.values.op, part.scores.outputs[0].name),
            {"have": ", ".join(n for n, is_there in have.items() if is_there), "missing": ", ".join(missing)},
        )  # fmt: skip


_HEADS = (16, 32, 64)


@check(
    "attention-size", needs="pairs",
    judge=without_attention,
)  # fmt: skip
def attention_sizes(subject: Subject) -> Iterator[Fact]:
    """All of its pairs, and a size for which there is no int8 kernel."""
    for attention in attentions(subject.model):
        too_large = _too_large(attention) if all(pairs_in(attention).values()) else None
        if too_large is not None:
            yield too_large


def _too_large(one: Attention) -> Fact | None:
    query, key = one.scores.operands(2)
    shape = query.shape if query is not None else None
    keys = key.shape if key is not None else None
    if not shape or not keys:
        return None
    about = (one.values.name, one.values.op, one.scores.outputs[0].name)
    length, count, size = shape[-2], keys[-1], shape[-1]
    if isinstance(size, int) and size not in _HEADS:
        return Fact("attention-size.channels", about, {"size": size})
    most = one.values.limit("int8-attention-keys") or 512
    for name, number in (("keys", count), ("queries", length)):
        limit = most if name == "keys" else one.values.limit("int8-attention-queries")
        if isinstance(number, int) and limit is not None and number > limit:
            return Fact("attention-size", about, {"number": number, "what": name, "limit": limit})
    return None
