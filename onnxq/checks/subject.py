"""What checks of a file look at: its pairs and the products that read them, found once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnxq.graph.layers import Layer, layer_of, multiplies
from onnxq.graph.model import Model
from onnxq.graph.pairs import Pair, PairIndex, pairs_of
from onnxq.graph.view import Node, Tensor, every_node


@dataclass(frozen=True, slots=True)
class Product:
    """A Conv, ConvTranspose, Gemm or MatMul, and what dequantizes its operands.

    Attributes:
        node: the node.
        layer: the same as a layer, where one operand is constant, or dequantized from a constant.
        data: the operand that is not constant; of two activations the first.
        weight: the other one.
        of_data: the pairs that the data come from, moved at most; empty where it is float.
        of_weight: the one of the other operand, or nothing; of two activations as of the data.
    """

    node: Node
    layer: Layer | None
    data: Tensor
    weight: Tensor
    of_data: tuple[Pair, ...]
    of_weight: tuple[Pair, ...]

    @property
    def is_int8(self) -> bool:
        """Whether its pairs ask for int8 by int8."""
        return bool(self.of_data and self.of_weight) and all(
            pair.is_int8 for pair in (*self.of_data, *self.of_weight)
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """A model for the checks.

    Attributes:
        model: the model.
        target: the name of the target, `onnxq.targets.NAMES`.
        pairs: its pairs, those of subgraph bodies included.
        products: its products with at least one quantized operand.
        sm: the compute capability that it is compiled for, 89 for 8.9; None: it is not.
    """

    model: Model
    target: str
    pairs: PairIndex
    products: tuple[Product, ...]
    sm: int | None = None

    @property
    def nodes(self) -> Iterator[Node]:
        """Its nodes, those of subgraph bodies included."""
        return every_node(self.model)


def subject_of(model: Model, target: str, sm: int | None = None) -> Subject:
    """What the checks look at."""
    pairs = PairIndex.of(model)
    products = tuple(_products(every_node(model))) if len(pairs) else ()
    return Subject(model, target, pairs, products, sm)


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
        product = Product(node, layer, one, other, pairs_of(one), pairs_of(other))
        if product.of_data or product.of_weight:
            yield product
