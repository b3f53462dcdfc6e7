"""Layers that run in float although their pairs are right."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Seen, check
from onnxq.formats import INT8


@check("not-int8", needs="engine", kind="qdq")
def not_int8(seen: Seen) -> Iterator[Fact]:
    """Products whose pairs ask for int8, which run in float, and nothing in the file says why."""
    for product in seen.products.values():
        pairs = (*product.of_data, *product.of_weight)
        if not product.is_int8 or seen.told & {product.node.name, *(pair.node.name for pair in pairs)}:
            continue
        precision = seen.precision(product.node.name)
        if precision not in (None, INT8.name):
            yield Fact(
                "not-int8", (product.node.name, product.node.op, product.data.name),
                {"precision": precision, "confirmed": True},
            )  # fmt: skip
