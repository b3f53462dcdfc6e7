"""Layers that are asked to run in int8 and gain nothing by it, by their operator or their sizes."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.base.reason import Reason
from onnxq.checks import Product, Subject


def gaining_nothing(subject: Subject, *codes: str) -> Iterator[tuple[Product, Reason]]:
    """Products that are asked to run in int8, with why they gain nothing by it."""
    for product in subject.products:
        why = product.layer.ineligible if product.is_int8 and product.layer is not None else None
        if why is not None and why.code in codes:
            yield product, why
