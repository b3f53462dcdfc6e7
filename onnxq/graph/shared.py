"""Weights that several layers read: one constant, tied by the net's author or by an exporter."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.view import Node, Tensor, every_node

_ALONG = frozenset({*REARRANGES, "Cast", "DequantizeLinear", "QuantizeLinear"})


@dataclass(frozen=True, slots=True)
class SharedWeight(DocumentPart):
    """A constant that is the weights of several layers, or of layers and the table of a Gather.

    Attributes:
        weight: the constant.
        dtype: its type in the file.
        shape: its shape.
        bytes: its size, counted once.
        readers: the nodes that multiply by it or look up in it, in the order of the model.
    """

    weight: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    readers: tuple[str, ...]


def shared_weights(model: Model) -> tuple[SharedWeight, ...]:
    """Those of a model, in the order in which they are read first."""
    readers: dict[str, list[str]] = {}
    constants: dict[str, Tensor] = {}
    multiplied = set[str]()
    for node in every_node(model):
        layer = layer_of(node, quantized=True)
        held = layer.weight if layer is not None else _table(node)
        constant = None if held is None else _origin(held)
        if constant is not None:
            readers.setdefault(constant.name, []).append(node.name)
            constants[constant.name] = constant
            multiplied |= {constant.name} if layer is not None else set()
    return tuple(
        SharedWeight(
            name, str(constants[name].dtype), tuple(constants[name].shape or ()),  # type: ignore[arg-type]
            constants[name].nbytes, tuple(nodes),
        )
        for name, nodes in readers.items()
        if nodes[1:] and name in multiplied
    )  # fmt: skip


def _table(node: Node) -> Tensor | None:
    """What a Gather looks up in."""
    return node.inputs[0] if node.op == "Gather" and not node.domain else None


def _origin(tensor: Tensor) -> Tensor | None:
    """The constant that a tensor is, in another form at most; None where it is computed."""
    while not tensor.is_constant:
        maker = tensor.producer
        if maker is None or maker.domain or maker.op not in _ALONG or maker.inputs[0] is None:
            return None
        tensor = maker.inputs[0]
    return tensor
