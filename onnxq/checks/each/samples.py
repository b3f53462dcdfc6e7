"""Data that could not be measured, are too few, or do not look as the model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from onnxq.checks import Evidence, Fact, check, stated
from onnxq.checks.limits import CONFIDENCE, WIDE
from onnxq.data.model_scaling import ModelScaling, model_scaling
from onnxq.data.warnings import ENOUGH, DataWarning


@check(
    "not-measured",
    needs="data",
    command="onnxq data MODEL SAMPLES",
)
def not_measured(evidence: Evidence) -> Iterator[Fact]:
    """Why nothing was measured."""
    if evidence.problem is not None:
        code = "not-measured.hinted" if evidence.problem.hint else "not-measured"
        yield Fact(code, values={"problem": str(evidence.problem), "hint": evidence.problem.hint})


_OF_STREAM = ENOUGH * 3 // 4  # calibrate of `ENOUGH` that are read once: two eighths choose and verify


@check("few-samples", needs="data", command="onnxq data MODEL SAMPLES")
def few_samples(evidence: Evidence) -> Iterator[Fact]:
    """Too few samples, with the scale that they leave most open."""
    doubt = next((one for one in evidence.doubts if one.kind == "few-samples"), None)
    count = evidence.samples if evidence.count is None else evidence.count
    enough = _OF_STREAM if evidence.count is None else ENOUGH
    if doubt is None and not 0 < count < enough:
        return
    widest, low, high = "", 1.0, 1.0
    for name, _, stats in evidence.quantized:
        amaxes = stats.amaxes
        if len(amaxes) and amaxes.max() > 0:
            least, most = interval(amaxes, CONFIDENCE)
            if least > 0 and most / least > high / low:
                widest, low, high = name, least, most
    code = "few-samples" if doubt is None else "few-samples.doubted"
    if high / low >= WIDE:
        code += ".open"
    yield Fact(
        code, ("", "", widest),
        {
            "samples": count, "enough": ENOUGH, "text": "" if doubt is None else doubt.text, "widest": widest,
            "low": low, "high": high, "confidence": CONFIDENCE, "factor": high / low,
            "draws": evidence.samples + 1,
        },
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


_SEEN = "onnxq data MODEL SAMPLES"

UNITS = stated("input-units", needs="data", command=_SEEN)
PIXELS = stated("input-pixels", needs="data", severity="note", command=_SEEN)
ORDER = stated("channel-order", needs="data", command=_SEEN)
YUV = stated("yuv-input", needs="data", command=_SEEN)

_ROWS = {
    "units": "input-units", "unnormalized": "input-units", "normalized-twice": "input-units",
    "channel-order": "channel-order", "yuv": "yuv-input",
}  # fmt: skip


@check("doubtful-data", needs="data", command=_SEEN)
def doubtful_data(evidence: Evidence) -> Iterator[Fact]:
    """Units, the order of channels, YUV, and samples that are equal, constant or bad."""
    scales = model_scaling(evidence.original)
    for doubt in evidence.doubts:
        if doubt.kind != "few-samples":
            values = {"text": doubt.text, "hint": doubt.hint}
            yield Fact(_row(doubt, scales), ("", "", doubt.input or ""), values)


def _row(doubt: DataWarning, scales: Mapping[str, ModelScaling]) -> str:
    """The row of a doubt.

    That pixels are wrong is a guess where the model does not scale them itself.
    """
    if doubt.kind == "unnormalized" and doubt.input not in scales:
        return "input-pixels"
    return _ROWS.get(doubt.kind, "doubtful-data")
