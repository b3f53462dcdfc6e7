"""Codes of int32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._codes import of_pair
from onnxq.checks.engine import is_built


@check(
    "int32-dequantize", needs="pairs", severity="error",
    lacks="int32-dequantize", parser=r"has type Int32", judge=is_built,
)  # fmt: skip
def int32_codes(subject: Subject) -> Iterator[Fact]:
    """A DequantizeLinear of int32: biases of onnxruntime's quantizer and TensorFlow's."""
    for pair in subject.pairs.dequantizing:
        if pair.codes is not None and pair.codes.dtype == np.int32:
            yield of_pair("int32-dequantize", pair)
