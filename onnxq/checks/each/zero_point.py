"""Codes that are not around 0."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._codes import is_shifted, of_pair
from onnxq.checks.engine import is_built


@check(
    "zero-point", needs="pairs", severity="error",
    lacks="asymmetric-quantization", parser=r"Non-zero zero point|unsupported input type of UINT8",
    judge=is_built,
)  # fmt: skip
def zero_points(subject: Subject) -> Iterator[Fact]:
    """Values that are not quantized around 0."""
    for pair in subject.pairs:
        if is_shifted(pair):
            yield of_pair("zero-point", pair)
