"""Codes that TensorRT rejects, or takes for others: it knows int8 around 0 only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.finding import Finding, finding
from onnxq.graph.pairs import Pair
from onnxq.quant.lint.subject import AGAIN, Subject

_AGAIN = f"quantize the float model symmetrically: {AGAIN}"


def int32_codes(subject: Subject) -> Iterator[Finding]:
    """A DequantizeLinear of int32: biases of onnxruntime's quantizer and TensorFlow's."""
    for pair in subject.pairs.dequantizing:
        if pair.codes is not None and pair.codes.dtype == np.int32:
            yield _of(
                pair, "int32-dequantize", "it dequantizes int32, as of a quantized bias",
                "TensorRT rejects the file", "keep biases in float (onnxruntime: QuantizeBias=False)",
            )  # fmt: skip


def no_zero_point(subject: Subject) -> Iterator[Finding]:
    """A QuantizeLinear that leaves its type to the standard."""
    for pair in subject.pairs.quantizing:
        if pair.zero is None and pair.node.attr("output_dtype", 0) == 0:
            yield _of(
                pair, "no-zero-point", "it has no zero point: that is uint8 in ONNX, TensorRT builds int8",
                "codes above 127 saturate in the engine, negative values survive: other numbers than in ONNX",
                "give an explicit int8 zero point of 0, with a scale for int8",
            )  # fmt: skip


def uint8_codes(subject: Subject) -> Iterator[Finding]:
    """A uint8 zero point of 0, which is built as int8; others are rejected (`zero_points`)."""
    for pair in subject.pairs:
        if pair.zero is not None and pair.zero.dtype == np.uint8 and not _shifted(pair):
            yield _of(
                pair, "uint8", "its zero point is uint8: TensorRT treats the values as int8",
                "codes above 127 saturate in the engine: the upper half of the range is lost", _AGAIN,
            )  # fmt: skip


def zero_points(subject: Subject) -> Iterator[Finding]:
    """Values that are not quantized around 0."""
    for pair in subject.pairs:
        if _shifted(pair):
            yield _of(
                pair, "zero-point", "its zero point is not 0: TensorRT is symmetric",
                "TensorRT rejects the file", _AGAIN,
            )  # fmt: skip


def sixteen_bits(subject: Subject) -> Iterator[Finding]:
    """Codes of 16 bits."""
    for pair in subject.pairs:
        dtype = pair.zero.dtype if pair.zero is not None else None
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize == 2:
            yield _of(
                pair, "16-bit", f"{dtype} is no quantized type of TensorRT", "TensorRT rejects the file",
                f"quantize to int8: {AGAIN}",
            )  # fmt: skip


def _shifted(pair: Pair) -> bool:
    values = pair.zero.constant if pair.zero is not None else None
    return values is not None and bool(np.any(np.asarray(values).astype(np.float32) != 0))


def _of(pair: Pair, check: str, reason: str, consequence: str, advice: str) -> Finding:
    node = pair.node
    source = node.operands(1)[0]
    return finding(
        check, node.name, node.op, reason, advice,
        tensor=source.name if source is not None else "", consequence=consequence,
    )  # fmt: skip
