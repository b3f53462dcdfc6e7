"""Scales of two types in one product."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import is_built


@check(
    "scale-types", needs="pairs",
    severity="error", parser=r"type mismatch between matmul operand scales", judge=is_built,
)  # fmt: skip
def scale_types(subject: Subject) -> Iterator[Fact]:
    """A matrix product of operands whose scales differ in type: the builder fails, or not, by node order."""
    for product in subject.products:
        types = {
            str(scale.dtype)
            for pair in (*product.of_data, *product.of_weight)
            if (scale := pair.scale) is not None and scale.dtype is not None
        }
        if product.node.op in ("MatMul", "Gemm") and len(types) > 1 and product.is_int8:
            yield Fact(
                "scale-types", (product.node.name, product.node.op), {"types": " and ".join(sorted(types))}
            )
