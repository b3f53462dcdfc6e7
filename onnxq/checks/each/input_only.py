"""Layers of which the input alone is quantized."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Product, Subject, check
from onnxq.checks.api import COMPLETE
from onnxq.checks.engine import in_float
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.pairs import QUANTIZE, Pair, pairs_of
from onnxq.graph.view import Node


@check(
    "input-only", needs="pairs", judge=in_float,
    command=COMPLETE,
)  # fmt: skip
def input_only(subject: Subject) -> Iterator[Fact]:
    """A quantized input, float weights, and nobody else who has use for the pair."""
    for product in subject.products:
        if product.layer is None or product.of_weight or not product.of_data:
            continue
        if any(_serves(pair, product) for pair in product.of_data):
            continue
        yield Fact("input-only", (product.node.name, product.node.op, product.data.name))


def _serves(pair: Pair, but: Product) -> bool:
    """Whether a pair has another reader than a product, to which its int8 is of use."""
    return any(node != but.node and _uses(node) for node, _ in pair.readers)


def _uses(node: Node) -> bool:
    if node.op in WEIGHTED and not node.domain:
        return all(tensor is not None and bool(pairs_of(tensor)) for tensor in node.operands(2))
    return node.op in ("Add", "Sum", QUANTIZE)
