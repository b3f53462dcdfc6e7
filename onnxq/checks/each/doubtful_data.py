"""What is doubtful about the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnxq.checks import Evidence, Fact, check, stated
from onnxq.data.model_scaling import ModelScaling, model_scaling
from onnxq.data.warnings import DataWarning

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
