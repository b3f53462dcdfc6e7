"""How well the data settle the scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Evidence, Said, check
from onnxq.checks.limits import CONFIDENCE, WIDE
from onnxq.data.warnings import ENOUGH

_OF_STREAM = ENOUGH * 3 // 4  # calibrate of `ENOUGH` that are read once: two eighths choose and verify


@check("few-samples", needs="data", command="onnxq data MODEL SAMPLES")
def few_samples(evidence: Evidence) -> Iterator[Said]:
    """Too few samples, with the scale that they leave most open."""
    doubt = next((one for one in evidence.doubts if one.kind == "few-samples"), None)
    count = evidence.samples if evidence.count is None else evidence.count
    enough = _OF_STREAM if evidence.count is None else ENOUGH
    if doubt is None and not 0 < count < enough:
        return
    text = f"{count} samples: {ENOUGH} or more are wanted to calibrate" if doubt is None else doubt.text
    widest, ends = "", (1.0, 1.0)
    for name, _, stats in evidence.quantized:
        amaxes = stats.amaxes
        if len(amaxes) and amaxes.max() > 0:
            low, high = interval(amaxes, CONFIDENCE)
            if low > 0 and high / low > ends[1] / ends[0]:
                widest, ends = name, (low, high)
    consequence = f"the chance that the next sample exceeds a range is 1 in {evidence.samples + 1}"
    if ends[1] / ends[0] >= WIDE:
        consequence = (
            f"the range of {widest!r} lies between {ends[0]:.4g} and {ends[1]:.4g} with {CONFIDENCE:.0%} "
            f"confidence, a factor of {ends[1] / ends[0]:.2f}; {consequence}"
        )
    yield Said(
        reason=text, advice="give some hundreds that are typical of what the model is used on",
        tensor=widest, consequence=consequence,
    )  # fmt: skip


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
