"""Int8 of layers that are too small for it."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._sizes import IN_FLOAT, gaining_nothing
from onnxq.checks.engine import more_kernels


@check("few-rows", needs="pairs", severity="note", judge=more_kernels)
def few_rows(subject: Subject) -> Iterator[Said]:
    """Products of few rows or few channels."""
    for product, why in gaining_nothing(subject, "few-rows", "few-channels"):
        yield Said(
            product.node.name, product.node.op, why, IN_FLOAT, tensor=product.data.name,
            consequence="int8 costs kernels and accuracy here, and saves next to nothing",
        )  # fmt: skip
