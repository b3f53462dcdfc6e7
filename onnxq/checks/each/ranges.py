"""Why a scale does not suit a tensor: its values, or those that it shares the scale with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.calib.histogram import Histogram
from onnxq.checks import Evidence, Fact, check, keep_float
from onnxq.checks.evidence import Scaled
from onnxq.checks.limits import (
    APART,
    BETWEEN,
    CHANNELS,
    CLIPPED,
    DUST,
    FAR,
    GAIN_DB,
    LOWER_MODE,
    MODE,
    OUTLIER,
    OUTLIERS,
    POOR_DB,
    SCORE_CODES,
    UNUSED,
)
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import is_qdq
from onnxq.graph.view import Node, Tensor
from onnxq.quant.thresholds import Method
from onnxq.quant.thresholds import threshold as threshold_by

_SCORES = ("Sigmoid", "HardSigmoid", "Softmax")


def mixes_scores(evidence: Evidence, node: Node) -> tuple[str, str, float] | None:
    """The scores and the widest other input of a Concat under one scale, and its threshold."""
    if node.op != "Concat" or node.domain:
        return None
    scores = [source for source in node.inputs if source is not None and _is_score(source)]
    others = [source for source in node.inputs if source is not None and source not in scores]
    measured = [name for name in map(evidence.measured, others) if name is not None]
    if not scores or not measured:
        return None
    of_score = evidence.measured(scores[0]) or scores[0].name
    widest = max(measured, key=lambda name: evidence.tensors[name].amax)
    threshold = evidence.threshold(of_score)
    if threshold is None or threshold != evidence.threshold(widest):
        threshold = evidence.threshold(node.outputs[0].name)
    if (
        threshold is None
        or evidence.tensors[widest].amax < APART
        or evidence.greatest(of_score) / threshold >= SCORE_CODES
    ):
        return None
    return of_score, widest, threshold


def _is_score(tensor: Tensor) -> bool:
    """Whether values are from 0 to 1 by their operator, moved or rounded at most."""
    maker = tensor.producer
    while maker is not None and (is_qdq(maker) or (not maker.domain and maker.op in (*MOVES, "Cast"))):
        source = maker.inputs[0]
        maker = source.producer if source is not None else None
    return maker is not None and not maker.domain and maker.op in _SCORES


@check("boxes-with-scores", needs="data", is_cause=True)
def boxes_with_scores(evidence: Evidence) -> Iterator[Fact]:
    """Concats of scores and of what is much larger, under one scale."""
    for node in evidence.nodes:
        mixed = mixes_scores(evidence, node)
        if mixed is None:
            continue
        score, other, threshold = mixed
        values = 1 + int(evidence.greatest(score) / threshold + 0.5)
        yield Fact(
            "boxes-with-scores", (node.name, node.op, score),
            {
                "score": score, "other": other, "reach": evidence.tensors[other].amax, "values": values,
                "command": evidence.command, "step": threshold / evidence.greatest(score),
            },
        )  # fmt: skip


def _joined_inputs(evidence: Evidence, node: Node) -> dict[str, float]:
    """The measured inputs of a Concat under one scale, with its threshold."""
    if node.op != "Concat" or node.domain:
        return {}
    behind = node.outputs[0].name
    names = [name for source in node.inputs if (name := evidence.measured(source)) is not None]
    thresholds = {
        name: evidence.threshold(name) or evidence.threshold(behind) for name in dict.fromkeys(names)
    }
    usable = {name: threshold for name, threshold in thresholds.items() if threshold is not None}
    return usable if len(usable) > 1 and len(set(usable.values())) == 1 else {}


@check("concat-ranges", needs="data", is_cause=True)
def concat_ranges(evidence: Evidence) -> Iterator[Fact]:
    """Inputs of a Concat that the range of another one leaves few codes."""
    for node in evidence.nodes:
        inputs = _joined_inputs(evidence, node)
        if not inputs or mixes_scores(evidence, node):
            continue
        widest = max(inputs, key=lambda name: evidence.tensors[name].amax)
        for name, threshold in inputs.items():
            lost = evidence.loss(name, threshold) if name != widest else None
            if lost is None:
                continue
            yield Fact(
                "concat-ranges", (node.name, node.op, name),
                {
                    "name": name, "reach": evidence.tensors[name].amax,
                    "widest": widest, "widest_reach": evidence.tensors[widest].amax,
                    "command": keep_float(evidence, evidence.layers_behind(name)) or evidence.command,
                    "db": lost[0], "alone": lost[1],
                },
            )  # fmt: skip


_JOINS = (*MOVES, "Concat", "Cast")


@check(
    "shared-scale", needs="data", is_cause=True,
)  # fmt: skip
def shared_scales(evidence: Evidence) -> Iterator[Fact]:
    """Tensors that the range of another one leaves few codes, although nothing joins them."""
    for group in evidence.scaled:
        names = [name for name in group.tensors if evidence.histogram(name) is not None]
        if len(names) < 2:
            continue
        widest = max(names, key=lambda name: evidence.tensors[name].amax)
        joined = _joined(evidence, group)
        for name in names:
            lost = evidence.loss(name, group.threshold) if name != widest and name not in joined else None
            if lost is None:
                continue
            weight = min(_weights(evidence, name) & _weights(evidence, widest), default=None)
            node, op = evidence.reader(name)
            yield Fact(
                "shared-scale.called" if weight else "shared-scale", (node, op, name),
                {
                    "name": name, "reach": evidence.tensors[name].amax,
                    "widest": widest, "widest_reach": evidence.tensors[widest].amax,
                    "scale": f" ({group.scale!r})" if group.scale else "", "weight": weight,
                    "command": evidence.command, "db": lost[0], "alone": lost[1],
                },
            )  # fmt: skip


def _joined(evidence: Evidence, group: Scaled) -> set[str]:
    """The tensors of a group that a Concat, or what only moves values, has beside another one of them."""
    members, joined = set(group.tensors), set[str]()
    for node in evidence.nodes:
        if node.domain or node.op not in _JOINS:
            continue
        around = {evidence.measured(source) for source in node.inputs}
        around |= {out.name for out in node.outputs}
        if len(around & members) > 1:
            joined |= {name for name in around & members if name is not None}
    return joined


def _weights(evidence: Evidence, tensor: str) -> set[str]:
    """The constants that the products which read a tensor multiply it by."""
    weights = set[str]()
    for node in evidence.nodes:
        if node.op in ("Conv", "ConvTranspose", "Gemm", "MatMul") and not node.domain:
            data, weight = node.operands(2)
            if data is not None and weight is not None and evidence.measured(data) == tensor:
                weights.add(_constant(weight.producer) or weight.name)
    return weights


def _constant(maker: Node | None) -> str | None:
    """The constant that a dequantized weight comes from."""
    while maker is not None and is_qdq(maker) and maker.inputs[0] is not None:
        if maker.inputs[0].is_constant:
            return maker.inputs[0].name
        maker = maker.inputs[0].producer
    return None


@check("bimodal", needs="data", is_cause=True)
def bimodal(evidence: Evidence) -> Iterator[Fact]:
    """Tensors whose smaller mode has few codes under the scale of the larger one."""
    for name, threshold, stats in evidence.quantized:
        assert stats.histogram is not None
        modes = two_modes(stats.histogram)
        if modes is None or threshold < modes[1]:
            continue
        (low, high, share), most = modes, evidence.greatest(name)
        node, op = evidence.reader(name)
        yield Fact(
            "bimodal", (node, op, name),
            {
                "name": name, "low": low, "high": high, "share": share,
                "command": keep_float(evidence, evidence.layers_behind(name)) or evidence.command,
                "most": most, "codes": most * low / threshold,
            },
        )  # fmt: skip


def two_modes(histogram: Histogram) -> tuple[float, float, float] | None:
    """The end of the smaller mode, the begin of the larger one, and its share; None where there are not two.

    Zeros, and what is as good as zero, belong to neither. The modes are more than `APART`
    apart, and `BETWEEN` of the values at most are between them.
    """
    counts, edges = histogram.counts.astype(np.float64), histogram.edges
    counts[edges[1:] < DUST * edges[-1]] = 0
    total = counts.sum()
    if not total:
        return None
    below = np.concatenate([[0.0], np.cumsum(counts)]) / total  # at each edge
    tops = np.flatnonzero((1 - below >= MODE) & (below >= LOWER_MODE))  # where the larger mode may begin
    starts = np.searchsorted(below, below[tops] - BETWEEN, side="left")  # the least end of the smaller one
    ratios = np.where(below[starts] >= LOWER_MODE - BETWEEN, edges[tops] / edges[starts], 0.0)
    if not len(ratios) or ratios.max() < APART:
        return None
    place = int(np.argmax(ratios))
    top, start = int(tops[place]), int(starts[place])
    return float(edges[start]), float(edges[top]), float(1 - below[top]) * float(total) / histogram.total


@check("scale-misfit", needs="data", is_cause=True)
def misfits(evidence: Evidence) -> Iterator[Fact]:
    """Scales of the model's own pairs that saturate what there is, or cover much more."""
    if not evidence.own_pairs:
        return
    for name, threshold, stats in evidence.quantized:
        assert stats.histogram is not None
        clipped = share_above(stats.histogram, threshold)
        unused = threshold / stats.amax
        if clipped < CLIPPED and unused < UNUSED:
            continue
        lost = evidence.loss(name, threshold)
        if lost is None:
            continue
        node, op = evidence.reader(name)
        yield Fact(
            "scale-misfit.saturating" if clipped >= CLIPPED else "scale-misfit", (node, op, name),
            {
                "name": name, "threshold": threshold, "reach": stats.amax, "clipped": clipped,
                "unused": unused, "command": evidence.command, "db": lost[0],
                "best": evidence.best(name), "best_db": lost[1],
            },
        )  # fmt: skip


