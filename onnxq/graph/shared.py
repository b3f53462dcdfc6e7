"""Weights that several layers read: one constant, tied by the net's author or by an exporter."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.pairs import NOTHING, pair_of
from onnxq.graph.view import Tensor, every_node

_ALONG = frozenset({*REARRANGES, "Cast"})


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
        if node.domain or node.op not in (*WEIGHTED, "Gather"):
            continue
        for held in node.inputs[: 1 if node.op == "Gather" else 2]:
            constant = None if held is None else _origin(held)
            if constant is not None:
                readers.setdefault(constant.name, []).append(node.name)
                constants[constant.name] = constant
                multiplied |= {constant.name} if node.op != "Gather" else set()
    return tuple(
        SharedWeight(
            name, str(constants[name].dtype), tuple(constants[name].shape or ()),  # type: ignore[arg-type]
            constants[name].nbytes, tuple(nodes),
        )
        for name, nodes in readers.items()
        if nodes[1:] and name in multiplied
    )  # fmt: skip


def _origin(tensor: Tensor) -> Tensor | None:
    """The constant that a tensor is, in another form at most; None where it is computed."""
    while not tensor.is_constant:
        maker, pair, held = tensor.producer, pair_of(tensor, NOTHING), None
        if pair is not None:
            held = pair.source or pair.codes
        elif maker is not None and not maker.domain and maker.op in _ALONG:
            held = next(iter(maker.inputs), None)
        if held is None:
            return None
        tensor = held
    return tensor
