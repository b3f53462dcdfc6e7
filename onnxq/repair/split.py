"""Half steps: one tensor twice, half a step apart, has a bit more.

    before    x = Relu(Conv(y, W, b))                              z = Conv(x, V, d)
    after     x = Max(Conv(y, [W; W], [b - s/4; b + s/4]), ∓s/4)   z = Conv(x, [V/2, V/2], d)

With s the tensor's step, the mean of both codes has the step s/2. The bounds move with the channels, so that
the float model computes what it did. Each channel stands beside its twin, so that groups stay groups.

It costs the layers that read the tensor twice the multiply-accumulates, and that which writes it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.errors import UserError, unknown_name
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, is_float
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import new_tensor, replace_input
from onnxq.quant.plan import QuantPlan
from onnxq.repair.affine import ChannelMap
from onnxq.repair.draft import Draft
from onnxq.repair.found import FoundEdits, NoFit
from onnxq.repair.writer import Writer


@dataclass(frozen=True, slots=True)
class HalfSteps:
    """Computes each channel of a tensor twice, half a step apart.

    Attributes:
        tensor: the tensor.
        step: its scale.
    """

    tensor: str
    step: float
    kind: str = "split"

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> HalfSteps:
        """The edit that `to_json` gave."""
        edit = HalfSteps(str(json["tensor"]), float(json["step"]))
        if not 0 < edit.step < np.inf:
            raise ValueError("a step is positive")
        return edit

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"kind": self.kind, "tensor": self.tensor, "step": self.step}

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """None: what is a quarter of a step beyond the last code has the last code."""
        return {}

    def maps(self, model: Model) -> dict[str, ChannelMap]:
        """The tensor, and those between the layer that writes it and it, have each channel twice."""
        return self._fit(model).maps()

    def apply(self, model: Model) -> None:
        """Changes weights, biases and bounds.

        Raises:
            UserError: the model is another one.
        """
        fit = self._fit(model)
        try:
            fit.commit()
        except NoFit as error:
            raise self._error(error) from error

    def _fit(self, model: Model) -> _Twice:
        tensors = model.graph.tensors()
        if self.tensor not in tensors:
            raise unknown_name("tensor", self.tensor, list(tensors))
        try:
            return _Twice(Tensor(model, tensors[self.tensor]), self.step)
        except NoFit as error:
            raise self._error(error) from error

    def _error(self, error: NoFit) -> UserError:
        return UserError(
            f"{self.tensor!r} cannot be computed twice: {error}", hint="the edit is of another model"
        )


def find(model: Model, draft: Draft) -> FoundEdits:
    """The tensors that can be computed twice, and what that costs.

    Args:
        model: with the draft's edits.
        draft: the plan, and the ranges after the edits.
    """
    edits: list[HalfSteps] = []
    skipped: dict[str, str] = {}
    macs: dict[str, int] = {}
    tensors = model.graph.tensors()
    scales = draft.scales
    quantized = {site.tensor for site in draft.plan.sites}
    for site in draft.plan.sites:
        if site.kind != "activation" or site.tensor not in tensors:
            continue
        tensor = Tensor(model, tensors[site.tensor])
        try:
            _check_group(draft.plan, site.tensor)
            fit = _Twice(tensor, float(scales[site.group]))
            between = next((name for name in fit.maps() if name != site.tensor and name in quantized), None)
            if between is not None:
                raise NoFit(f"{between!r} in front of it is quantized")
            fit.writer.check()
        except NoFit as error:
            skipped[site.tensor] = str(error)
            continue
        edits.append(HalfSteps(site.tensor, float(scales[site.group])))
        if (price := fit.price(draft.plan)) is not None:
            macs[site.tensor] = price
    return FoundEdits(tuple(edits), skipped, macs)


def _check_group(plan: QuantPlan, name: str) -> None:
    if any(pair.tensor == name for pair in plan.own):
        raise NoFit("the model quantizes it itself")
    for group in plan.groups:
        others = [other for other in group.tensors if other != name]
        if name in group.tensors and others:
            raise NoFit(f"it shares its scale with {others[0]!r}")


class _Twice:
    """What becomes of a tensor, of what writes it and of what reads it.

    Attributes:
        writer: the constants.
    """

    def __init__(self, tensor: Tensor, step: float) -> None:
        if tensor.is_output:
            raise NoFit(f"{tensor.name!r} is an output")
        if not is_float(tensor.dtype) or tensor.rank is None:
            raise NoFit(f"the shape or type of {tensor.name!r} is not known")
        self.model: Model = tensor.model  # type: ignore[assignment]
        self.writer = Writer(self.model)
        self._tensor = tensor
        self._changed: dict[str, tuple[Tensor, bool]] = {tensor.name: (tensor, True)}
        self._bend = _bounds(tensor.producer)
        source = tensor if self._bend is None else self._only(_first(self._bend[0]))
        self._layer, self._axis = self._write(source)
        count = self._layer.outputs
        self._offsets = np.tile([-step / 4, step / 4], count)
        self._index = np.repeat(np.arange(count), 2)
        self._move(source)
        self._readers = [self._read(node) for node in tensor.users]
        if not self._readers:
            raise NoFit("nothing reads it")

    def maps(self) -> dict[str, ChannelMap]:
        """What becomes of tensors."""
        ones = np.ones((), np.float32)
        found = {}
        for name, (_, moved) in self._changed.items():
            offset = self._offsets.astype(np.float32) if moved else np.zeros((), np.float32)
            found[name] = ChannelMap(ones, offset, self._index)
        return found

    def price(self, plan: QuantPlan) -> int | None:
        """The further multiply-accumulates of layers that are not float; None where a size is not known."""
        names = {self._layer.node.name, *(node.name for node in self._readers)}
        found = [layer.macs for layer in plan.layers if layer.node in names and layer.quantized]
        known = [macs for macs in found if macs is not None]
        return sum(known) if len(known) == len(found) else None

    def commit(self) -> None:
        """Changes the model.

        Raises:
            NoFit: weights are not this layer's alone; nothing is changed then.
        """
        self.writer.commit()
        typical = dict(self.model.typical_shapes)
        for name, (tensor, _) in self._changed.items():
            tensor.tensor.shape = _doubled(tensor.shape, self._axis)
            if name in typical:
                typical[name] = _doubled(typical[name], self._axis) or typical[name]
        self.model.typical_shapes = typical
        if self._bend is not None:
            self._bound(*self._bend)

    def _only(self, tensor: Tensor) -> Tensor:
        """A tensor in front, which one node reads."""
        if tensor.is_output or len(tensor.tensor.outputs) != 1:
            raise NoFit(f"others read {tensor.name!r} in front of it")
        self._changed[tensor.name] = (tensor, True)
        return tensor

    def _write(self, source: Tensor) -> tuple[Layer, int]:
        """The layer that computes it, and the channel axis; repeats its rows."""
        node = source.producer
        add = node
        if node is not None and node.op == "Add" and not node.domain:
            index = 1 if self.writer.value(node, 1) is not None else 0
            product = node.inputs[1 - index]
            node = None if product is None or self.writer.value(node, index) is None else product.producer
            if node is not None and node.op == "MatMul":
                assert product is not None
                self._only(product)
                self._changed[product.name] = (product, False)
        layer = None if node is None else layer_of(node)
        if layer is None or layer.index != 1 or layer.node.op == "ConvTranspose":
            raise NoFit("no layer computes it")
        node = layer.node
        if (node.op == "MatMul") != (add != node):
            raise NoFit(f"{node.name!r} has no bias")
        weights = self.writer.value(node, 1)
        if weights is None or (node.op == "MatMul" and weights.ndim != 2):
            raise NoFit(f"the weights of {node.name!r} are not one matrix")
        self.writer.put(node, 1, np.repeat(weights, 2, layer.axis), weight=True)
        self._biased = add
        return layer, (source.rank or 1) - 1 if node.op == "MatMul" else 1

    def _move(self, source: Tensor) -> None:
        """Repeats the bias, and moves both halves apart."""
        node = self._biased
        assert node is not None
        count = self._layer.outputs
        index = 2 if node.op != "Add" else 1 if self.writer.value(node, 1) is not None else 0
        beta = float(node.attr("beta", 1.0)) if node.op == "Gemm" else 1.0
        bias = np.zeros(count) if not self.writer.has(node, index) else self.writer.value(node, index)
        if bias is None or beta == 0 or (bias.size != 1 and bias.shape[-1] != count):
            raise NoFit(f"the bias of {node.name!r} is not one constant a channel")
        if bias.size != 1 and bias.size != count:
            raise NoFit(f"the bias of {node.name!r} is not one constant a channel")
        wide = np.repeat(np.broadcast_to(bias.reshape(-1), (count,)), 2)
        self.writer.put(node, index, wide + self._offsets / beta)

    def _read(self, node: Node) -> Node:
        """Repeats the columns of a layer, each half as large."""
        layer = layer_of(node)
        reads = sum(one == self._tensor for one in node.inputs)
        if layer is None or layer.index != 1 or reads != 1 or node.inputs[0] != self._tensor:
            raise NoFit(f"{node.name!r} reads it ({node.op})")
        weights = self.writer.value(node, 1)
        last = (self._tensor.rank or 1) - 1
        axis = last if node.op == "MatMul" else 0 if node.op == "Gemm" and node.attr("transA", 0) else 1
        if weights is None or axis != self._axis or (node.op == "MatMul" and weights.ndim != 2):
            raise NoFit(f"{node.name!r} reads it along another axis")
        place = 0 if node.op == "ConvTranspose" else 1 - layer.axis
        self.writer.put(node, 1, np.repeat(weights, 2, place) / 2, weight=True)
        return node

    def _bound(self, node: Node, low: float | None, high: float | None) -> None:
        """Bounds that move with the channels: a Max, a Min, or both."""
        raw = node.node
        dtype = self._tensor.dtype
        shape = [-1 if place == self._axis else 1 for place in range(self._tensor.rank or 1)]

        def constant(bound: float) -> np.ndarray:
            return (bound + self._offsets).astype(dtype).reshape(shape)

        writer = Writer(self.model)
        if low is not None and high is not None:
            source = _first(node)
            out = self.model.unique(f"{source.name}_bounded")
            floor = self.model.constant(self.model.unique(f"{node.name}_low"), constant(low))
            between = new_tensor(out, dtype, source.shape)
            added = self.model.new_node("Max", [source.tensor, floor], [between], name=f"{node.name}_Max")
            replace_input(raw, 0, between)
            self._home(raw).nodes.append(added)
            writer.remake(node, "Min", [constant(high)])
        elif low is not None:
            writer.remake(node, "Max", [constant(low)])
        elif high is not None:
            writer.remake(node, "Min", [constant(high)])
        writer.commit()
        self.model.sort()

    def _home(self, raw: Any) -> Any:
        """The graph that a node is in."""
        return next(graph for graph in self.model.graphs() if any(one is raw for one in graph.nodes))


def _first(node: Node) -> Tensor:
    first = node.inputs[0]
    assert first is not None
    return first


def _doubled(shape: Shape | None, axis: int) -> Shape | None:
    """A shape with twice the channels."""
    if shape is None:
        return None
    return tuple(
        2 * dim if place == axis and isinstance(dim, int) else dim for place, dim in enumerate(shape)
    )


def _bounds(node: Node | None) -> tuple[Node, float | None, float | None] | None:
    """A Relu or Clip, and its bounds, None where it has none; None for other nodes.

    Raises:
        NoFit: they are computed.
    """
    if node is None or node.domain or node.op not in ("Relu", "Clip"):
        return None
    if node.op == "Relu":
        return node, 0.0, None
    found: list[float | None] = []
    for index, name in ((1, "min"), (2, "max")):
        bound = node.operands(3)[index]
        given = node.attrs.get(name) if bound is None else bound.scalar
        if bound is not None and given is None:
            raise NoFit(f"{node.name!r} computes its bounds")
        found.append(None if given is None or np.isinf(given) else float(given))
    return node, found[0], found[1]
