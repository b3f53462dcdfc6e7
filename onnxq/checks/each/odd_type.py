"""Activations of types that cost, or that a GPU is slow in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from onnxq.checks import Evidence, Said, check
from onnxq.checks.api import AT_NODE
from onnxq.graph.view import Node

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
def odd_types(evidence: Evidence) -> Iterator[Said]:
    """Double precision, strings, and arithmetic on int64 tensors that are no shapes; one finding a type."""
    first: dict[str, Node] = {}
    counts: Counter[str] = Counter()
    for node in evidence.original.nodes:
        for kind in {name for out in node.outputs if (name := _kind(node, out.dtype, out.shape))}:
            counts[kind] += 1
            first.setdefault(kind, node)
    for kind, node in first.items():
        text, consequence, advice = _SAID[kind]
        yield Said(
            node.name, node.op, f"{text} ({counts[kind]} node{'s' * (counts[kind] > 1)})", advice,
            tensor=node.outputs[0].name, consequence=consequence,
        )  # fmt: skip


_SAID = {
    "double": (
        "it computes in float64",
        "TensorRT computes it in float32, or rejects it; none of it gets int8",
        "export the model in float32 (model.float(), and no Cast to float64 in between)",
    ),
    "int64": (
        "it computes in int64",
        "8 bytes a value, and no int8 behind it until it is cast",
        "compute indices in int32, or in front of the model",
    ),
    "string": (
        "it handles strings", "no GPU does", "leave them to the program: onnxq split MODEL --at TENSOR",
    ),
}  # fmt: skip


def _kind(node: Node, dtype: np.dtype | None, shape: object) -> str | None:
    if dtype is None:
        return None
    if dtype == np.float64:
        return "double"
    if dtype.kind in "OUS":
        return "string"
    if dtype == np.int64 and node.op in _ARITHMETIC and not node.domain and isinstance(shape, tuple):
        sizes = [dim for dim in shape if isinstance(dim, int)]
        return "int64" if len(sizes) == len(shape) and int(np.prod(sizes)) > _SMALL else None
    return None
