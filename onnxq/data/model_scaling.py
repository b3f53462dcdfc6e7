"""What a model does itself to the values that it is fed, before its first layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.view import Node, Tensor

_MOVES = (*REARRANGES, "Cast")


@dataclass(frozen=True, slots=True)
class ModelScaling:
    """The sums and products with constants that an input goes through: `x * factor + shift`.

    Attributes:
        node: the first of them.
        factor: one, or one a channel.
        shift: likewise.
    """

    node: str
    factor: np.ndarray
    shift: np.ndarray

    @property
    def takes(self) -> Literal["0..255", "0..1"] | None:
        """The values that it makes ones of the size of 1 from; None where that is not clear.

        Such ones span 1 to 8: `x / 255` spans 1, `(x / 255 - mean) / std` of ImageNet 4.4.
        """
        factor, shift = float(np.abs(self.factor).max()), float(np.abs(self.shift).max())
        if 0.9 <= 255 * factor <= 8 or (0.9 <= factor <= 1.1 and 16 <= shift <= 255):  # or a mean of pixels
            return "0..255"
        return "0..1" if 1.5 <= factor <= 8 else None


def model_scaling(model: Model) -> dict[str, ModelScaling]:
    """The scaling of each input of the main graph that has any, by name."""
    scalings = {tensor.name: _scaling(tensor) for tensor in model.inputs}
    return {name: scaling for name, scaling in scalings.items() if scaling is not None}


def _scaling(tensor: Tensor) -> ModelScaling | None:
    """Follows a tensor through its only reader, as long as that is a sum or a product with a constant."""
    first, factor, shift = "", np.ones(1), np.zeros(1)
    while len(tensor.users) == 1 and not tensor.is_output:
        (node,) = tensor.users
        if node.op not in _MOVES:
            constant = _operand(node, tensor)
            if constant is None:
                break
            first = first or node.name
            factor, shift = _APPLY[node.op](factor, shift, constant)
        tensor = node.outputs[0]
    return ModelScaling(first, factor, shift) if first else None


_APPLY = {
    "Add": lambda factor, shift, c: (factor, shift + c),
    "Sub": lambda factor, shift, c: (factor, shift - c),
    "Mul": lambda factor, shift, c: (factor * c, shift * c),
    "Div": lambda factor, shift, c: (factor / c, shift / c),
}


def _operand(node: Node, tensor: Tensor) -> np.ndarray | None:
    """The finite constant, one or one a channel, of a sum or product; as divisor and what is subtracted."""
    if node.op not in _APPLY or node.domain:
        return None
    left, right = node.operands(2)
    other = right if left == tensor else left if node.op in ("Add", "Mul") else None
    if other is None or not other.is_constant or other.nbytes > 64:
        return None
    values = other.constant
    if values is None or values.size not in (1, 3):
        return None
    flat: np.ndarray = values.reshape(-1).astype(np.float64)
    usable = np.isfinite(flat).all() and (node.op != "Div" or flat.all())
    return flat if usable else None
