"""Products of two activations of which one is quantized."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.api import COMPLETE
from onnxq.checks.each._attention import attentions
from onnxq.checks.engine import in_float


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
