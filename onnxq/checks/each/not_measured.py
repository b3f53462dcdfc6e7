"""Data that could not be run through the model."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Said, check


@check(
    "not-measured",
    needs="data",
    command="onnxq data MODEL SAMPLES",
)
def not_measured(evidence: Evidence) -> Iterator[Said]:
    """Why nothing was measured."""
    if evidence.problem is not None:
        yield Said(
            reason=str(evidence.problem), advice=evidence.problem.hint or "check the data",
            consequence="no check that looks at values could say anything",
        )  # fmt: skip
