"""Codes that TensorRT rejects, or takes for others: it knows int8 around 0 only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxq.checks import Fact
from onnxq.graph.pairs import Pair


def is_shifted(pair: Pair) -> bool:
    """Whether its values are not quantized around 0."""
    values = pair.zero.constant if pair.zero is not None else None
    return values is not None and bool(np.any(np.asarray(values).astype(np.float32) != 0))


def of_pair(code: str, pair: Pair, values: Mapping[str, object] | None = None) -> Fact:
    """What is said of one node of a pair, and of the tensor that it reads."""
    node = pair.node
    source = node.operands(1)[0]
    return Fact(code, (node.name, node.op, source.name if source is not None else ""), values or {})
