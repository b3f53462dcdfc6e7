"""Int8 of layers that are too small for it."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._sizes import gaining_nothing
from onnxq.checks.engine import more_kernels


@check("few-rows", needs="pairs", severity="note", judge=more_kernels)
def few_rows(subject: Subject) -> Iterator[Fact]:
    """Products of few rows or few channels."""
    for product, why in gaining_nothing(subject, "few-rows", "few-channels"):
        yield Fact("few-rows", (product.node.name, product.node.op, product.data.name), {"reason": why})
