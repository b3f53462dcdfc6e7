"""Scales for ranges that hardly a value reaches."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Said, check, keep_float
from onnxq.checks.limits import FAR, GAIN_DB, POOR_DB
from onnxq.quant.thresholds import Method
from onnxq.quant.thresholds import threshold as threshold_by

_PERCENTILE = Method("percentile", 99.99)


@check("far-range", needs="data", is_cause=True)
def far_ranges(evidence: Evidence) -> Iterator[Said]:
    """Tensors that lose much to a range that hardly a value reaches."""
    for name, threshold, stats in evidence.quantized:
        usual = threshold_by(stats, _PERCENTILE)
        if not usual or stats.amax < FAR * usual or threshold < FAR / 2 * usual:
            continue
        now, own = evidence.db(name, threshold), evidence.db(name, evidence.best(name))
        if now >= POOR_DB:
            continue
        (node, op), codes = evidence.reader(name), evidence.greatest(name)
        advice = f"choose scales by the error, not by the range: {evidence.command} --method mse"
        if own - now < GAIN_DB:
            advice = (
                f"where those beyond do not matter, saturate them: {evidence.command} --method percentile"
            )
            if layers := evidence.layers_behind(name):
                advice += f"; where they do, leave what reads it in float: {keep_float(evidence, layers)}"
        yield Said(
            node, op,
            f"{name!r} reaches {stats.amax:.4g}, 99.99 % of its values are within {usual:.4g}, and its scale "
            f"covers {threshold:.4g}",
            advice,
            tensor=name,
            consequence=f"those have {codes * usual / threshold:.1f} of the {codes} codes of a side: "
            f"{now:.1f} dB",
            db=now,
        )  # fmt: skip
