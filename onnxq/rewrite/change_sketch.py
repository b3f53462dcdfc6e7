"""What a change replaced and what came in its place, as small graphs for a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.base.plain import DocumentPart
from onnxq.graph.view import Node
from onnxq.graph.wiring import is_constant

NODES, CHANGES = 12, 12
"""Nodes of a sketch, and changes of a rule that have one, at most."""

_LOOKED_AT = 48


@dataclass(frozen=True, slots=True)
class SketchedNode(DocumentPart):
    """A node.

    Attributes:
        name: its name.
        op: its operator.
        inputs: the tensors that it reads, without constants.
        outputs: those that it gives.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeSketch(DocumentPart):
    """A change.

    Attributes:
        before: the nodes that went, the first `NODES`, as they read each other.
        after: those that came.
    """

    before: tuple[SketchedNode, ...]
    after: tuple[SketchedNode, ...]


def sketched_above(root: Node) -> Mapping[int, SketchedNode]:
    """A node and those that it depends on, by id: what may go with it."""
    sketched: dict[int, SketchedNode] = {}
    todo = [root.node]
    while todo and len(sketched) < _LOOKED_AT:
        node = todo.pop(0)
        if id(node) not in sketched:
            sketched[id(node)] = _sketched(node)
            todo += [producer for tensor in node.inputs for producer in tensor.inputs]
    return sketched


def sketch(above: Mapping[int, SketchedNode], removed: Iterable[Any], added: Iterable[Any]) -> ChangeSketch:
    """That of a change which was made.

    Args:
        above: what stood there.
        removed: the nodes that went.
        added: those that came.
    """
    before = [above[id(node)] for node in removed if id(node) in above]
    return ChangeSketch(tuple(before[:NODES]), tuple(_sketched(node) for node in list(added)[:NODES]))


def _sketched(node: Any) -> SketchedNode:
    read = [str(tensor.name) for tensor in node.inputs if tensor.name and not is_constant(tensor)]
    outputs = tuple(str(tensor.name) for tensor in node.outputs if tensor.name)
    return SketchedNode(str(node.name), str(node.op), tuple(dict.fromkeys(read)), outputs)
