"""Which edits are left where some layers may not be changed so, and where a step does harm."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from onnxq.base.grouped import reached
from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.judge.output_parts import owner_of
from onnxq.judge.policies import STEP
from onnxq.quant.draft.draft import Draft
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


# A step without the layers that it does harm to: those that only outputs read which lose much with it.


def heads(model: Model, changes: Mapping[str, float]) -> dict[str, str]:
    """The tensors that only outputs read which lose too much, with why they are to stay as they are.

    Args:
        model: the float model.
        changes: by how much each output, or part of one, is nearer than before, dB.
    """
    names, lost = [out.name for out in model.outputs], dict[str, float]()
    for part, change in sorted(changes.items(), key=lambda item: -item[1]):  # the worst part says how much
        if change < -STEP.may_lose_db and (output := owner_of(part, names)) is not None:
            lost[output] = change
    behind = {out.name: {tensor.name for tensor in reached([out], _read)} for out in model.outputs}
    others = set().union(*(behind[name] for name in names if name not in lost))
    kept: dict[str, str] = {}
    for name in sorted(lost, key=lost.__getitem__, reverse=True):  # the worst output says why
        why = reason("head-loses", output=name, lost=-lost[name])
        kept.update(dict.fromkeys(behind[name] - others, why))
    return kept


def _read(place: Tensor) -> list[Tensor]:
    node = place.producer
    return [] if node is None else [tensor for tensor in node.inputs if tensor is not None]


def apart(draft: Draft, before: Draft, model: Model, kept: Mapping[str, str]) -> tuple[Draft, dict[str, str]]:
    """A draft whose new edits and fits leave some tensors as they are.

    Args:
        draft: what a step proposes.
        before: what it began with.
        model: the float model with the edits of the draft.
        kept: the tensors, with why they stay as they are.

    Returns:
        It, and which layers and edits are left out, with why; none where nothing else would be left.
    """
    new, fits = draft.edits[len(before.edits) :], draft.fitted - before.fitted
    left = [edit for edit in new if edit.tensor not in kept]
    skipped = {edit.tensor: kept[edit.tensor] for edit in new if edit.tensor in kept}
    if skipped:
        draft = replace(draft, edits=before.edits, ranges=before.ranges).extended(left)
    barred = dict(draft.barred)
    outputs = {node.name: node.outputs[0].name for node in model.nodes}
    fitted = [
        layer.node for layer in draft.plan.layers if layer.quantized and fits & draft.steps_of(layer.node)
    ]
    for node in fitted:
        if (why := kept.get(outputs.get(node, ""))) is not None:
            skipped[node] = why
            barred[node] = barred.get(node, frozenset()) | fits
    left_over = bool(left) or any(node not in skipped for node in fitted)
    return replace(draft, barred=barred), skipped if left_over else {}
