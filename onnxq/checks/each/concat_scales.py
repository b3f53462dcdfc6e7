"""Inputs that are joined of several scales."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import AGAIN, Said, Subject, check
from onnxq.checks.engine import in_float


@check("concat-scales", needs="pairs", judge=in_float)
def concat_scales(subject: Subject) -> Iterator[Said]:
    """An input joined of parts with different scales, without a pair behind the Concat."""
    for product in subject.products:
        if not product.is_int8 or len(product.of_data) < 2:
            continue
        scales = {scale.name: scale.constant for p in product.of_data if (scale := p.scale) is not None}
        values = {v.astype(float).tobytes() for v in scales.values() if v is not None}
        if len(values) > 1:
            yield Said(
                product.node.name, product.node.op,
                f"its input is joined of {len(product.of_data)} tensors with {len(values)} scales",
                f"give them one scale, or put a pair behind the Concat; {AGAIN} does",
                tensor=product.data.name, consequence="it runs in float: there is no one scale of its input",
            )  # fmt: skip
