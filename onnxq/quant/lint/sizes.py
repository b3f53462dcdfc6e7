"""Layers that are asked to run in int8 and gain nothing by it, by their operator or their sizes."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.finding import Finding, finding
from onnxq.quant.lint.subject import AGAIN, Product, Subject
from onnxq.reason import Reason

_FLOAT = f"leave its weights and its input in float: {AGAIN} does"


def ignored_pairs(subject: Subject) -> Iterator[Finding]:
    """Operators without an int8 kernel."""
    for product, why in _gaining_nothing(subject, "no-kernel"):
        yield finding(
            "ignored-pairs", product.node.name, product.node.op, why, _FLOAT, tensor=product.data.name,
            consequence="it runs in float, its weights are dequantized at every inference, and the pair "
            "of its input only rounds",
        )  # fmt: skip


def padded_groups(subject: Subject) -> Iterator[Finding]:
    """Convolutions whose groups have fewer channels than an int8 kernel."""
    for product, why in _gaining_nothing(subject, "padded-groups"):
        yield finding(
            "padded-groups", product.node.name, product.node.op, why, _FLOAT, tensor=product.data.name,
            consequence="its input is written several times as large, or it runs in float",
        )  # fmt: skip


def few_rows(subject: Subject) -> Iterator[Finding]:
    """Products of few rows or few channels."""
    for product, why in _gaining_nothing(subject, "few-rows", "few-channels"):
        yield finding(
            "few-rows", product.node.name, product.node.op, why, _FLOAT, tensor=product.data.name,
            consequence="int8 costs kernels and accuracy here, and saves next to nothing",
        )  # fmt: skip


def _gaining_nothing(subject: Subject, *codes: str) -> Iterator[tuple[Product, Reason]]:
    """Products that are asked to run in int8, with why they gain nothing by it."""
    for product in subject.products:
        why = product.layer.ineligible if product.is_int8 and product.layer is not None else None
        if why is not None and why.code in codes:
            yield product, why
