"""The range of each tensor: what its user or its operator fixes, else what a calibration method finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason, reason
from onnxq.calib.stats import TensorStats
from onnxq.graph.model import Model
from onnxq.options.config import LayerRule
from onnxq.options.parameters import stated
from onnxq.quant.plan import QuantPlan
from onnxq.quant.scales import activation_scales
from onnxq.quant.thresholds import Method, answer, bounded_by, is_zero

BOUNDED = {"Sigmoid": 1.0, "HardSigmoid": 1.0, "Tanh": 1.0}
"""Operators whose outputs have a known greatest magnitude (ONNX, operator definitions).

Not Softmax: over many classes its outputs are far from 1 (with 1 as its range in attention a ViT has 19.8 dB,
with what is measured 37.5).
"""


MSE = Method("mse")


@dataclass(frozen=True, slots=True)
class Range:
    """The range -amax..amax of a tensor, and where it is from."""

    amax: float
    because: Reason


def bounded(model: Model, tensors: Iterable[str]) -> dict[str, Range]:
    """The ranges of tensors that their operators know, measured or not."""
    makers = {tensor.name: node for node in model.nodes for tensor in node.outputs}
    ranges = {}
    for name in tensors:
        node = makers.get(name)
        if node is not None and not node.domain and node.op in BOUNDED:
            ranges[name] = Range(BOUNDED[node.op], reason("fixed", "model", op=node.op))
    return ranges


@dataclass(frozen=True, slots=True)
class Ranges:
    """Answers with the range of each tensor that a plan measures, for any method.

    Attributes:
        plan: the plan.
        tensors: statistics by tensor.
        stated: ranges that the user states, which win.
        fixed: ranges that are known without data; they win unless the user names a method.
        layers: the `[[layer]]` of the configuration that applies to a tensor.
        default: where a `[[layer]]` leaves a parameter open.
        halves: likewise, of each half of the samples alone; none where they were not taken apart.
    """

    plan: QuantPlan
    tensors: Mapping[str, TensorStats]
    stated: Mapping[str, Range] = field(default_factory=dict)
    fixed: Mapping[str, Range] = field(default_factory=dict)
    layers: Mapping[str, LayerRule] = field(default_factory=dict)
    default: Method = MSE
    halves: tuple[Ranges, ...] = ()
    _answers: dict[tuple[str, Method, str], float] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """How many samples calibrated."""
        return max((len(stats.amaxes) for stats in self.tensors.values()), default=0)

    def of(self, tensor: str, method: Method) -> Range:
        """The range of a tensor.

        Raises:
            UserError: nothing is known of the tensor, or the method needs a histogram.
        """
        layer = self.layers.get(tensor)
        if layer is not None and layer.amax is not None:
            return Range(layer.amax, of_layer(layer))
        if tensor in self.stated:
            return self.stated[tensor]
        if layer is not None and layer.method is not None:
            own = method_of(layer, self.default)
            measured = self._by(tensor, own)
            return Range(measured.amax, Reason("layer", f"{measured.because}, {of_layer(layer)}", "user"))
        if tensor in self.fixed:
            return self.fixed[tensor]
        return self._by(tensor, method)

    def _by(self, tensor: str, method: Method) -> Range:
        """The range that a method gives a tensor."""
        amax = self.measured(tensor, method)
        if is_zero(self.tensors[tensor], self._answer(tensor, method)):
            return Range(amax, reason("zeros", method=method))
        return Range(amax, Reason("method", str(method)))

    def measured(self, tensor: str, method: Method) -> float:
        """The range that a method finds in the statistics of a tensor, whatever is fixed.

        Raises:
            UserError: as above.
        """
        if tensor not in self.tensors:
            raise UserError(
                f"nothing is known of the range of tensor {tensor!r}",
                hint="give calibration data, or statistics of this model taken with the same flags",
            )
        return bounded_by(self.tensors[tensor], self._answer(tensor, method))

    def _answer(self, tensor: str, method: Method) -> float:
        """What a method itself says of the statistics of a tensor, in the format that the plan gives it."""
        numbers = self.plan.numbers_of_tensors.get(tensor, self.plan.usual)
        key = tensor, method, numbers.name
        if key not in self._answers:
            self._answers[key] = answer(self.tensors[tensor], method, numbers)
        return self._answers[key]

    def all(self, method: Method) -> dict[str, Range]:
        """The ranges of all tensors that the plan measures."""
        return {name: self.of(name, method) for name in self.plan.measured}

    def is_free(self, tensor: str) -> bool:
        """Whether the user leaves a tensor's range to onnxq."""
        return tensor not in self.layers and tensor not in self.stated


class Scales(dict[int, np.float32]):
    """The scale of each group of activations.

    Attributes:
        without: what samples without each half say; none where they were not taken apart.
    """

    without: tuple[Mapping[int, np.float32], ...] = ()

    def judging(self, half: int | None) -> Mapping[int, np.float32]:
        """Those that a sample of a half may judge, as others fitted them."""
        return self if half is None or not self.without else self.without[half]


def scales_of(plan: QuantPlan, ranges: Mapping[str, Range]) -> dict[int, np.float32]:
    """The scale of each group of activations."""
    return activation_scales(plan, {name: entry.amax for name, entry in ranges.items()})


def method_of(layer: LayerRule, default: Method) -> Method:
    """The method of a `[[layer]]`; parameters that it leaves open are the default's."""
    return replace(default, name=layer.method or default.name, **stated(layer))


def of_layer(layer: LayerRule) -> Reason:
    """The reason that a `[[layer]]` of the configuration is."""
    text = f"[[{layer.kind}]] {layer.index}" + (f": {layer.because}" if layer.because else "")
    return Reason("layer", text, "user")