def share_above(histogram: Histogram, threshold: float) -> float:
    """The share of the values whose bins begin above a magnitude."""
    above = histogram.edges[:-1] > threshold
    return float(histogram.counts[above].sum()) / max(histogram.total, 1)


_PERCENTILE = Method("percentile", 99.99)


@check("far-range", needs="data", is_cause=True)
def far_ranges(evidence: Evidence) -> Iterator[Fact]:
    """Tensors that lose much to a range that hardly a value reaches."""
    for name, threshold, stats in evidence.quantized:
        usual = threshold_by(stats, _PERCENTILE)
        if not usual or stats.amax < FAR * usual or threshold < FAR / 2 * usual:
            continue
        now, own = evidence.db(name, threshold), evidence.db(name, evidence.best(name))
        if now >= POOR_DB:
            continue
        (node, op), codes = evidence.reader(name), evidence.greatest(name)
        layers = evidence.layers_behind(name)
        code = "far-range"
        if own - now < GAIN_DB:
            code = "far-range.kept" if layers else "far-range.clipped"
        yield Fact(
            code, (node, op, name),
            {
                "name": name, "reach": stats.amax, "usual": usual, "threshold": threshold,
                "command": evidence.command, "keep": keep_float(evidence, layers),
                "codes": codes * usual / threshold, "most": codes, "db": now,
            },
        )  # fmt: skip


