"""What a candidate changes of a model's constants, beside its scales: weights, biases, bounds, codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.formats import NumberFormat
from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import replace_input

BIASED = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2}
"""Which input is the bias."""


@dataclass(frozen=True, slots=True)
class Patches:
    """Changes of a model's constants, and of what is made of them.

    Attributes:
        constants: weights, biases and bounds by the name of the constant, in its type and shape. All
            that reads it reads the new values; weights are changed before they are quantized.
        biases: the bias of a Conv, ConvTranspose or Gemm by the name of the node, of the type of its
            weights, [output channels]; instead of the one that it has, or where it has none.
        codes: the codes of a quantized weight by the name of the constant, of its shape, where they are to
            be others than the nearest; its scales stay.
        amax: the magnitudes that the largest codes of a quantized weight stand for, by the name of the
            constant and its channel axis, float32 [channels] or []; else the largest there are.
    """

    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    biases: Mapping[str, np.ndarray] = field(default_factory=dict)
    codes: Mapping[str, np.ndarray] = field(default_factory=dict)
    amax: Mapping[tuple[str, int | None], np.ndarray] = field(default_factory=dict)

    def within(self, other: Patches) -> Patches:
        """Those of what another one changes as well, with its magnitudes."""
        return Patches(
            {name: self.constants.get(name, values) for name, values in other.constants.items()},
            {name: self.biases.get(name, values) for name, values in other.biases.items()},
            {name: self.codes[name] for name in other.codes if name in self.codes},
            other.amax,
        )

    def apply(self, model: Model) -> None:
        """Changes the constants and biases of a model.

        Raises:
            UserError: the model has no such constant or node, or values have another type or shape.
        """
        nodes = {node.name: node for node in model.nodes}
        read = (t for node in nodes.values() for t in node.inputs if t is not None and t.is_constant)
        constants = {tensor.name: tensor for tensor in read}
        for name in (*self.constants, *self.codes):
            if name not in constants:
                raise unknown_name("constant", name, list(constants))
        for name, values in self.codes.items():
            _check(f"codes of {name!r}", values, values.dtype, _shape(constants[name]))
        for name, values in self.constants.items():
            self._replace(model, constants[name], values)
        for name, values in self.biases.items():
            if name not in nodes:
                raise unknown_name("node", name, list(nodes))
            self._give_bias(model, nodes[name], values)

    def rounded(self, weight: str, codes: np.ndarray, format: NumberFormat) -> np.ndarray:
        """The codes of a weight: those that are fitted, else these.

        Raises:
            UserError: those that are fitted have another type or shape, or are no numbers of the format.
        """
        fitted = self.codes.get(weight)
        if fitted is None:
            return codes
        _check(f"codes of {weight!r}", fitted, codes.dtype, codes.shape)
        if (fitted < -format.greatest).any():
            raise UserError(
                f"codes of {weight!r} hold {format.ends[0]}",
                hint=f"symmetric codes are -{format.greatest}..{format.greatest}",
            )
        return fitted

    def _replace(self, model: Model, constant: Tensor, values: np.ndarray) -> None:
        _check(f"constant {constant.name!r}", values, constant.dtype, _shape(constant))
        constant.tensor._values = model.constant("", values)._values

    def _give_bias(self, model: Model, node: Node, values: np.ndarray) -> None:
        index = BIASED.get(node.op) if not node.domain else None
        weight = node.operands(2)[1]
        if index is None or weight is None:
            raise UserError(f"node {node.name!r} is a {node.op}, which has no bias", hint="name a layer")
        old = node.operands(3)[2]
        shape = values.shape if old is None else _shape(old)
        _check(f"the bias of {node.name!r}", values, weight.dtype, shape)
        bias = model.new_constant(f"{node.name}_bias", values)
        if len(node.node.inputs) > index:
            replace_input(node.node, index, bias)
        else:
            node.node.inputs.append(bias)


NONE = Patches()
"""Nothing changes."""


def _shape(constant: Tensor) -> tuple[int, ...]:
    return tuple(int(dim) for dim in constant.tensor.shape)


def _check(what: str, values: np.ndarray, dtype: np.dtype | None, shape: tuple[int, ...]) -> None:
    if values.dtype != dtype or values.shape != shape:
        raise UserError(
            f"{what}: {dtype} {list(shape)} is to be replaced by {values.dtype} {list(values.shape)}",
            hint="give values of the same type and shape",
        )
