"""What is doubtful about the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnxq.checks import Check, Evidence, Said, check, stated
from onnxq.data.model_scaling import ModelScaling, model_scaling
from onnxq.data.warnings import DataWarning

_SEEN = "onnxq data MODEL SAMPLES"

UNITS = stated("input-units", needs="data", command=_SEEN)
PIXELS = stated("input-pixels", needs="data", severity="note", command=_SEEN)
ORDER = stated("channel-order", needs="data", command=_SEEN)
YUV = stated("yuv-input", needs="data", command=_SEEN)

_CHECK_OF = {
    "units": UNITS, "unnormalized": UNITS, "normalized-twice": UNITS, "channel-order": ORDER, "yuv": YUV,
}  # fmt: skip


@check("doubtful-data", needs="data", command=_SEEN)
def doubtful_data(evidence: Evidence) -> Iterator[Said]:
    """Units, the order of channels, YUV, and samples that are equal, constant or bad."""
    scales = model_scaling(evidence.original)
    for doubt in evidence.doubts:
        if doubt.kind != "few-samples":
            yield Said(
                reason=doubt.text, advice=doubt.hint, tensor=doubt.input or "",
                consequence="scales are taken of what the model never sees in use",
                check=_check_of(doubt, scales),
            )  # fmt: skip


def _check_of(doubt: DataWarning, scales: Mapping[str, ModelScaling]) -> Check | None:
    """The check of a doubt, None for this one.

    That pixels are wrong is a guess where the model does not scale them itself.
    """
    if doubt.kind == "unnormalized" and doubt.input not in scales:
        return PIXELS
    return _CHECK_OF.get(doubt.kind)
