"""Tensors with values of two sizes and none between them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.calib.histogram import Histogram
from onnxq.checks import Evidence, Fact, check, keep_float
from onnxq.checks.limits import APART, BETWEEN, DUST, LOWER_MODE, MODE


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
