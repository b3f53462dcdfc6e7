"""Activations of types that cost, or that a GPU is slow in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from onnxq.base.shown import counted
from onnxq.checks import Evidence, Fact, check
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
