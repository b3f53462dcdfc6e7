"""Which edits are left where some layers may not be changed so."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from onnxq.base.reached import reached
from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.quant.plan import QuantPlan
from onnxq.repair.found_edits import FoundEdits


def permitted(proposed: FoundEdits, model: Model, plan: QuantPlan, barred: Collection[str]) -> FoundEdits:
    """What is proposed, but for edits around layers that may not be changed so.

    Args:
        proposed: the edits.
        model: that they are of.
        plan: its plan.
        barred: the names of those layers.
    """
    if not barred:
        return proposed
    layers, tensors = {layer.node for layer in plan.layers}, model.tensors()
    out = {
        edit.tensor: reason("barred")
        for edit in proposed.edits
        if not _around(tensors[edit.tensor], layers).isdisjoint(barred)
    }
    edits = tuple(edit for edit in proposed.edits if edit.tensor not in out)
    return replace(proposed, edits=edits, skipped={**proposed.skipped, **out})


def of_even(proposed: FoundEdits, plan: QuantPlan) -> FoundEdits:
    """What is proposed for evenly spaced numbers, but for edits of tensors that are quantized to others."""
    others = {site.tensor: site.format for site in plan.sites if not site.numbers.even}
    out = {
        edit.tensor: reason("uneven", format=others[edit.tensor])
        for edit in proposed.edits
        if edit.tensor in others
    }
    edits = tuple(edit for edit in proposed.edits if edit.tensor not in out)
    return replace(proposed, edits=edits, skipped={**proposed.skipped, **out})


def _around(tensor: Tensor, layers: Collection[str]) -> set[str]:
    """The layers around a tensor: those that make it, and those that read it, with others between them."""

    def before(place: Tensor) -> Iterable[Tensor]:
        node = place.producer
        return () if node is None or node.name in layers else filter(None, node.inputs)

    def behind(place: Tensor) -> Iterable[Tensor]:
        return (out for node in place.users if node.name not in layers for out in node.outputs)

    makers = (place.producer for place in reached([tensor], before))
    readers = (node for place in reached([tensor], behind) for node in place.users)
    return {node.name for node in (*makers, *readers) if node is not None and node.name in layers}
