"""Layers that are asked to run in int8 and gain nothing by it, by their operator or their sizes."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.finding import Finding, finding
from onnxq.quant.lint.subject import AGAIN, Product, Subject

_FLOAT = f"leave its weights and its input in float: {AGAIN} does"


def ignored_pairs(subject: Subject) -> Iterator[Finding]:
    """Operators without an int8 kernel."""
    for product in _int8(subject):
        if product.node.op == "ConvTranspose":
            yield finding(
                "ignored-pairs", product.node.name, product.node.op, "ConvTranspose has no int8 kernel",
                _FLOAT, tensor=product.data.name,
                consequence="it runs in float, its weights are dequantized at every inference, and the pair "
                "of its input only rounds",
            )  # fmt: skip


def padded_groups(subject: Subject) -> Iterator[Finding]:
    """Convolutions whose groups have fewer channels than an int8 kernel."""
    for product in _int8(subject):
        why = product.layer.ineligible if product.layer is not None else None
        if why is not None and "pad each group" in why and product.node.op == "Conv":
            yield finding(
                "padded-groups", product.node.name, product.node.op, why, _FLOAT, tensor=product.data.name,
                consequence="its input is written several times as large, or it runs in float",
            )  # fmt: skip


def few_rows(subject: Subject) -> Iterator[Finding]:
    """Products of few rows or few channels."""
    for product in _int8(subject):
        why = product.layer.ineligible if product.layer is not None else None
        if why is None or product.node.op == "ConvTranspose" or "pad each group" in why:
            continue
        yield finding(
            "few-rows", product.node.name, product.node.op, why, _FLOAT, tensor=product.data.name,
            consequence="int8 costs kernels and accuracy here, and saves next to nothing",
        )  # fmt: skip


def _int8(subject: Subject) -> Iterator[Product]:
    return (product for product in subject.products if product.is_int8 and product.layer is not None)
