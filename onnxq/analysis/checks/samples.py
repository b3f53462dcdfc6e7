"""What is doubtful about the data, and how well they settle the scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnxq.analysis.checks.evidence import Evidence
from onnxq.analysis.checks.limits import CONFIDENCE, WIDE
from onnxq.analysis.checks.tails import interval
from onnxq.data.model_scaling import ModelScaling, model_scaling
from onnxq.data.warnings import ENOUGH, DataWarning
from onnxq.finding import Finding, finding

_OF_STREAM = ENOUGH * 3 // 4  # calibrate of `ENOUGH` that are read once: two eighths choose and verify
_CHECK_OF = {
    "units": "input-units", "unnormalized": "input-units", "normalized-twice": "input-units",
    "channel-order": "channel-order", "yuv": "yuv-input",
}  # fmt: skip


def few_samples(evidence: Evidence) -> Iterator[Finding]:
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
    yield finding(
        "few-samples", reason=text, advice="give some hundreds that are typical of what the model is used on",
        tensor=widest, consequence=consequence,
    )  # fmt: skip


def doubtful_data(evidence: Evidence) -> Iterator[Finding]:
    """Units, the order of channels, YUV, and samples that are equal, constant or bad."""
    scales = model_scaling(evidence.original)
    for doubt in evidence.doubts:
        if doubt.kind != "few-samples":
            yield finding(
                _check_of(doubt, scales), reason=doubt.text, advice=doubt.hint,
                tensor=doubt.input or "", consequence="scales are taken of what the model never sees in use"
            )  # fmt: skip


def _check_of(doubt: DataWarning, scales: Mapping[str, ModelScaling]) -> str:
    """The check of a doubt; that pixels are wrong is a guess where the model does not scale them itself."""
    if doubt.kind == "unnormalized" and doubt.input not in scales:
        return "input-pixels"
    return _CHECK_OF.get(doubt.kind, "doubtful-data")
