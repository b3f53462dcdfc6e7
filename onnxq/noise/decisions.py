"""What a file can leave in float, what that removes, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onnxq.base.errors import UserError, unknown_name
from onnxq.graph.model import Model
from onnxq.noise.sources import Sources
from onnxq.quant.plan import QuantPlan
from onnxq.quant.wants import Wants

Unit = Literal["macs", "bytes"]

_ELEMENT = 64  # MACs that an element costs of what is no layer: what it moves, not what it multiplies
_WIDER = 3  # bytes that an element of float32 has more than one of int8


@dataclass(frozen=True, slots=True)
class FloatDecision:
    """Something that can be left in float.

    Attributes:
        nodes: names of the nodes that are asked for; their partners go along.
        removes: the tensor whose pair goes because all that need it are float; "" where a layer is meant.
    """

    nodes: tuple[str, ...]
    removes: str = ""


def decisions_of(plan: QuantPlan, sources: Sources) -> list[FloatDecision]:
    """All decisions of a plan: each layer that is in int8, and each pair that several nodes keep.

    Not those of which the model itself quantizes an operand: its own pairs stay.
    """
    read = {(edge.node, edge.input) for pair in plan.pairs for edge in pair.readers}
    free = {x.node for x in plan.layers if x.quantized and {(x.node, 0), (x.node, 1)} <= read}
    decisions = [FloatDecision((x.node,)) for x in plan.layers if x.node in free]
    seen = {frozenset(decision.nodes) for decision in decisions}
    order = {name: place for place, name in enumerate(sources.nodes)}
    layers = {x.node for x in plan.layers}
    of_tensor: dict[str, set[str]] = {}
    for source in sources.entries:
        if source.kind != "block":
            for tensor in source.tensors:
                chosen = of_tensor.setdefault(tensor, set())
                for want in source.wants:  # a layer of each, which takes the others along
                    chosen.add(min(want, key=lambda node: (node not in free, order[node])))
    for tensor, nodes in of_tensor.items():
        if len(nodes) > 1 and frozenset(nodes) not in seen and not nodes & layers - free:
            seen.add(frozenset(nodes))
            decisions.append(FloatDecision(tuple(sorted(nodes, key=order.__getitem__)), tensor))
    return decisions


class Costs:
    """What nodes cost in float.

    Attributes:
        unit: `macs`, `bytes` or `given`.
    """

    def __init__(self, plan: QuantPlan, costs: Mapping[str, float], unit: str) -> None:
        """Costs by node; `of` and `given` make them."""
        self._wants, self._costs, self.unit = Wants(plan), dict(costs), unit
        mean = _mean(x.macs for x in plan.layers if x.quantized)
        self._macs = {x.node: mean if x.macs is None else x.macs for x in plan.layers if x.quantized}

    @staticmethod
    def of(plan: QuantPlan, model: Model, unit: Unit = "macs") -> Costs:
        """By multiply-accumulates, or by the bytes that a node reads more in float32 than in int8.

        What is no layer costs 64 MACs an element that it reads. What is not known is the mean of what is.
        """
        macs = {layer.node: layer.macs for layer in plan.layers}
        read = {(edge.node, edge.input) for pair in plan.pairs for edge in pair.readers}
        costs: dict[str, float | None] = {}
        for node in model.nodes:
            sizes = [
                _size(t.shape) for i, t in enumerate(node.inputs) if t is not None and (node.name, i) in read
            ]
            if not sizes:
                continue
            elements = None if None in sizes else sum(filter(None, sizes))
            if unit == "bytes":
                costs[node.name] = None if elements is None else float(elements * _WIDER)
            elif node.name in macs:
                costs[node.name] = macs[node.name]
            else:
                costs[node.name] = None if elements is None else float(elements * _ELEMENT)
        mean = _mean(costs.values())
        return Costs(plan, {n: mean if c is None else c for n, c in costs.items()}, unit)

    @staticmethod
    def given(plan: QuantPlan, costs: Mapping[str, float]) -> Costs:
        """By node, in any unit; others cost nothing.

        Raises:
            UserError: a name is no node that the plan quantizes, or a cost is negative or not finite.
        """
        for name, cost in costs.items():
            if name not in plan.readers:
                raise unknown_name("quantized node", name, sorted(plan.readers))
            if not (isinstance(cost, (int, float)) and math.isfinite(cost) and cost >= 0):
                raise UserError(
                    f"the cost of node {name!r} is {cost!r}", hint="give a number that is not negative"
                )
        return Costs(plan, costs, "given")

    def cost(self, floats: Collection[str]) -> float:
        """What a set of nodes, and those that go along, cost."""
        return float(sum(self._costs.get(name, 0.0) for name in sorted(self.along(floats))))

    def share(self, floats: Collection[str]) -> float:
        """Which share of the MACs that are in int8 they take to float, 0 to 1."""
        total = sum(self._macs.values())
        taken = sum(self._macs.get(name, 0.0) for name in sorted(self.along(floats)))
        return taken / total if total else 0.0

    def along(self, floats: Collection[str]) -> frozenset[str]:
        """Nodes, and those that go to float with them."""
        return self._wants.along(floats)

    def of_node(self, name: str) -> tuple[float, float]:
        """What one node costs, and its share."""
        total = sum(self._macs.values())
        return self._costs.get(name, 0.0), self._macs.get(name, 0.0) / total if total else 0.0


def _mean(costs: Iterable[float | None]) -> float:
    """The mean of what is known; 1 where nothing is."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(known) if known else 1.0


def _size(shape: Sequence[object] | None) -> int | None:
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    return math.prod(dim for dim in shape if isinstance(dim, int))
