"""Residual: a sum reads a tensor as it is, in the place of the int8 that layers read.

A sum that reads a pair which layers need anyway moves fewer bytes, and carries the pair's rounding past all
that follows: in a transformer with norms behind its sums, into every block to come. In float it costs what a
kernel writes and reads more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.base.reason import Reason
from onnxq.draft.draft import Draft
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import Edge, QuantPlan

SUMS = ("Add", "Sub", "Sum")

IN_FLOAT = Reason("residual", "it reads a sum's operand as it is: in int8 the outputs lose by it", "repair")

_READ, _WRITTEN = (
    1,
    2,
)  # bytes of an element that a layer reads as int8, of one that it writes in half precision
_OWN = (
    *WEIGHTED, "AveragePool", "GlobalAveragePool", "GroupNormalization", "InstanceNormalization",
    "LayerNormalization", "MaxPool", "RMSNormalization", "Softmax",
)  # fmt: skip
"""What has a kernel of its own, in half precision where it is not in int8; others are fused with these."""

_MORE_BYTES = 3  # of an element that is written in half precision beside int8, and read so by the sum


@dataclass(frozen=True, slots=True)
class ResidualSums:
    """The sums that read pairs.

    Attributes:
        edges: their inputs that do, by the name of the node.
        costs: the bytes that the engine moves more with one in float, a share of what it moves.
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
    nodes = {node.name: node for node in model.graph.nodes}
    layers = set(plan.planned)
    edges: dict[str, tuple[Edge, ...]] = {}
    extra: dict[str, float] = {}
    skipped: dict[str, str] = {}
    moved, tensors = _moved(model, layers), model.graph.tensors()
    for site in plan.sites:
        if site.kind != "activation" or not any(edge.node in layers for edge in site.readers):
            continue
        size = _elements(Tensor(model, tensors[site.tensor])) if site.tensor in tensors else None
        for edge in site.readers:
            node = nodes.get(edge.node)
            if node is None or node.op not in SUMS or node.domain:
                continue
            if size is None or moved is None:
                skipped[edge.node] = f"the size of {site.tensor!r} is not known"
                continue
            edges[edge.node] = (*edges.get(edge.node, ()), edge)
            extra[edge.node] = extra.get(edge.node, 0.0) + _MORE_BYTES * size
    partners = {name: plan.with_partners([name]) & layers for name in edges}
    for name in [name for name, others in partners.items() if others]:
        skipped[name] = "layers are in int8 with it only"
        del edges[name]
    costs = {name: extra[name] / moved for name in edges} if moved else {}
    return ResidualSums(edges, costs, skipped)


def there(model: Model, draft: Draft) -> bool:
    """Whether anything is found."""
    return bool(find(model, draft.plan).edges)


def _moved(model: Model, layers: set[str]) -> float | None:
    """Bytes of activations that kernels move, about; None where a size of int8 layers is not known."""
    total = 0
    for raw in model.graph.nodes:
        if raw.name not in layers and (raw.op not in _OWN or raw.domain):
            continue
        node = Node(model, raw)
        reads = [t for t in node.inputs if t is not None and not t.is_constant]
        sizes = [_elements(tensor) for tensor in (*reads, node.outputs[0])]
        elements = [size for size in sizes if size is not None]
        if len(elements) == len(sizes):
            total += (
                sum(elements[:-1]) * (_READ if raw.name in layers else _WRITTEN) + elements[-1] * _WRITTEN
            )
        elif raw.name in layers:
            return None
    return total or None


def _elements(tensor: Tensor) -> int | None:
    shape = tensor.typical_shape
    numbers = [size for size in shape or () if isinstance(size, int)]
    return math.prod(numbers) if shape is not None and len(numbers) == len(shape) else None
