"""Operators whose attributes became inputs, written for any opset."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxq.rule import Node, Value, op

Operand = Any


def reduced(node: Node, name: str, x: Operand, axes: Sequence[int], keepdims: int = 0) -> Value:
    """`name` (ReduceSum, ReduceMax, ...) over these axes."""
    given: Value
    if node.opset >= (13 if name == "ReduceSum" else 18):
        given = getattr(op, name)(x, np.array(axes), keepdims=keepdims)
    else:
        given = getattr(op, name)(x, axes=list(axes), keepdims=keepdims)
    return given


def unsqueezed(node: Node, x: Operand, axes: Sequence[int]) -> Value:
    """An Unsqueeze."""
    return op.Unsqueeze(x, np.array(axes)) if node.opset >= 13 else op.Unsqueeze(x, axes=list(axes))


def squeezed(node: Node, x: Operand, axes: Sequence[int]) -> Value:
    """A Squeeze."""
    return op.Squeeze(x, np.array(axes)) if node.opset >= 13 else op.Squeeze(x, axes=list(axes))
