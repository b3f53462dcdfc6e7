"""Int8 weights with a scale for each block."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import AGAIN, Said, Subject, check
from onnxq.checks.engine import in_int8


@check(
    "weight-blocks", needs="pairs", severity="error",
    judge=in_int8,
)  # fmt: skip
def weight_blocks(subject: Subject) -> Iterator[Said]:
    """Int8 weights with a scale for each block."""
    for product in subject.products:
        if product.layer is None or not product.of_weight or not product.is_int8:
            continue
        pair = product.of_weight[0]
        if pair.block:
            yield Said(
                product.node.name, product.node.op,
                f"its int8 weights have a scale for each {pair.block} values of a sum, and "
                "its input is int8",
                f"give the weights a scale for each output channel: {AGAIN} does",
                tensor=pair.node.outputs[0].name,
                consequence="wrong values, without a warning: TensorRT-RTX 1.7 sums the codes of all blocks "
                "before it scales them (read from its kernels)",
            )  # fmt: skip
