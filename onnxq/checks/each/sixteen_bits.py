"""Codes of 16 bits."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._codes import of_pair
from onnxq.checks.engine import is_built


@check(
    "16-bit", needs="pairs", severity="error", lacks="asymmetric-quantization",
    parser=r"[Uu]nsupported data ?type|convertOnnxWeights", judge=is_built,
)  # fmt: skip
def sixteen_bits(subject: Subject) -> Iterator[Fact]:
    """Codes of 16 bits."""
    for pair in subject.pairs:
        dtype = pair.zero.dtype if pair.zero is not None else None
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize == 2:
            yield of_pair("16-bit", pair, {"type": str(dtype)})
