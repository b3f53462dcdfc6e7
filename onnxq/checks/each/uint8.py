"""Codes of uint8."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._codes import AT_ZERO, is_shifted, of_pair
from onnxq.checks.engine import as_int8


@check(
    "uint8", needs="pairs", severity="error", lacks="asymmetric-quantization", judge=as_int8,
)  # fmt: skip
def uint8_codes(subject: Subject) -> Iterator[Said]:
    """A uint8 zero point of 0, which is built as int8; others are rejected (`zero_points`)."""
    for pair in subject.pairs:
        if pair.zero is not None and pair.zero.dtype == np.uint8 and not is_shifted(pair):
            yield of_pair(
                pair, "its zero point is uint8: TensorRT treats the values as int8",
                "codes above 127 saturate in the engine: the upper half of the range is lost", AT_ZERO,
            )  # fmt: skip
