"""Number formats: what values are quantized to.

Which operators take which one, and from what sizes on it gains, targets say (`onnxq/targets/*.toml`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import ml_dtypes
import numpy as np

from onnxq.formats.number_format import NumberFormat

__all__ = ["FORMATS", "FP8", "INT8", "LayerFormat", "NumberFormat", "format_of", "in_words"]

INT8 = NumberFormat("int8", np.dtype(np.int8), reads=("uint8",))

FP8 = NumberFormat("fp8", np.dtype(ml_dtypes.float8_e4m3fn), opset=19)
"""E4M3 without infinities: 448 is its greatest number, and its steps grow with the numbers (OCP, OFP8)."""

FORMATS = {INT8.name: INT8, FP8.name: FP8}
"""Those that models can be quantized to, by name."""

LayerFormat = Literal["float", "int8", "fp8"]
"""What a layer multiplies in; `float` is whatever float type the model has there."""


def in_words(names: Iterable[str]) -> str:
    """Several formats in a sentence: "int8 and fp8", in the order of `FORMATS`."""
    found = set(names)
    return " and ".join(name for name in FORMATS if name in found)


def format_of(dtype: np.dtype) -> NumberFormat:
    """The format of codes that a file has, which need be none of `FORMATS`."""
    known = (one for one in FORMATS.values() if one.dtype == dtype)
    return next(known, None) or NumberFormat(str(dtype), np.dtype(dtype))
