"""One scale for a weight whose channels need different ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Evidence, Fact, check
from onnxq.checks.limits import APART, CHANNELS, WEAK_CHANNELS
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.pairs import NOTHING, pair_of


@check("weight-scale", needs="data")
def weight_scales(evidence: Evidence) -> Iterator[Fact]:
    """Weights with one scale, of whose channels many are left with few codes."""
    readers: dict[str, list[Layer]] = {}
    ranges: dict[str, tuple[np.ndarray, float]] = {}
    for node in evidence.nodes:
        layer = layer_of(node, quantized=True)
        measured = _ranges(evidence, layer) if layer is not None else None
        if layer is not None and measured is not None:
            name, own, whole = measured
            readers.setdefault(name, []).append(layer)
            ranges[name] = own, whole
    for name, layers in readers.items():
        own, whole = ranges[name]
        used = own[own > 0]
        weak = int((used < whole / APART).sum())
        if len(used) < CHANNELS or weak < WEAK_CHANNELS * len(used):
            continue
        yield Fact(
            "weight-scale" if len(layers) == 1 else "weight-scale.shared",
            (layers[0].node.name, layers[0].node.op, name),
            {
                "channels": len(own), "name": name, "layers": len(layers), "least": used.min(),
                "most": used.max(), "command": evidence.command, "weak": weak,
            },
        )  # fmt: skip


def _ranges(evidence: Evidence, layer: Layer) -> tuple[str, np.ndarray, float] | None:
    """A weight with one scale: its name, the range of each channel, and what the scale covers."""
    pair = pair_of(layer.weight, NOTHING)
    if layer.weight.is_constant:
        site = next((s for s in evidence.plan.sites if s.tensor == layer.weight.name), None)
        if evidence.own_pairs or site is None or site.axis is not None or site.kind != "weight":
            return None
        name, values, step, greatest = layer.weight.name, layer.weight.constant, 0.0, 0
    elif pair is not None and pair.codes is not None:
        codes, scales = pair.codes, pair.scales
        if scales is None or scales.size != 1 or codes.constant is None:
            return None
        name, values, step = codes.name, codes.constant, float(scales.reshape(-1)[0])
        greatest = evidence.plan.usual.greatest if pair.format is None else pair.format.greatest
    else:
        return None
    if values is None or values.ndim <= layer.axis:
        return None
    others = tuple(axis for axis in range(values.ndim) if axis != layer.axis)
    own = np.abs(values.astype(np.float64)).max(axis=others) * (step or 1.0)
    return name, own, greatest * step if step else float(own.max(initial=0.0))
