"""Int8 weights with a scale for each block."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import in_int8


@check(
    "weight-blocks", needs="pairs", severity="error",
    judge=in_int8,
)  # fmt: skip
def weight_blocks(subject: Subject) -> Iterator[Fact]:
    """Int8 weights with a scale for each block."""
    for product in subject.products:
        if product.layer is None or not product.of_weight or not product.is_int8:
            continue
        pair = product.of_weight[0]
        if pair.block:
            yield Fact(
                "weight-blocks",
                (product.node.name, product.node.op, pair.node.outputs[0].name),
                {"block": pair.block},
            )
