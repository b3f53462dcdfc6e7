"""Codes that are not around 0."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._codes import AT_ZERO, is_shifted, of_pair
from onnxq.checks.engine import is_built


@check(
    "zero-point", needs="pairs", severity="error",
    lacks="asymmetric-quantization", parser=r"Non-zero zero point|unsupported input type of UINT8",
    judge=is_built,
)  # fmt: skip
def zero_points(subject: Subject) -> Iterator[Said]:
    """Values that are not quantized around 0."""
    for pair in subject.pairs:
        if is_shifted(pair):
            yield of_pair(
                pair, "its zero point is not 0: TensorRT is symmetric",
                "TensorRT rejects the file", AT_ZERO,
            )  # fmt: skip
