"""Scales of two types in one product."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.engine import is_built


@check(
    "scale-types", needs="pairs",
    severity="error", parser=r"type mismatch between matmul operand scales", judge=is_built,
)  # fmt: skip
def scale_types(subject: Subject) -> Iterator[Said]:
    """A matrix product of operands whose scales differ in type: the builder fails, or not, by node order."""
    for product in subject.products:
        types = {
            str(scale.dtype)
            for pair in (*product.of_data, *product.of_weight)
            if (scale := pair.scale) is not None and scale.dtype is not None
        }
        if product.node.op in ("MatMul", "Gemm") and len(types) > 1 and product.is_int8:
            yield Said(
                product.node.name, product.node.op,
                f"the scales of its operands are {' and '.join(sorted(types))}",
                "give all pairs of a layer one type: float32 scales, with a Cast behind the DequantizeLinear",
                consequence="the compiler fails (type mismatch between matmul operand scales), or not: that "
                "depends on the order of the nodes",
            )  # fmt: skip
