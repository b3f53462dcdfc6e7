"""Int8 of operators without an int8 kernel."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._sizes import gaining_nothing
from onnxq.checks.engine import in_float


@check("ignored-pairs", needs="pairs", judge=in_float)
def ignored_pairs(subject: Subject) -> Iterator[Fact]:
    """Operators without an int8 kernel."""
    for product, why in gaining_nothing(subject, "no-kernel"):
        yield Fact("ignored-pairs", (product.node.name, product.node.op, product.data.name), {"reason": why})
