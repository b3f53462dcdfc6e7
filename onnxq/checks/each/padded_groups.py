"""Int8 of convolutions of small groups."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._sizes import gaining_nothing
from onnxq.checks.engine import larger


@check("padded-groups", needs="pairs", judge=larger)
def padded_groups(subject: Subject) -> Iterator[Fact]:
    """Convolutions whose groups have fewer channels than an int8 kernel."""
    for product, why in gaining_nothing(subject, "padded-groups"):
        yield Fact("padded-groups", (product.node.name, product.node.op, product.data.name), {"reason": why})
