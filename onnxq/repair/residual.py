"""Residual: a sum reads a tensor as it is, in the place of the int8 that layers read.

A sum that reads a pair which layers need anyway moves fewer bytes, and carries the pair's rounding past all
that follows: in a transformer with norms behind its sums, into every block to come. In float it costs what a
kernel writes and reads more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.plan import Edge, QuantPlan
from onnxq.repair.engine_bytes import elements, engine_bytes

SUMS = ("Add", "Sub", "Sum")

IN_FLOAT = reason("residual", "repair")

_MORE_BYTES = 3  # of an element that is written in half precision beside int8, and read so by the sum


@dataclass(frozen=True, slots=True)
class ResidualSums:
    """The sums that read pairs.

    Attributes:
        edges: their inputs that do, by the name of the node.
        costs: the bytes that the engine moves more with one in float, a share of what plain float16 moves.
        skipped: those that are left, and why.
    """

    edges: Mapping[str, tuple[Edge, ...]]
    costs: Mapping[str, float]
    skipped: Mapping[str, str] = field(default_factory=dict)


def find(model: Model, plan: QuantPlan) -> ResidualSums:
    """The sums that could read in float what they read from pairs of layers.

    Args:
        model: the float model.
        plan: its plan.
    """
    nodes = {node.name: node for node in model.nodes}
    layers = set(plan.planned)
    edges: dict[str, tuple[Edge, ...]] = {}
    extra: dict[str, float] = {}
    skipped: dict[str, str] = {}
    moved, tensors = engine_bytes(model, QuantPlan()), model.tensors()
    for site in plan.sites:
        if site.kind != "activation" or not any(edge.node in layers for edge in site.readers):
            continue
        size = elements(tensors[site.tensor]) if site.tensor in tensors else None
        for edge in site.readers:
            node = nodes.get(edge.node)
            if node is None or node.op not in SUMS or node.domain:
                continue
            if size is None:
                skipped[edge.node] = reason("unknown-shape.size", tensor=site.tensor)
                continue
            edges[edge.node] = (*edges.get(edge.node, ()), edge)
            extra[edge.node] = extra.get(edge.node, 0.0) + _MORE_BYTES * size
    partners = {name: plan.with_partners([name]) & layers for name in edges}
    for name in [name for name, others in partners.items() if others]:
        skipped[name] = reason("in-float-with-layers")
        del edges[name]
    return ResidualSums(edges, {name: extra[name] / moved for name in edges}, skipped)


def there(model: Model, draft: Draft) -> bool:
    """Whether anything is found."""
    return bool(find(model, draft.plan).edges)
