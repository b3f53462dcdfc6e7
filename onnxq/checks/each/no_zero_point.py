"""Quantizers without a zero point."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._codes import of_pair
from onnxq.checks.engine import as_int8


@check(
    "no-zero-point", needs="pairs", severity="error",
    lacks="asymmetric-quantization", judge=as_int8,
)  # fmt: skip
def no_zero_point(subject: Subject) -> Iterator[Said]:
    """A QuantizeLinear that leaves its type to the standard."""
    for pair in subject.pairs.quantizing:
        if pair.zero is None and pair.node.attr("output_dtype", 0) == 0:
            yield of_pair(
                pair, "it has no zero point: that is uint8 in ONNX, TensorRT builds int8",
                "codes above 127 saturate in the engine, negative values survive: other numbers than in ONNX",
                "give an explicit int8 zero point of 0, with a scale for int8",
            )  # fmt: skip
