"""Activations with a scale along an axis."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import in_float


@check("activation-axis", needs="pairs", judge=in_float)
def activation_axes(subject: Subject) -> Iterator[Fact]:
    """Activations with a scale for each channel."""
    for product in subject.products:
        operands = (product.of_data, product.of_weight) if product.layer is None else (product.of_data,)
        for maker in (pair.node for pairs in operands for pair in pairs if pair.is_per_channel):
            yield Fact(
                "activation-axis", (product.node.name, product.node.op, maker.outputs[0].name),
                {"maker": maker.name},
            )  # fmt: skip
