"""Shift: what a Relu gives lies on one side of zero, and half of int8's codes are for the other side.

    before    x = Relu(Conv(y, W, b))                   z = Conv(x, V, d)
    after     x - c = Clip(Conv(y, W, b - c), -c)       z = Conv(x - c, V, d + c ΣV)

With c half of the range, the pair spends all 255 codes. Zero is -c, which the least code means to the last
bit. A Clip keeps its upper bound; a Relu gets none, as the pair saturates.

What only moves values is passed on the way: Concat, MaxPool (which pads with what is least), Reshape, ...
All tensors that it joins are shifted by the same number. Sums are reordered, no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.plan import QuantPlan
from onnxq.repair.found_edits import FoundEdits, NoFit, applied
from onnxq.repair.offset import lower, restore
from onnxq.repair.writer import Writer

_BOUNDS_ARE_INPUTS = 11
"""The first opset in which those of a Clip are."""

_LEAST = 1e-30
"""A smaller range is that of a tensor that is always zero."""


@dataclass(frozen=True, slots=True)
class Shift(DocumentPart):
    """Moves what activations give by half of its range.

    Attributes:
        tensor: the first of the tensors.
        by: how much less they are, positive.
        tensors: what Relu or Clip write, and others are made of: all that one scale is for.
        kind: `shift`.
    """

    tensor: str
    by: float
    tensors: tuple[str, ...]
    kind: str = "shift"

    def __post_init__(self) -> None:
        """Refuses what moves nothing, or to nowhere.

        Raises:
            ValueError: it is not positive, or no float32.
        """
        if not 0 < self.by <= float(np.finfo(np.float32).max):
            raise ValueError("a shift is positive, and a float32")

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """Half of the range: as far below zero as above."""
        return {name: self.by for name in self.tensors if name in amax}

    def maps(self, model: Model) -> dict[str, ChannelMap]:
        """The tensors, and those between their bias and them, are less by `by`."""
        with applied(repr(self.tensor), "shifted"):
            return self._fit(model)[1]

    def apply(self, model: Model) -> None:
        """Changes biases and bounds.

        Raises:
            UserError: the model is another one.
        """
        with applied(repr(self.tensor), "shifted"):
            writer, _ = self._fit(model)
            writer.commit()

    def _fit(self, model: Model) -> tuple[Writer, dict[str, ChannelMap]]:
        cone = _Cone(model.tensor(self.tensor))
        shifted = _shifted(cone, self.by, ())
        if {node.outputs[0].name for node in cone.activations} != set(self.tensors):
            raise NoFit("shared-scale")
        return shifted


def find(model: Model, draft: Draft) -> FoundEdits:
    """The shifts that fit a draft: of Relu and Clip that int8 layers without padding read.

    Args:
        model: with the draft's edits.
        draft: the plan, and the ranges after the edits.
    """
    plan = draft.plan
    tensors = model.tensors()
    edits: list[Shift] = []
    skipped: dict[str, str] = {}
    done: set[str] = set()
    for name in plan.measured:
        if name in done or name not in tensors:
            continue
        tensor = tensors[name]
        if tensor.producer is None or _upper(tensor.producer) is None:
            continue
        try:
            edit, names = _shift(tensor, draft)
        except NoFit as error:
            skipped[name] = error.why
        else:
            edits.append(edit)
            done |= names
    return FoundEdits(tuple(edits), skipped)


def there(model: Model, draft: Draft) -> bool:
    """Whether anything is found."""
    return bool(find(model, draft).edits)


def _shift(tensor: Tensor, draft: Draft) -> tuple[Shift, set[str]]:
    """The shift that begins at a tensor, and the tensors that it is of."""
    plan = draft.plan
    cone = _Cone(tensor)
    names = set(cone.tensors)
    _check_plan(plan, names)
    sources = tuple(node.outputs[0].name for node in cone.activations)
    measured = [draft.amax[name] for name in sources if name in draft.amax]
    if not measured or max(measured) < _LEAST:
        raise NoFit("always-zero")
    by = float(np.float32(max(measured) / 2))
    quantized = {site.tensor for site in plan.sites if site.kind == "activation"}
    writer, _ = _shifted(cone, by, quantized - names)
    writer.check()
    return Shift(tensor.name, by, sources), names


def _check_plan(plan: QuantPlan, names: set[str]) -> None:
    """Looks whether tensors are all that a scale is for."""
    if any(pair.tensor in names for pair in plan.own):
        raise NoFit("own-pair")
    groups = {site.group for site in plan.sites if site.tensor in names}
    for group in plan.groups:
        others = [name for name in group.tensors if name not in names]
        if group.id in groups and others:
            raise NoFit("shared-scale.tensor", tensor=others[0])
    if len(groups) > 1:
        raise NoFit("other-scale")


def _shifted(cone: _Cone, by: float, quantized: set[str] | tuple[()]) -> tuple[Writer, dict[str, ChannelMap]]:
    """What is written for a shift, and what becomes of tensors."""
    writer = Writer(cone.first.model)  # type: ignore[arg-type]
    maps = {name: ChannelMap.of(offset=-by) for name in cone.tensors}
    for node in cone.activations:
        source, out = node.inputs[0], node.outputs[0]
        assert source is not None
        assert out.dtype is not None
        lower(source, by, writer, quantized, maps)
        upper = _upper(node)
        assert upper is not None
        bounds = {"min": -by, **({"max": upper - by} if np.isfinite(upper) else {})}
        if node.opset < _BOUNDS_ARE_INPUTS:
            writer.remake(node, "Clip", [], bounds)
        else:
            writer.remake(node, "Clip", [np.array(bound, out.dtype) for bound in bounds.values()])
    for node, tensor in cone.readers:
        restore(node, tensor, by, writer, maps)
    return writer, maps


class _Cone:
    """Tensors that are shifted alike: those that activations give, and those that these are moved to.

    Attributes:
        first: where it begins.
        tensors: by name.
        activations: what computes them.
        readers: the layers that read them, and what.
    """

    def __init__(self, first: Tensor) -> None:
        self.first = first
        self.tensors: dict[str, Tensor] = {}
        self.activations: list[Node] = []
        self.readers: list[tuple[Node, Tensor]] = []
        todo = [first]
        while todo:
            tensor = todo.pop()
            if tensor.name in self.tensors:
                continue
            if tensor.is_output:
                raise NoFit("is-output", tensor=tensor.name)
            self.tensors[tensor.name] = tensor
            todo += self._sources(tensor)
            for node in tensor.users:
                todo += self._moved(node, tensor)

    def _sources(self, tensor: Tensor) -> list[Tensor]:
        """What a tensor is made of."""
        maker = tensor.producer
        if maker is None or not is_float(tensor.dtype):
            raise NoFit("shared-scale.tensor", tensor=tensor.name)
        if _upper(maker) is not None:
            self.activations.append(maker)
            return []
        if maker.domain or maker.op not in (*MOVES, "Concat"):
            raise NoFit("shared-scale.made", node=maker.name, op=maker.op)
        sources = maker.inputs if maker.op == "Concat" else maker.inputs[:1]
        return [source for source in sources if source is not None]

    def _moved(self, node: Node, tensor: Tensor) -> list[Tensor]:
        """What a reader moves a tensor to; nothing where it computes."""
        moves = node.op in MOVES and node.inputs[0] == tensor and tensor not in node.inputs[1:]
        if not node.domain and (moves or node.op == "Concat"):
            return list(node.outputs if node.op == "Split" else node.outputs[:1])
        if sum(one == tensor for one in node.inputs) != 1:
            raise NoFit("reads-it", node=node.name, op=node.op)
        self.readers.append((node, tensor))
        return []


def _upper(node: Node) -> float | None:
    """The upper bound of a Relu or a Clip from zero, infinite where it has none; None for other nodes."""
    if node.domain or node.op not in ("Relu", "Clip"):
        return None
    if node.op == "Relu":
        return np.inf
    low, high = (
        (node.attr("min"), node.attr("max"))
        if node.opset < _BOUNDS_ARE_INPUTS
        else map(_bound, node.operands(3)[1:])
    )
    if low is None or low != 0 or high is None or np.isnan(high) or high <= 0:
        return None
    return float(high)


def _bound(tensor: Tensor | None) -> float | None:
    """A bound: infinite where it is left out, None where it is computed."""
    if tensor is None:
        return np.inf
    value = tensor.scalar
    return None if value is None else float(value)
