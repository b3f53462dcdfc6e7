"""Int8 of convolutions of small groups."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._sizes import IN_FLOAT, gaining_nothing
from onnxq.checks.engine import larger


@check("padded-groups", needs="pairs", judge=larger)
def padded_groups(subject: Subject) -> Iterator[Said]:
    """Convolutions whose groups have fewer channels than an int8 kernel."""
    for product, why in gaining_nothing(subject, "padded-groups"):
        yield Said(
            product.node.name, product.node.op, why, IN_FLOAT, tensor=product.data.name,
            consequence="its input is written several times as large, or it runs in float",
        )  # fmt: skip
