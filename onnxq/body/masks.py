"""Masks: constants like -1e9 that only say which entries a Softmax is to leave out.

Half precision does not hold them, and need not: any number far below the scores does the same. So the scores
may be of half precision, and their attention fused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.body.bounds import is_float32, magnitude
from onnxq.body.formats import MASKED, Kind, highest
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.wiring import constant_of, is_constant

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


def find_masks(model: Model, kind: Kind, bounds: Mapping[int, float]) -> Masks:
    """The masks that a type cannot hold.

    Args:
        model: a model.
        kind: the type.
        bounds: the greatest magnitude of its tensors, by id.
    """
    ends = {id(tensor) for graph in model.graphs() for tensor in graph.outputs}
    flows = {id(source): _flow(source) for source in _beyond(model, kind, bounds)}
    while True:  # they may be added to each other
        tensors = {key: tensor for flow in flows.values() for key, tensor in flow.items()}
        right = {key: flow for key, flow in flows.items() if _is_mask(flow, tensors, bounds, ends)}
        if len(right) == len(flows):
            break
        flows = right
    sources = frozenset(tensors[key].name for key in flows)
    return Masks(sources, frozenset(tensor.name for tensor in tensors.values()))


def _beyond(model: Model, kind: Kind, bounds: Mapping[int, float]) -> Iterator[Any]:
    """The constants, what a ConstantOfShape gives and the inputs that a type cannot hold."""
    yield from (t for t in model.graph.inputs if is_float32(t) and bounds.get(id(t), 0.0) > highest(kind))
    for graph in model.graphs():
        for node in graph.nodes:
            for tensor in node.inputs:
                if is_constant(tensor) and is_float32(tensor) and _reach(tensor) > highest(kind):
                    yield tensor
            if node.op == "ConstantOfShape" and bounds.get(id(node.outputs[0]), 0.0) > highest(kind):
                yield node.outputs[0]


def _reach(constant: Any) -> float:
    """The greatest magnitude of a constant, infinity too, which half precision holds but a range does not."""
    values = constant_of(constant)
    if values is None:
        return 0.0
    high, low = (float(end.reduce(values, axis=None, initial=0.0)) for end in (np.fmax, np.fmin))
    return max(high, -low)


def _flow(source: Any) -> dict[int, Any]:
    """The tensors that are computed from one, up to a Softmax."""
    tensors = {id(source): source}
    stack = [source]
    while stack:
        for node in stack.pop().outputs:
            for out in node.outputs if node.op not in _SOFTMAX else ():
                if out.name and id(out) not in tensors:
                    tensors[id(out)] = out
                    stack.append(out)
    return tensors


def _is_mask(
    flow: Mapping[int, Any], tensors: Mapping[int, Any], bounds: Mapping[int, float], ends: set[int]
) -> bool:
    """Whether all that a constant reaches is masked entries among scores, for a Softmax."""
    if any(id(tensor) in ends or not tensor.outputs for tensor in flow.values()):
        return False
    readers = [node for tensor in flow.values() for node in tensor.outputs]
    return all((node.op in _SOFTMAX and not node.domain) or _keeps(node, tensors, bounds) for node in readers)


def _keeps(node: Any, tensors: Mapping[int, Any], bounds: Mapping[int, float]) -> bool:
    """Whether what a node makes of a mask is one too: masked entries, and others that are scores."""
    if node.domain not in (None, "", "ai.onnx"):
        return False
    others = [t for t in node.inputs if is_float32(t) and id(t) not in tensors]
    sizes = [magnitude(t) if is_constant(t) else bounds.get(id(t)) for t in others]
    if node.op == "Mul":  # of 0 and 1
        return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= 1
    if node.op not in (*_HAND_ON, "Add", "Sub"):
        return False
    return all(size is not None and size <= _SCORES for size in sizes)
