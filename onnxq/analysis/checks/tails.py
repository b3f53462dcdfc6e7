"""Scales for ranges that hardly a value reaches, and scales that do not suit the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.analysis.checks.evidence import Evidence, keep_float
from onnxq.analysis.checks.limits import CLIPPED, FAR, GAIN_DB, POOR_DB, UNUSED
from onnxq.calib.histogram import Histogram
from onnxq.finding import Finding, finding
from onnxq.quant.thresholds import Method
from onnxq.quant.thresholds import threshold as threshold_by

_PERCENTILE = Method("percentile", 99.99)


def far_ranges(evidence: Evidence) -> Iterator[Finding]:
    """Tensors that lose much to a range that hardly a value reaches."""
    for name, threshold, stats in evidence.quantized:
        usual = threshold_by(stats, _PERCENTILE)
        if not usual or stats.amax < FAR * usual or threshold < FAR / 2 * usual:
            continue
        now, own = evidence.db(name, threshold), evidence.db(name, evidence.best(name))
        if now >= POOR_DB:
            continue
        node, op = evidence.reader(name)
        advice = f"choose scales by the error, not by the range: {evidence.command} --method mse"
        if own - now < GAIN_DB:
            advice = (
                f"where those beyond do not matter, saturate them: {evidence.command} --method percentile"
            )
            if layers := evidence.layers_behind(name):
                advice += f"; where they do, leave what reads it in float: {keep_float(evidence, layers)}"
        yield finding(
            "far-range", node, op,
            f"{name!r} reaches {stats.amax:.4g}, 99.99 % of its values are within {usual:.4g}, and its scale "
            f"covers {threshold:.4g}",
            advice,
            tensor=name,
            consequence=f"those have {127 * usual / threshold:.1f} of the 127 codes of a side: {now:.1f} dB",
            db=now,
        )  # fmt: skip


def misfits(evidence: Evidence) -> Iterator[Finding]:
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
        fit = f"{clipped:.1%} of its values saturate" if clipped >= CLIPPED else f"{unused:.0f} times as much"
        yield finding(
            "scale-misfit", node, op,
            f"the scale of {name!r} covers {threshold:.4g}, and the data reach {stats.amax:.4g}: {fit}",
            "calibrate on data that are prepared as in use, and as these are: " + evidence.command,
            tensor=name,
            consequence=f"{lost[0]:.1f} dB to rounding; with {evidence.best(name):.4g} {lost[1]:.1f}",
            db=lost[0],
        )  # fmt: skip


def share_above(histogram: Histogram, threshold: float) -> float:
    """The share of the values whose bins begin above a magnitude."""
    above = histogram.edges[:-1] > threshold
    return float(histogram.counts[above].sum()) / max(histogram.total, 1)


def interval(amaxes: np.ndarray, confidence: float) -> tuple[float, float]:
    """The interval of the greatest magnitude of as many samples as there are, drawn from them anew.

    The greatest of n draws among n values is at most the k-th with the probability (k / n)^n.

    Args:
        amaxes: the greatest magnitude of each sample.
        confidence: the probability that it is within.

    Returns:
        Its ends; the upper one is the greatest that was seen.
    """
    ordered = np.sort(amaxes.astype(np.float64))
    place = int(np.ceil(len(ordered) * (1 - confidence) ** (1 / len(ordered))))
    return float(ordered[max(place, 1) - 1]), float(ordered[-1])
