"""What data show of layers: what is not fused, rounded away, or costs most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Evidence, Fact, check, keep_float, stated
from onnxq.checks.limits import APART, CHANNELS, FAINT_DB, HEAVY, OUTPUT_DB, WEAK_CHANNELS
from onnxq.graph.layers import Layer, layer_of, multiplies
from onnxq.graph.pairs import NOTHING, is_qdq, pair_of, pairs_of
from onnxq.graph.view import Node, Tensor

_FUSED = ("Relu", "Clip", "LeakyRelu", "BatchNormalization")


@check("unfused", needs="data")
def unfused(evidence: Evidence) -> Iterator[Fact]:
    """Activations behind a layer that a pair, or another reader of its result, keeps out of its kernel.

    The engine has the last word: what it fuses is none, and without it only pairs are told.
    """
    for node in evidence.original.nodes:
        if node.op not in _FUSED or node.domain:
            continue
        layer, passed = _layer(node)
        if layer is None:
            continue
        code, other = _cause(layer, node, passed)
        seen = _apart(evidence, layer.name, node.name)
        if not code or seen is False or (seen is None and not passed):
            continue
        yield Fact(
            code, (node.name, node.op, layer.outputs[0].name),
            {
                "op": node.op, "layer_op": layer.op, "layer": layer.name, "other": other,
                "command": evidence.command, "confirmed": seen,
            },
        )  # fmt: skip


def _layer(node: Node) -> tuple[Node | None, bool]:
    """The layer whose result a node reads, and whether a pair is between them."""
    passed = False
    source = node.inputs[0]
    while source is not None and source.producer is not None:
        maker = source.producer
        if not is_qdq(maker):
            return (maker if multiplies(maker) else None), passed
        passed, source = True, maker.inputs[0]
    return None, passed


def _cause(layer: Node, node: Node, passed: bool) -> tuple[str, str]:
    """What keeps them apart, as a row, and the other reader; a row "" where nothing does."""
    out = layer.outputs[0]
    if passed:
        return "unfused.paired", ""
    if out.is_output:
        return "unfused.output", ""
    other = next((user.name for user in out.users if user != node), None)
    return ("", "") if other is None else ("unfused.read", other)


def _apart(evidence: Evidence, layer: str, node: str) -> bool | None:
    """Whether two nodes are in kernels of their own; None where no kernel lists one of them."""
    if evidence.reading is None:
        return None
    kernels = [
        {one.name for one in evidence.reading.kernels if name in one.nodes and one.is_kernel}
        for name in (layer, node)
    ]
    return not (kernels[0] & kernels[1]) if all(kernels) else None


_BEHIND = ("Relu", "Clip")


@check("add-ranges", needs="data")
def add_ranges(evidence: Evidence) -> Iterator[Fact]:
    """Sums of two activations under a scale of whose steps the smaller one has few."""
    for node in evidence.nodes:
        if node.op != "Add" or node.domain:
            continue
        one, other = (evidence.measured(source) for source in node.operands(2))
        threshold = _of_sum(evidence, node)
        if one is None or other is None or one == other or threshold is None:
            continue
        small, large = sorted((one, other), key=lambda name: evidence.tensors[name].amax)
        left = evidence.db(small, threshold)
        if left >= FAINT_DB:
            continue
        readers = evidence.layers_behind(node.outputs[0].name)
        yield Fact(
            "add-ranges", (node.name, node.op, small),
            {
                "small": small, "large": large,
                "small_reach": evidence.tensors[small].amax, "large_reach": evidence.tensors[large].amax,
                "command": keep_float(evidence, readers) or evidence.command,
                "step": threshold / evidence.greatest(node.outputs[0].name), "db": left,
            },
        )  # fmt: skip


def _of_sum(evidence: Evidence, node: Node) -> float | None:
    """The magnitude of the largest code of a sum, or of what an activation makes of it."""
    tensor: Tensor = node.outputs[0]
    threshold = evidence.threshold(tensor.name)
    if threshold is None and len(tensor.users) == 1 and tensor.users[0].op in _BEHIND:
        threshold = evidence.threshold(tensor.users[0].outputs[0].name)
    return threshold


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


_FORMS = (".keep-float", ".keep-fp32", ".layer", ".plan", ".not-calibrated", ".no-pair", ".goal")
"""The reasons, by their codes, that something can be done about."""

INELIGIBLE = stated("heavy-ineligible", needs="data", severity="note")


@check("heavy-float", needs="data")
def heavy_floats(evidence: Evidence) -> Iterator[Fact]:
    """Layers of many multiply-accumulates that int8 does not make faster."""
    for layer in evidence.floats:
        if layer.share >= HEAVY:
            row, form = "heavy-float" if layer.eligible else "heavy-ineligible", f".{layer.code}"
            yield Fact(
                row + form * (form in _FORMS), (layer.node, layer.op),
                {"because": layer.because, "share": layer.share, "command": evidence.command},
            )  # fmt: skip


@check("coarse-output", needs="data")
def coarse_outputs(evidence: Evidence) -> Iterator[Fact]:
    """Quantized outputs of the model with much rounding noise."""
    for output in evidence.model.outputs:
        for pair in pairs_of(output):
            node, name = pair.node, evidence.measured(pair.codes)
            threshold = evidence.threshold(name) if name is not None else None
            if name is None or threshold is None:
                continue
            left = evidence.db(name, threshold)
            if left < OUTPUT_DB:
                yield Fact(
                    "coarse-output", (node.name, node.op, output.name),
                    {
                        "output": output.name, "format": evidence.numbers(name).name,
                        "command": evidence.command, "step": threshold / evidence.greatest(name), "db": left,
                    },
                )  # fmt: skip
