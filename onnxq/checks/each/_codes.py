"""Codes that TensorRT rejects, or takes for others: it knows int8 around 0 only."""

from __future__ import annotations

import numpy as np

from onnxq.checks import AGAIN, Said
from onnxq.graph.pairs import Pair

AT_ZERO = f"quantize the float model symmetrically: {AGAIN}"


def is_shifted(pair: Pair) -> bool:
    """Whether its values are not quantized around 0."""
    values = pair.zero.constant if pair.zero is not None else None
    return values is not None and bool(np.any(np.asarray(values).astype(np.float32) != 0))


def of_pair(pair: Pair, reason: str, consequence: str, advice: str) -> Said:
    """What is said of one node of a pair, and of the tensor that it reads."""
    node = pair.node
    source = node.operands(1)[0]
    return Said(
        node.name, node.op, reason, advice,
        tensor=source.name if source is not None else "", consequence=consequence,
    )  # fmt: skip
