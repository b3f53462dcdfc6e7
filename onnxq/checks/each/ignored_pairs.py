"""Int8 of operators without an int8 kernel."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._sizes import IN_FLOAT, gaining_nothing
from onnxq.checks.engine import in_float


@check("ignored-pairs", needs="pairs", judge=in_float)
def ignored_pairs(subject: Subject) -> Iterator[Said]:
    """Operators without an int8 kernel."""
    for product, why in gaining_nothing(subject, "no-kernel"):
        yield Said(
            product.node.name, product.node.op, why, IN_FLOAT, tensor=product.data.name,
            consequence="it runs in float, its weights are dequantized at every inference, and the pair "
            "of its input only rounds",
        )  # fmt: skip
