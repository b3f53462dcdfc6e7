"""Models that onnxruntime does not take."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, check
from onnxq.checks.answers import RuntimeAnswer
from onnxq.checks.api import AT_NODE


@check(
    "runtime", needs="runtime",
    command=AT_NODE,
)  # fmt: skip
def runtime(answer: RuntimeAnswer) -> Iterator[Said]:
    """That it does not, and whether it takes the repair."""
    if answer.taken.original is None:
        return
    mended = answer.taken.result is None
    yield Said(
        reason=f"onnxruntime does not take it: {answer.taken.original}",
        advice="repairable: onnxq sanitize repairs it" if mended else "write the model otherwise",
        consequence="" if mended else "without it nothing is proved or calibrated",
    )
