"""Masks: constants like -1e9 that only say which entries a Softmax is to leave out.

Half precision does not hold them, and need not: any number far below the scores does the same. So the scores
may be of half precision, and their attention fused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np

from onnxq.base.reached import reached
from onnxq.body.bounds import is_float32, magnitude
from onnxq.body.formats import MASKED, Kind, highest
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node, Tensor, every_node

_HAND_ON = (*MOVES, "Cast", "Concat", "Where", "Trilu", "Max")
_SOFTMAX = ("Softmax", "LogSoftmax")

_SCORES = MASKED / 8
"""The greatest score that a mask may be added to."""


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of a model.

    Attributes:
        sources: the names of the constants that hold one, of what a ConstantOfShape gives, and of inputs.
        tensors: the names of the tensors that they are in, up to the Softmax.
    """

    sources: frozenset[str]
    tensors: frozenset[str]


def find_masks(model: Model, kind: Kind, bounds: Mapping[Tensor, float]) -> Masks:
    """The masks that a type cannot hold.

    Args:
        model: a model.
        kind: the type.
        bounds: the greatest magnitude of its tensors.
    """
    flows = {source: _flow(source) for source in _beyond(model, kind, bounds)}
    while True:  # they may be added to each other
        tensors = set[Tensor]().union(*flows.values())
        right = {source: flow for source, flow in flows.items() if _is_mask(flow, tensors, bounds)}
        if len(right) == len(flows):
            break
        flows = right
    return Masks(frozenset(one.name for one in flows), frozenset(one.name for one in tensors))


def _beyond(model: Model, kind: Kind, bounds: Mapping[Tensor, float]) -> Iterator[Tensor]:
    """The constants, what a ConstantOfShape gives and the inputs that a type cannot hold."""
    yield from (t for t in model.inputs if is_float32(t) and bounds.get(t, 0.0) > highest(kind))
    for node in every_node(model):
        for tensor in node.inputs:
            if (
                tensor is not None
                and tensor.is_constant
                and is_float32(tensor)
                and _reach(tensor) > highest(kind)
            ):
                yield tensor
        if node.op == "ConstantOfShape" and bounds.get(node.outputs[0], 0.0) > highest(kind):
            yield node.outputs[0]


def _reach(constant: Tensor) -> float:
    """The greatest magnitude of a constant, infinity too, which half precision holds but a range does not."""
    values = constant.constant
    if values is None:
        return 0.0
    high, low = (float(end.reduce(values, axis=None, initial=0.0)) for end in (np.fmax, np.fmin))
    return max(high, -low)


def _flow(source: Tensor) -> set[Tensor]:
    """The tensors that are computed from one, up to a Softmax."""

    def made(tensor: Tensor) -> Iterator[Tensor]:
        readers = (node for node in tensor.users if node.op not in _SOFTMAX)
        return (out for node in readers for out in node.outputs if out.name)

    return set(reached([source], made))


def _is_mask(flow: Set[Tensor], tensors: Set[Tensor], bounds: Mapping[Tensor, float]) -> bool:
    """Whether all that a constant reaches is masked entries among scores, for a Softmax."""
    if any(tensor.is_output or not tensor.users for tensor in flow):
        return False
    readers = {node for tensor in flow for node in tensor.users}
    return all((node.op in _SOFTMAX and not node.domain) or _keeps(node, tensors, bounds) for node in readers)


def _keeps(node: Node, tensors: Set[Tensor], bounds: Mapping[Tensor, float]) -> bool:
    """Whether what a node makes of a mask is one too: masked entries, and others that are scores."""
    if node.domain:
        return False
    others = [t for t in node.inputs if t is not None and is_float32(t) and t not in tensors]
    sizes = [magnitude(t) if t.is_constant else bounds.get(t) for t in others]
    if node.op == "Mul":  # of 0 and 1
        return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= 1
    if node.op not in (*_HAND_ON, "Add", "Sub"):
        return False
    return all(size is not None and size <= _SCORES for size in sizes)
