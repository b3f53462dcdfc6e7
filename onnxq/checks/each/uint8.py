"""Codes of uint8."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._codes import is_shifted, of_pair
from onnxq.checks.engine import as_int8


@check(
    "uint8", needs="pairs", severity="error", lacks="asymmetric-quantization", judge=as_int8,
)  # fmt: skip
def uint8_codes(subject: Subject) -> Iterator[Fact]:
    """A uint8 zero point of 0, which is built as int8; others are rejected (`zero_points`)."""
    for pair in subject.pairs:
        if pair.zero is not None and pair.zero.dtype == np.uint8 and not is_shifted(pair):
            yield of_pair("uint8", pair)
