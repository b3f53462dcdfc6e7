"""Inputs that are joined of several scales."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import in_float


@check("concat-scales", needs="pairs", judge=in_float)
def concat_scales(subject: Subject) -> Iterator[Fact]:
    """An input joined of parts with different scales, without a pair behind the Concat."""
    for product in subject.products:
        if not product.is_int8 or len(product.of_data) < 2:
            continue
        scales = {scale.name: scale.constant for p in product.of_data if (scale := p.scale) is not None}
        values = {v.astype(float).tobytes() for v in scales.values() if v is not None}
        if len(values) > 1:
            yield Fact(
                "concat-scales", (product.node.name, product.node.op, product.data.name),
                {"tensors": len(product.of_data), "scales": len(values)},
            )  # fmt: skip
