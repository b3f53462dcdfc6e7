"""Quantizers without a zero point."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._codes import of_pair
from onnxq.checks.engine import as_int8


@check(
    "no-zero-point", needs="pairs", severity="error",
    lacks="asymmetric-quantization", judge=as_int8,
)  # fmt: skip
def no_zero_point(subject: Subject) -> Iterator[Fact]:
    """A QuantizeLinear that leaves its type to the standard."""
    for pair in subject.pairs.quantizing:
        if pair.zero is None and pair.node.attr("output_dtype", 0) == 0:
            yield of_pair("no-zero-point", pair)
