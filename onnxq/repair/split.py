"""Half steps: one tensor twice, half a step apart, has a bit more.

    before    z = Conv(x, V, d)
    after     z = Conv([x - s/4, x + s/4], [V/2, V/2], d)

With s the tensor's step, the mean of both codes has the step s/2. What computes the tensor stays as it is.
What reads it in float reads it as it was.

It costs the layers that read its codes twice the multiply-accumulates, and bytes: what computes the tensor
writes it in half precision, and a kernel of its own makes both halves' codes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.types import Shape, is_float
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import new_tensor, replace_input, replace_output, tensor_shape
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.plan import QuantPlan, Site
from onnxq.repair.found_edits import FoundEdits, NoFit, applied
from onnxq.repair.writer import Writer


@dataclass(frozen=True, slots=True)
class HalfSteps(DocumentPart):
    """Gives layers a tensor twice, half a step apart.

    Attributes:
        tensor: the tensor, which has twice the channels from now on.
        step: its scale.
        readers: the layers; others read it as it was.
        kind: `split`.
    """

    tensor: str
    step: float
    readers: tuple[str, ...]
    kind: str = "split"

    def __post_init__(self) -> None:
        """Refuses what is no step.

        Raises:
            ValueError: it is not positive.
        """
        if not 0 < self.step < np.inf:
            raise ValueError("a step is positive")

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """None: what is a quarter of a step beyond the last code has the last code."""
        return {}

    def maps(self, model: Model) -> dict[str, ChannelMap]:
        """The tensor has its channels twice."""
        with applied(repr(self.tensor), "computed twice"):
            fit = self._fit(model)
        offset = np.repeat([-self.step / 4, self.step / 4], fit.channels).astype(np.float32)
        index = np.tile(np.arange(fit.channels), 2)
        return {self.tensor: ChannelMap(np.ones((), np.float32), offset, index)}

    def apply(self, model: Model) -> None:
        """Changes weights, and puts both halves behind what computes the tensor.

        Raises:
            UserError: the model is another one.
        """
        with applied(repr(self.tensor), "computed twice"):
            fit = self._fit(model)
            fit.writer.commit()
        fit.insert(self.step, self.readers)

    def _fit(self, model: Model) -> _Twice:
        return _Twice(model.tensor(self.tensor), self.readers)


def find(model: Model, draft: Draft) -> FoundEdits:
    """The tensors that layers can read twice, and what that costs.

    Args:
        model: with the draft's edits.
        draft: the plan, and the ranges after the edits.
    """
    edits: list[HalfSteps] = []
    skipped: dict[str, str] = {}
    macs: dict[str, int] = {}
    tensors = model.tensors()
    scales = draft.scales
    for site in draft.plan.sites:
        if site.kind != "activation" or site.tensor not in tensors:
            continue
        tensor = tensors[site.tensor]
        names = tuple(dict.fromkeys(edge.node for edge in site.readers))
        try:
            _check_plan(draft.plan, site, tensor)
            _Twice(tensor, names).writer.check()
        except NoFit as error:
            skipped[site.tensor] = error.why
            continue
        edits.append(HalfSteps(site.tensor, float(scales[site.group]), names))
        price = [layer.macs for layer in draft.plan.layers if layer.node in names and layer.quantized]
        costs = [one for one in price if one is not None]
        if len(costs) == len(price):
            macs[site.tensor] = sum(costs)
    return FoundEdits(tuple(edits), skipped, macs)


def there(model: Model, draft: Draft) -> bool:
    """Whether anything is found."""
    return bool(find(model, draft).edits)


def _check_plan(plan: QuantPlan, site: Site, tensor: Tensor) -> None:
    if any(pair.tensor == tensor.name for pair in plan.own):
        raise NoFit("own-pair")
    maker = tensor.producer
    pairs = {edge.node for other in plan.sites for edge in other.readers}
    if maker is not None and maker.op in (*MOVES, "Concat") and maker.name in pairs:
        raise NoFit("rounded-already", node=maker.name)


class _Twice:
    """What becomes of a tensor and of what reads it.

    Attributes:
        writer: the weights.
        channels: how many it has.
    """

    def __init__(self, tensor: Tensor, names: Collection[str]) -> None:
        if tensor.is_output:
            raise NoFit("is-output", tensor=tensor.name)
        if tensor.producer is None:
            raise NoFit("is-input", tensor=tensor.name)
        if not is_float(tensor.dtype) or tensor.rank is None:
            raise NoFit("unknown-shape.type", tensor=tensor.name)
        self.writer = Writer(tensor.model)  # type: ignore[arg-type]
        self._tensor = tensor
        readers = [node for node in tensor.users if node.name in names]
        if len(readers) != len(names):
            raise NoFit("other-tensor")
        told = [self._read(node) for node in readers]
        if len(set(told)) != 1:
            raise NoFit("other-axis.several")
        self._axis, self.channels = told[0]

    def insert(self, step: float, names: Collection[str]) -> None:
        """Puts both halves between what computes the tensor and its readers.

        They are made by one Add along an axis of their own: then one kernel makes both, and reads the tensor
        once. Where more than one size behind the channels is open, no Reshape makes such an axis.
        """
        model, tensor = self.writer.model, self._tensor
        raw, name, dtype, shape = tensor.tensor, tensor.name, tensor.dtype, tensor.shape
        maker = tensor.producer
        assert maker is not None
        once = new_tensor(model.unique(f"{name}_once"), dtype, shape)
        place = next(index for index, out in enumerate(maker.outputs) if out == tensor)
        for user in tensor.users:
            if user.name not in names:
                for index, read in enumerate(user.inputs):
                    if read == tensor:
                        replace_input(user.node, index, once)
        replace_output(maker.node, place, once)
        raw.shape = tensor_shape(new_tensor("", dtype, _doubled(shape, self._axis)))
        axis, by = self._axis, np.array([-step / 4, step / 4], dtype)
        sizes = [size if isinstance(size, int) else -1 for size in (shape or ())[axis + 1 :]]
        made: dict[str, Callable[[Shape], Shape]] = {once.name: lambda typical: typical}

        def new(op: str, inputs: list[Any], out: Any, what: str, **attrs: int) -> Any:
            model.add_nodes([model.new_node(op, inputs, [out], attrs, name=f"{name}_{what}")], maker.node)
            return out

        def between(what: str, halves: int) -> Any:
            def spread(whole: Shape) -> Shape:
                return (*whole[:axis], halves, *whole[axis:])

            out = new_tensor(model.unique(f"{name}_{what}"), dtype, shape and spread(shape))
            made[out.name] = spread
            return out

        def sized(*channels: int) -> Any:
            return model.new_constant(f"{name}_shape", np.array([0] * axis + [*channels, *sizes], np.int64))

        if shape is not None and sizes.count(-1) < 2:
            alone = new("Reshape", [once, sized(1, self.channels)], between("alone", 1), "Spread")
            offset = model.new_constant(f"{name}_offset", by.reshape(-1, *[1] * (len(sizes) + 1)))
            both = new("Add", [alone, offset], between("both", 2), "Add")
            new("Reshape", [both, sized(2 * self.channels)], raw, "Joined")
        else:
            halves = []
            for what, one in zip(("low", "high"), by, strict=True):
                half = new_tensor(model.unique(f"{name}_{what}"), dtype, shape)
                made[half.name] = made[once.name]
                offset = model.new_constant(f"{name}_{what}_offset", one)
                halves.append(new("Add", [once, offset], half, f"{what}_Add"))
            new("Concat", halves, raw, "Concat", axis=axis)
        made[name] = lambda typical: _doubled(typical, axis) or typical
        model.derive_typical(name, lambda typical: {one: shaped(typical) for one, shaped in made.items()})
        model.sort()

    def _read(self, node: Node) -> tuple[int, int]:
        """Repeats the columns of a layer, each half as large; the axis of its channels, and how many."""
        layer = layer_of(node)
        reads = sum(one == self._tensor for one in node.inputs)
        if layer is None or layer.index != 1 or reads != 1 or node.inputs[0] != self._tensor:
            raise NoFit("reads-it", node=node.name, op=node.op)
        weights = self.writer.value(node, 1)
        if weights is None or layer.groups != 1 or (node.op == "MatMul" and weights.ndim != 2):
            raise NoFit("several-matrices", node=node.name)
        last = (self._tensor.rank or 1) - 1
        axis = last if node.op == "MatMul" else 0 if node.op == "Gemm" and node.attr("transA", 0) else 1
        place = 0 if node.op == "ConvTranspose" else 1 - layer.axis
        self.writer.put(node, 1, np.concatenate([weights, weights], place) / 2, weight=True)
        return axis, layer.inputs


def _doubled(shape: Shape | None, axis: int) -> Shape | None:
    """A shape with twice the channels."""
    if shape is None:
        return None
    return tuple(
        2 * dim if place == axis and isinstance(dim, int) else dim for place, dim in enumerate(shape)
    )
