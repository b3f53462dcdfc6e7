"""Codes that TensorRT rejects, or takes for others: it knows int8 around 0 only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from onnxq.base.shown import count, counted
from onnxq.checks import Evidence, Fact, Subject, check
from onnxq.checks.api import AT_NODE
from onnxq.checks.engine import as_int8, is_built
from onnxq.formats import FORMATS
from onnxq.graph.pairs import Pair
from onnxq.graph.view import Node
from onnxq.targets import NAMES, load_target
from onnxq.targets.devices import first_with


def is_shifted(pair: Pair) -> bool:
    """Whether its values are not quantized around 0."""
    values = pair.zero.constant if pair.zero is not None else None
    return values is not None and bool(np.any(np.asarray(values).astype(np.float32) != 0))


def of_pair(code: str, pair: Pair, values: Mapping[str, object] | None = None) -> Fact:
    """What is said of one node of a pair, and of the tensor that it reads."""
    node = pair.node
    source = node.operands(1)[0]
    return Fact(code, (node.name, node.op, source.name if source is not None else ""), values or {})


@check(
    "int32-dequantize", needs="pairs", severity="error",
    lacks="int32-dequantize", parser=r"has type Int32", judge=is_built,
)  # fmt: skip
def int32_codes(subject: Subject) -> Iterator[Fact]:
    """A DequantizeLinear of int32: biases of onnxruntime's quantizer and TensorFlow's."""
    for pair in subject.pairs.dequantizing:
        if pair.codes is not None and pair.codes.dtype == np.int32:
            yield of_pair("int32-dequantize", pair)


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


@check(
    "uint8", needs="pairs", severity="error", lacks="asymmetric-quantization", judge=as_int8,
)  # fmt: skip
def uint8_codes(subject: Subject) -> Iterator[Fact]:
    """A uint8 zero point of 0, which is built as int8; others are rejected (`zero_points`)."""
    for pair in subject.pairs:
        if pair.zero is not None and pair.zero.dtype == np.uint8 and not is_shifted(pair):
            yield of_pair("uint8", pair)


@check(
    "no-zero-point", needs="pairs", severity="error",
    lacks="asymmetric-quantization", judge=as_int8,
)  # fmt: skip
def no_zero_point(subject: Subject) -> Iterator[Fact]:
    """A QuantizeLinear that leaves its type to the standard."""
    for pair in subject.pairs.quantizing:
        if pair.zero is None and pair.node.attr("output_dtype", 0) == 0:
            yield of_pair("no-zero-point", pair)


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


@check(
    "number-format", needs="pairs", severity="error",
    parser="HW-specific datatypes",
)  # fmt: skip
def number_formats(subject: Subject) -> Iterator[Fact]:
    """Pairs of a format, as fp8, that the target does not have, or the GPU that is compiled for."""
    model = subject.model
    for name in FORMATS:
        pairs = [one for one in subject.pairs if one.format is not None and one.format.name == name]
        least = first_with(name)
        if not pairs or (name in model.formats and (subject.sm is None or subject.sm >= least)):
            continue
        on_gpu = name in model.formats
        yield Fact(
            "number-format.of-gpu" if on_gpu else "number-format",
            values={
                "nodes": count(len(pairs), "node"), "format": name, "least": least,
                "sm": (subject.sm or 0) / 10, "target": subject.target,
                "other": "" if on_gpu else _having(name),
            },
        )  # fmt: skip


def _having(name: str) -> str:
    return [one for one in NAMES if name in load_target(one).formats][-1]


_ARITHMETIC = (
    "Add", "Sub", "Mul", "Div", "MatMul", "Gemm", "Conv", "Pow", "Sqrt", "Exp", "Log", "ReduceSum",
    "ReduceMean", "Mod", "CumSum", "Einsum",
)  # fmt: skip
_SMALL = 64  # values: shape arithmetic is as long as a shape


@check(
    "odd-type",
    needs="data",
    command=AT_NODE,
)
def odd_types(evidence: Evidence) -> Iterator[Fact]:
    """Double precision, strings, and arithmetic on int64 tensors that are no shapes; one finding a type."""
    first: dict[str, Node] = {}
    counts: Counter[str] = Counter()
    for node in evidence.original.nodes:
        for kind in {name for out in node.outputs if (name := _kind(node, out.dtype, out.shape))}:
            counts[kind] += 1
            first.setdefault(kind, node)
    for kind, node in first.items():
        yield Fact(kind, (node.name, node.op, node.outputs[0].name), {"nodes": counted(counts[kind], "node")})


def _kind(node: Node, dtype: np.dtype | None, shape: object) -> str | None:
    if dtype is None:
        return None
    if dtype == np.float64:
        return "odd-type.double"
    if dtype.kind in "OUS":
        return "odd-type.string"
    if dtype == np.int64 and node.op in _ARITHMETIC and not node.domain and isinstance(shape, tuple):
        sizes = [dim for dim in shape if isinstance(dim, int)]
        return "odd-type.int64" if len(sizes) == len(shape) and int(np.prod(sizes)) > _SMALL else None
    return None