@check("outlier-channel", needs="data", is_cause=True)
def outlier_channels(evidence: Evidence) -> Iterator[Fact]:
    """Tensors whose scale is spent on few channels."""
    for name, threshold, stats in evidence.quantized:
        if stats.channels is None or len(stats.channels.amax) < CHANNELS:
            continue
        amax = stats.channels.amax
        order = np.argsort(amax)[::-1]
        most = max(1, int(len(amax) * OUTLIERS))
        ratios = amax[order[:most]] / np.maximum(amax[order[1 : most + 1]], np.finfo(np.float32).tiny)
        count = int(np.argmax(ratios)) + 1
        rest = float(amax[order[count]])
        if not rest or float(amax[order[count - 1]]) < OUTLIER * rest or threshold < OUTLIER / 2 * rest:
            continue
        (node, op), codes = evidence.reader(name), evidence.greatest(name)
        listed = ", ".join(map(str, sorted(order[:count].tolist())[:4])) + ", ..." * (count > 4)
        yield Fact(
            "outlier-channel" if count == 1 else "outlier-channel.several", (node, op, name),
            {
                "listed": listed, "channels": len(amax), "name": name, "reach": float(amax[order[0]]),
                "rest": rest, "command": evidence.command, "codes": codes * rest / threshold, "most": codes,
            },
        )  # fmt: skip
