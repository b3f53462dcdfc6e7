"""Scales for ranges that hardly a value reaches."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check, keep_float
from onnxq.checks.limits import FAR, GAIN_DB, POOR_DB
from onnxq.quant.thresholds import Method
from onnxq.quant.thresholds import threshold as threshold_by

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
