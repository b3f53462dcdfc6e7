"""Which form of weight scales is better in a compiled layer: one a channel, or one with the ratio behind.

Of what TensorRT-RTX 1.7.1 makes of them (benchmarks/records/scale_forms.md has the experiments), by the file
alone, so that a file does not depend on whether the compiler is there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from onnxq.base.grouped import reached
from onnxq.base.reason import Reason, reason
from onnxq.graph.layers import Layer, multiplies
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node, Tensor
from onnxq.quant.post_scale import per_channel, same_operand

_CUTS = ("Split", "Slice", "Gather")
_WITH_CONSTANT = ("Add", "Sub", "Mul", "Div")


@dataclass(frozen=True, slots=True)
class Better:
    """Whether the form with the ratio behind the product is the better one, and why.

    Attributes:
        post_scaled: whether it is.
        why: with the code "half", "int8", "float32" or "mixed".
    """

    post_scaled: bool
    why: Reason


def better_forms(model: Model, *, half: bool, stays: Collection[str] = ()) -> dict[str, Better]:
    """What `better_post_scaled` says, by name, of each layer of the main graph with a scale a channel.

    Args:
        model: a quantized model, before it is converted to half precision.
        half: see there.
        stays: see there.
    """
    layers = map(per_channel, model.nodes)
    return {
        layer.node.name: better_post_scaled(layer, half=half, stays=stays)
        for layer in layers
        if layer is not None
    }


def better_post_scaled(layer: Layer, *, half: bool, stays: Collection[str] = ()) -> Better:
    """Whether an int8 layer is better off with one weight scale, see `onnxq.quant.post_scale`.

    Args:
        layer: a layer whose weights have a scale a channel, `onnxq.quant.post_scale.per_channel`.
        half: whether what is not quantized will be of half precision.
        stays: the names of the nodes that stay float32 all the same.
    """
    if half and layer.node.name not in stays:
        wide = next((node.name for node in same_operand(layer) if node.name in stays), None)
        if wide is None:
            return Better(True, reason("half.product"))
        return Better(False, reason("mixed", node=wide))
    if not half and all(_cut_for_products(node) for node in same_operand(layer)):
        return Better(True, reason("int8"))
    return Better(False, reason("float32"))


def _cut_for_products(node: Node) -> bool:
    """Whether parts of what a node gives are operands of other products, as queries, keys and values are."""

    def onward(place: tuple[Tensor, bool]) -> list[tuple[Tensor, bool]]:
        tensor, cut = place
        passing = (user for user in tensor.users if not user.domain and (user.op in MOVES or _shifts(user)))
        return [(output, cut or user.op in _CUTS) for user in passing for output in user.outputs]

    places = reached(((tensor, False) for tensor in node.outputs), onward)
    return any(cut and any(map(multiplies, tensor.users)) for tensor, cut in places)


def _shifts(node: Node) -> bool:
    """Whether a node combines what it reads with a constant."""
    return node.op in _WITH_CONSTANT and any(t is not None and t.is_constant for t in node.operands(2))
