"""Checks with causes: what in a model, its plan and its data costs accuracy or speed, and what to do.

Each check is a function of what is known (`evidence.Evidence`) that gives findings; which ones there are
stands in `CAUSES` and `OTHERS`, how bad they are in `onnxq.finding`, from where on they speak in `limits.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.analysis.checks import (
    addends,
    boxes,
    channels,
    floats,
    fusion,
    joins,
    modes,
    outputs,
    samples,
    shared,
    tails,
    types,
    weights,
)
from onnxq.analysis.checks.evidence import Check, Evidence
from onnxq.finding import Finding, failed_check

__all__ = ["CAUSES", "OTHERS", "Check", "Evidence", "found_by_data"]

CAUSES: Mapping[str, Check] = {
    "boxes-with-scores": boxes.boxes_with_scores,
    "concat-ranges": joins.concat_ranges,
    "shared-scale": shared.shared_scales,
    "bimodal": modes.bimodal,
    "scale-misfit": tails.misfits,
    "far-range": tails.far_ranges,
    "outlier-channel": channels.outlier_channels,
}
"""Why the scale of a tensor does not suit it: of each tensor the first that applies is told."""

OTHERS: Mapping[str, Check] = {
    "unfused": fusion.unfused,
    "add-ranges": addends.add_ranges,
    "weight-scale": weights.weight_scales,
    "heavy-float": floats.heavy_floats,
    "coarse-output": outputs.coarse_outputs,
    "odd-type": types.odd_types,
    "few-samples": samples.few_samples,
    "doubtful-data": samples.doubtful_data,
}
"""All others."""


def found_by_data(evidence: Evidence) -> list[Finding]:
    """What all checks find. A fault of ours in one of them is a note, and costs none of the others."""
    found: list[Finding] = []
    told: set[str] = set()
    for name, check in (*CAUSES.items(), *OTHERS.items()):
        try:
            new = list(check(evidence))
        except Exception as error:
            new = [failed_check(name, error)]
        if name in CAUSES:
            new = [one for one in new if not one.tensor or one.tensor not in told]
            told |= {one.tensor for one in new}
        found += new
    return found
