"""Operators whose attributes became inputs, written for any opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxq.rule import Node, Skip, Value, op

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


def sliced(
    node: Node,
    x: Operand,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Value:
    """A Slice."""
    if node.opset >= 10:
        steps = [1] * len(axes) if steps is None else steps
        return op.Slice(x, np.array(starts), np.array(ends), np.array(axes), np.array(steps))
    if steps is not None and any(step != 1 for step in steps):
        raise ValueError("a Slice before opset 10 has no steps")
    return op.Slice(x, starts=list(starts), ends=list(ends), axes=list(axes))


def padded(node: Node, x: Operand, begin: Sequence[int], end: Sequence[int], value: Any) -> Value | Operand:
    """A Pad with a constant, nothing where there is nothing to add."""
    pads = [*begin, *end]
    if not any(pads):
        return x
    if node.opset >= 11:
        return op.Pad(x, np.array(pads), value)
    return op.Pad(x, pads=pads, value=float(value))


def size_of(node: Node, x: Value, axis: int) -> np.int64 | Value:
    """The size of an axis: a number where it is known, else what computes it, of rank 0."""
    size = None if x.shape is None else x.shape[axis]
    if isinstance(size, int):
        known: np.int64 = np.int64(size)
        return known
    computed: Value = op.Gather(op.Shape(x), np.int64(axis))
    return computed


# What the numbers of `activation_params` are called in the operator.
_PARAMETERS = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}


def activated(node: Node, y: Value, dtype: np.dtype | None) -> Value:
    """What the activation gives that a fused node of onnxruntime names.

    Raises:
        Skip: it is another one, or has another number of parameters.
    """
    name, numbers = node.attr("activation"), node.attr("activation_params", [])
    if not name:
        return y
    if name not in _PARAMETERS or len(_PARAMETERS[name]) != len(numbers):
        raise Skip(f"its activation is {name} with {len(numbers)} parameters")
    if name == "Clip" and node.opset >= 11:
        return op.Clip(y, *(np.array(number, dtype) for number in numbers))
    made: Value = getattr(op, name)(y, **dict(zip(_PARAMETERS[name], numbers, strict=True)))
    return made
