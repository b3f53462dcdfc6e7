"""Scales that do not suit the data."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.calib.histogram import Histogram
from onnxq.checks import Evidence, Said, check
from onnxq.checks.limits import CLIPPED, UNUSED


@check("scale-misfit", needs="data", is_cause=True)
def misfits(evidence: Evidence) -> Iterator[Said]:
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
        yield Said(
            node, op,
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
