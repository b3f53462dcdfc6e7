"""A model in outline: each node with what it gives and whom it reads, for drawings and tables."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.graph.model import Model
from onnxq.graph.types import shape_text
from onnxq.graph.view import Node


@dataclass(frozen=True, slots=True)
class NodeOutline(DocumentPart):
    """A node of the main graph.

    Attributes:
        name: its name.
        op: its operator.
        tensor: the first tensor that it gives.
        dtype: that one's type, "" where it is not known.
        shape: that one's shape as text, as in `1x16xHxW`; "" where the rank is not known.
        weights: the shape of the first constant of two axes or more that it reads, "" for none.
        reads: the places, in the outline, of the nodes whose tensors it reads, each once.
    """

    name: str
    op: str
    tensor: str
    dtype: str
    shape: str
    weights: str
    reads: tuple[int, ...]


def outline(model: Model) -> tuple[NodeOutline, ...]:
    """The nodes of a model's main graph, in order."""
    nodes = model.nodes
    places = {tensor.name: place for place, node in enumerate(nodes) for tensor in node.outputs}
    return tuple(_outlined(node, places) for node in nodes)


def _outlined(node: Node, places: dict[str, int]) -> NodeOutline:
    first = node.outputs[0] if node.outputs else None
    read = [tensor for tensor in node.inputs if tensor is not None]
    weights = next(
        (t.shape for t in read if t.is_constant and t.shape is not None and len(t.shape) > 1), None
    )
    has_shape = first is not None and first.shape is not None
    return NodeOutline(
        name=node.name,
        op=node.op,
        tensor=first.name if first is not None else "",
        dtype=str(first.dtype) if first is not None and first.dtype is not None else "",
        shape=shape_text(first.shape) if first is not None and has_shape else "",
        weights=shape_text(weights) if weights is not None else "",
        reads=tuple(dict.fromkeys(places[t.name] for t in read if t.name in places)),
    )
