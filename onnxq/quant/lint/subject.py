"""What the lint looks at: the Q/DQ nodes of a model and the products that read them, found once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from onnxq.finding import Finding
from onnxq.graph.layers import Layer, layer_of, multiplies
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import dequantizer
from onnxq.graph.view import Node, Tensor

AGAIN = "onnxq quantize FLOAT.onnx --calib DATA"
"""What makes a file without such mistakes, of the model that another tool quantized."""

QDQ = ("QuantizeLinear", "DequantizeLinear")
_DOMAINS = ("", "com.microsoft")
# What only moves codes: int8 goes through it whichever side of it the pair stands on.
_CARRIES = (*MOVES, "Cast")


@dataclass(frozen=True, slots=True)
class Product:
    """A Conv, ConvTranspose, Gemm or MatMul, and what dequantizes its operands.

    Attributes:
        node: the node.
        layer: the same as a layer, where one operand is constant, or dequantized from a constant.
        data: the operand that is not constant; of two activations the first.
        weight: the other one.
        of_data: the DequantizeLinear nodes that the data come from, moved at most; empty where it is float.
        of_weight: the one of the other operand, or nothing; of two activations as of the data.
    """

    node: Node
    layer: Layer | None
    data: Tensor
    weight: Tensor
    of_data: tuple[Node, ...]
    of_weight: tuple[Node, ...]

    @property
    def is_int8(self) -> bool:
        """Whether its pairs ask for int8 by int8."""
        return bool(self.of_data and self.of_weight) and all(
            codes_type(node) in ("int8", "uint8") for node in (*self.of_data, *self.of_weight)
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """A model for the checks.

    Attributes:
        model: the model.
        target: the name of the target, `onnxq.target.NAMES`.
        pairs: its QuantizeLinear and DequantizeLinear nodes, those of subgraph bodies included.
        products: its products with at least one quantized operand.
    """

    model: Model
    target: str
    pairs: tuple[Node, ...]
    products: tuple[Product, ...]


Lint = Callable[[Subject], Iterable[Finding]]
"""A check: what it finds in a model. It changes nothing, and knows of no other check."""


def subject_of(model: Model, target: str) -> Subject:
    """What the checks look at."""
    nodes = [Node(model, raw) for graph in model.graphs() for raw in graph.nodes]
    pairs = tuple(node for node in nodes if is_qdq(node))
    products = tuple(_products(nodes)) if pairs else ()
    return Subject(model, target, pairs, products)


def is_qdq(node: Node) -> bool:
    """Whether a node quantizes or dequantizes."""
    return node.op in QDQ and node.domain in _DOMAINS


def _products(nodes: Iterable[Node]) -> Iterator[Product]:
    for node in nodes:
        if not multiplies(node):
            continue
        one, other = node.operands(2)
        if one is None or other is None:
            continue
        layer = layer_of(node, quantized=True)
        if layer is not None and layer.index == 0:
            one, other = other, one
        found = Product(node, layer, one, other, carried(one), carried(other))
        if found.of_data or found.of_weight:
            yield found


def carried(tensor: Tensor) -> tuple[Node, ...]:
    """The DequantizeLinear nodes that a tensor comes from, through what only moves values or joins them.

    Empty where a part of it is float.
    """
    found: dict[Node, None] = {}
    todo, seen = [tensor], {tensor}
    while todo:
        maker = todo.pop().producer
        if maker is None:
            return ()
        if maker.op == "DequantizeLinear":
            found[maker] = None
            continue
        if maker.domain or not (maker.op in (*_CARRIES, "Concat") or _is_zero_pad(maker)):
            return ()
        sources = maker.inputs if maker.op == "Concat" else maker.inputs[:1]
        for source in sources:
            if source is None:
                return ()
            if source not in seen:
                seen.add(source)
                todo.append(source)
    return tuple(found)


def _is_zero_pad(node: Node) -> bool:
    if node.op != "Pad":
        return False
    value = node.operands(3)[2]
    return node.attr("mode", "constant") != "constant" or value is None or value.scalar == 0


def only_pair(tensor: Tensor) -> Node | None:
    """The DequantizeLinear that a tensor is made by, rearranged or cast at most."""
    return dequantizer(tensor)


def scale_of(node: Node) -> Tensor | None:
    """The scale of a Q/DQ node."""
    return node.operands(2)[1]


def scale_values(node: Node) -> np.ndarray | None:
    """The scales of a Q/DQ node, float64, any shape; None where they are computed."""
    scale = scale_of(node)
    values = scale.constant if scale is not None else None
    return None if values is None else np.asarray(values).astype(np.float64)


def codes_type(node: Node) -> str:
    """The type of the codes of a Q/DQ node, "uint8" where a QuantizeLinear says nothing."""
    source, _, zero = node.operands(3)
    if node.op == "DequantizeLinear" and source is not None and source.dtype is not None:
        return str(source.dtype)
    if zero is not None and zero.dtype is not None:
        return str(zero.dtype)
    if node.op == "QuantizeLinear" and node.outputs[0].dtype is not None:
        return str(node.outputs[0].dtype)
    return "uint8"


def is_per_channel(node: Node) -> bool:
    """Whether a Q/DQ node has a scale for each of several channels."""
    scale = scale_of(node)
    shape = scale.shape if scale is not None else None
    return shape is not None and len(shape) == 1 and shape != (1,) and not node.attr("block_size", 0)


def reading(tensor: Tensor) -> Iterator[tuple[Node, Tensor]]:
    """Who reads a tensor, behind what only moves values: the node, and what of it the node reads."""
    todo, seen = [tensor], {tensor}
    while todo:
        one = todo.pop()
        for user in one.users:
            moved = user.op in (*_CARRIES, "Concat") or _is_zero_pad(user)
            if user.domain or not moved or (user.op != "Concat" and user.inputs[0] != one):
                yield user, one
                continue
            for out in user.outputs:
                if out not in seen:
                    seen.add(out)
                    todo.append(out)


def outputs_behind(tensor: Tensor) -> list[Tensor]:
    """The outputs of the model that are a tensor, moved at most."""
    todo, seen, found = [tensor], {tensor}, []
    while todo:
        one = todo.pop()
        if one.is_output:
            found.append(one)
        for user in one.users:
            if not user.domain and user.op in _CARRIES and user.inputs[0] == one:
                for out in user.outputs:
                    if out not in seen:
                        seen.add(out)
                        todo.append(out)
    return found
