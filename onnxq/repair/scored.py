"""Which layers give logits: what they give is moved about, and read by a Sigmoid alone.

Between is whatever puts the heads of a detector together: their channels are followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from onnxq.graph.view import Node, Tensor

_FURTHEST = 64  # nodes


class _Span(NamedTuple):
    """Channels on their way: those from `start` to `stop` along an axis of a tensor."""

    tensor: Tensor
    axis: int
    start: int
    stop: int


def gives_logits(tensor: Tensor, axis: int, channels: int) -> bool:
    """Whether all of a layer's channels are read by Sigmoids, however they are moved before.

    Args:
        tensor: what the layer gives.
        axis: its channel axis.
        channels: how many there are.
    """
    rank = tensor.rank
    if rank is None:
        return False
    waiting, seen = [_Span(tensor, axis % rank, 0, channels)], 0
    while waiting:
        span = waiting.pop()
        if span.tensor.is_output or not span.tensor.users:
            return False
        for user in span.tensor.users:
            seen += 1
            if user.domain or seen > _FURTHEST:
                return False
            if user.op == "Sigmoid":
                continue
            moved = list(_moved(user, span))
            if not moved and user.op not in ("Split", "Slice"):
                return False
            waiting += moved
    return True


def _moved(node: Node, span: _Span) -> Iterator[_Span]:
    """Where channels are behind a node that only moves them; nothing where it is another one."""
    tensor, axis, start, stop = span
    shape, out = tensor.shape, node.outputs[0]
    match node.op:
        case "Identity" | "Cast":
            yield span._replace(tensor=out)
        case "Concat" if (rank := tensor.rank) is not None:
            before = node.inputs[: node.inputs.index(tensor)]
            along = node.attr("axis", 0) % rank == axis
            sizes = [None if t is None or t.shape is None else t.shape[axis] for t in before] if along else []
            if all(isinstance(size, int) for size in sizes):
                offset = sum(size for size in sizes if isinstance(size, int))
                yield _Span(out, axis, start + offset, stop + offset)
        case "Transpose" if (perm := node.attr("perm")) is not None:
            yield span._replace(tensor=out, axis=list(perm).index(axis))
        case "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze":
            # the channels stay one axis where it, and all in front of it, are as they were
            front = None if shape is None or out.shape is None else list(out.shape[: axis + 1])
            if shape is not None and front == list(shape[: axis + 1]):
                yield span._replace(tensor=out)
        case "Split" | "Slice":
            yield from _cut(node, span)


def _cut(node: Node, span: _Span) -> Iterator[_Span]:
    """What parts of a tensor hold of the channels."""
    tensor, axis, start, stop = span
    rank, shape = tensor.rank, tensor.shape
    if rank is None or shape is None:
        yield span._replace(tensor=tensor)
        return
    if node.op == "Split":
        if node.attr("axis", 0) % rank != axis:
            yield from (span._replace(tensor=out) for out in node.outputs)
            return
        first = 0
        for out in node.outputs:
            size = None if out.shape is None else out.shape[axis]
            if not isinstance(size, int):
                return
            if (low := max(start, first)) < (high := min(stop, first + size)):
                yield _Span(out, axis, low - first, high - first)
            first += size
        return
    starts, ends, axes, steps = (
        _numbers(one) for one in (*node.inputs[1:5], *[None] * (5 - len(node.inputs)))
    )
    if starts is None or ends is None:
        return
    cut = list(range(len(starts))) if axes is None else [one % rank for one in axes]
    if axis not in cut:
        yield span._replace(tensor=node.outputs[0])
        return
    place, size = cut.index(axis), shape[axis]
    if not isinstance(size, int) or (steps is not None and steps[place] != 1):
        return
    first, last, _ = slice(starts[place], ends[place]).indices(size)
    if (low := max(start, first)) < (high := min(stop, last)):
        yield _Span(node.outputs[0], axis, low - first, high - first)


def _numbers(tensor: Tensor | None) -> list[int] | None:
    values = None if tensor is None else tensor.constant
    return None if values is None else [int(one) for one in np.ravel(values)]
