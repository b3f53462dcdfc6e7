"""Weights with scales along an axis for which there is no int8 kernel."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Product, Subject, check
from onnxq.checks.engine import in_float
from onnxq.graph.pairs import Pair
from onnxq.graph.view import Node, Tensor


@check("weight-axis", needs="pairs", judge=in_float)
def weight_axes(subject: Subject) -> Iterator[Fact]:
    """Weights with a scale for each input channel."""
    for product in subject.products:
        right = _right_axis(product)
        if right is None:
            continue
        pair, axis, should_be, rank = right
        if axis != should_be:
            yield Fact(
                "weight-axis", (product.node.name, product.node.op, pair.node.outputs[0].name),
                {"axis": axis, "rank": rank, "right": should_be},
            )  # fmt: skip


def _right_axis(product: Product) -> tuple[Pair, int, int, int] | None:
    """What dequantizes the weights of a scale a channel, its axis, the axis that it should have, the rank."""
    if product.layer is None or len(product.of_weight) != 1 or product.layer.groups > 1:
        return None
    pair = product.of_weight[0]
    shape = pair.node.outputs[0].shape
    if not pair.is_per_channel or shape is None:
        return None
    should_be = _before(product.weight, product.layer.axis, pair.node)
    return None if should_be is None else (pair, pair.axis % len(shape), should_be, len(shape))


def _before(tensor: Tensor, axis: int, maker: Node) -> int | None:
    """Which axis of what a node gives an axis of a tensor is; None where something else stands between."""
    node = tensor.producer
    while node is not None and node != maker:
        if node.op == "Transpose":
            perm = node.attr("perm")
            rank = node.outputs[0].rank
            if rank is None:
                return None
            axis = (perm or list(range(rank))[::-1])[axis]
        elif node.op not in ("Identity", "Cast"):
            return None
        source = node.inputs[0]
        node = source.producer if source is not None else None
    return axis if node == maker else None
