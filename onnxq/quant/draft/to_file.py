"""A draft written down: a plan file, which states it so that it can be read again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from onnxq.base.reason import noted
from onnxq.graph.model import Model
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.draft.draft import Draft
from onnxq.quant.plan import QuantPlan, ScaleGroup, Site
from onnxq.quant.plan_file import (
    BodyEntry,
    BodyType,
    GroupEntry,
    LayerEntry,
    PlanFile,
    RepairEntry,
    TensorEntry,
    WeightEntry,
)
from onnxq.quant.ranges import Range
from onnxq.quant.scales import weight_amax
from onnxq.quant.weights import Weights


def file_of(
    draft: Draft, model: Model, head: PlanFile, post_scaled: Collection[str] = (), *, settled: bool = True
) -> PlanFile:
    """The file that states a draft, in the order of the model.

    Args:
        draft: the draft; measured tensors without a range have no amax.
        model: the float model, with its edits.
        head: a file that says nothing of a draft.
        post_scaled: names of the layers with one weight scale, and its ratios behind the product.
        settled: whether it is decided what stays float32.
    """
    plan = draft.plan
    weights = {**_amax_of_weights(plan, model), **draft.patches.amax}
    groups = {group.id: group for group in plan.groups}
    activations = [site for site in plan.sites if site.kind == "activation"]
    of_names = {site.tensor: site for site in reversed(activations)}  # with one range in several formats
    tensors = [_tensor_entry(site, groups[site.group], draft.ranges) for site in [*of_names.values()][::-1]]
    used = [groups[number] for number in dict.fromkeys(site.group for site in activations)]
    unread = {name for group in used for name in group.sources}.difference(s.tensor for s in activations)
    tensors += [
        TensorEntry(name, entry.amax, because=str(entry.because), note=noted("plan-written.group-alone"))
        for name, entry in draft.ranges.items()
        if name in unread
    ]
    patches = draft.patches
    return replace(
        head,
        layers=_layer_entries(plan, [(node.name, node.op) for node in model.nodes], post_scaled),
        tensors=tuple(tensors),
        groups=tuple(GroupEntry(one.tensors, one.reasons) for one in used if len(one.tensors) > 1),
        weights=tuple(_weight_entry(site, weights) for site in plan.sites if site.kind == "weight"),
        body=_body_entry(draft.body, settled=settled),
        repair=RepairEntry(
            tuple({"kind": edit.kind, **edit.to_dict()} for edit in draft.edits),
            patches.biases,
            patches.constants,
            patches.codes,
        ),
    )


def _body_entry(body: BodyPlan, *, settled: bool) -> BodyEntry:
    kind: BodyType = body.kind or body.unchanged
    io: BodyType = kind if body.io else "own" if body.half else "fp32"
    decision = body.decision
    stays = body.asked if decision is None else decision.stays
    float32 = {name: str(why) for name, why in stays.items()}
    if decision is None:
        return BodyEntry(kind, io, body.form, settled, float32=float32)
    wide = decision.float32_io if body.io else ()
    return BodyEntry(kind, io, body.form, settled, decision.masks, wide, float32)


def _layer_entries(
    plan: QuantPlan, nodes: Iterable[tuple[str, str]], post_scaled: Collection[str]
) -> tuple[LayerEntry, ...]:
    kept = {entry.node: str(entry.because) for entry in plan.kept_float}
    layers = {layer.node: layer for layer in plan.layers}
    inputs: dict[str, list[int]] = {}
    whys: dict[str, str] = {}
    formats: dict[str, str] = {}
    for pair in plan.pairs:
        for edge in pair.readers:
            formats.setdefault(edge.node, pair.format if isinstance(pair, Site) else plan.usual.name)
            inputs.setdefault(edge.node, []).append(edge.input)
            whys.setdefault(edge.node, "" if len(pair.readers) > 1 else str(pair.because))
    asked = plan.asked
    entries = []
    for node, op in nodes:
        layer = layers.get(node)
        note = "" if layer is None or layer.macs is None else f"{layer.macs:,} multiply-accumulates"
        if layer is not None and layer.quantized:
            scales = "post-scale" if node in post_scaled else ""
            words = layer.format, f"{op} runs in {layer.format}"
            entries.append(LayerEntry(node, op, *words, scales=scales, note=note))
        elif layer is not None or node in kept:
            half = tuple(sorted(inputs.get(node, ())))
            entries.append(LayerEntry(node, op, "float", kept.get(node, ""), half, note=note))
        elif node in inputs:
            format = formats[node]
            why = whys[node] or noted("plan-written.anyway", format=format)
            entries.append(LayerEntry(node, op, format, why, asked.get(node, ())))
    return tuple(entries)


def _tensor_entry(site: Site, group: ScaleGroup, ranges: Mapping[str, Range]) -> TensorEntry:
    readers = ", ".join(f"{edge.node}:{edge.input}" for edge in site.readers)
    note = f"read by {readers}: {site.because}"
    if site.tensor not in group.sources:
        return TensorEntry(site.tensor, note=noted("plan-written.repeats", note=note))
    measured = ranges.get(site.tensor)
    if measured is None:
        return TensorEntry(site.tensor, note=note)
    return TensorEntry(site.tensor, float(measured.amax), because=str(measured.because), note=note)


def _weight_entry(site: Site, weights: Mapping[tuple[str, int | None], np.ndarray]) -> WeightEntry:
    return WeightEntry(site.tensor, site.axis, weights.get((site.tensor, site.axis)), str(site.because))


def _amax_of_weights(plan: QuantPlan, model: Model) -> Weights:
    """The largest magnitudes of the constants that a plan quantizes; without those that are not finite."""
    tensors = model.tensors()
    weights: Weights = {}
    for site in plan.sites:
        if site.kind == "weight":
            values = tensors[site.tensor].constant
            assert values is not None
            with np.errstate(over="ignore"):
                amax = weight_amax(np.asarray(values, np.float32), site.axis)
            if np.isfinite(amax).all():
                weights[site.tensor, site.axis] = amax
    return weights
