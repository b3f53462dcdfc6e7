"""Scales that do not suit the data."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.calib.histogram import Histogram
from onnxq.checks import Evidence, Fact, check
from onnxq.checks.limits import CLIPPED, UNUSED


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
