"""Masks: constants like -1e9 that only say which entries a Softmax is to leave out.

Half precision does not hold them, and need not: any number far below the scores does the same. So the scores
may be of half precision, and their attention fused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.body.bounds import is_float32, magnitude
from onnxq.body.formats import MASKED, Kind, highest
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.wiring import is_constant

_HAND_ON = (*MOVES, "Cast", "Concat", "Where")
_SOFTMAX = ("Softmax", "LogSoftmax")

_SCORES = MASKED / 8
"""The greatest score that a mask may be added to."""


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of a model.

    Attributes:
        constants: the names of the constants, and of what a ConstantOfShape gives, that hold one.
        tensors: the names of the tensors that they are in, up to the Softmax.
    """

    constants: frozenset[str]
    tensors: frozenset[str]


def find_masks(model: Model, kind: Kind, bounds: Mapping[int, float]) -> Masks:
    """The masks that a type cannot hold.

    Args:
        model: a model.
        kind: the type.
        bounds: the greatest magnitude of its tensors, by id.
    """
    ends = {id(tensor) for graph in model.graphs() for tensor in graph.outputs}
    constants: set[str] = set()
    tensors: set[str] = set()
    seen: set[int] = set()
    for graph in model.graphs():
        for node in graph.nodes:
            made = node.outputs if node.op == "ConstantOfShape" else []
            for tensor in (*(t for t in node.inputs if is_constant(t)), *made):
                if id(tensor) in seen or not is_float32(tensor):
                    continue
                seen.add(id(tensor))
                value = magnitude(tensor) if is_constant(tensor) else bounds.get(id(tensor), 0.0)
                flow = _flow(tensor, bounds, ends) if value > highest(kind) else None
                if flow:
                    constants.add(tensor.name)
                    tensors.update(flow)
    return Masks(frozenset(constants), frozenset(tensors))


def _flow(source: Any, bounds: Mapping[int, float], ends: set[int]) -> set[str] | None:
    """The names of the tensors that hold a mask on its way to Softmax; None where it goes elsewhere."""
    found = {id(source): source}
    stack = [source]
    while stack:
        tensor = stack.pop()
        if id(tensor) in ends or not tensor.outputs:
            return None
        for node in tensor.outputs:
            if node.op in _SOFTMAX and not node.domain:
                continue
            if not _keeps(node, found, bounds):
                return None
            for out in node.outputs:
                if out.name and id(out) not in found:
                    found[id(out)] = out
                    stack.append(out)
    return {tensor.name for tensor in found.values()}


def _keeps(node: Any, found: Mapping[int, Any], bounds: Mapping[int, float]) -> bool:
    """Whether what a node makes of a mask is one too: masked entries, and others that are scores."""
    if node.domain not in (None, "", "ai.onnx"):
        return False
    others = [t for t in node.inputs if is_float32(t) and id(t) not in found]
    sizes = [magnitude(t) if is_constant(t) else bounds.get(id(t)) for t in others]
    if node.op == "Mul":  # of 0 and 1
        return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= 1
    if node.op not in (*_HAND_ON, "Add"):
        return False
    return all(size is not None and size <= _SCORES for size in sizes)
