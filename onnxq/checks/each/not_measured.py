"""Data that could not be run through the model."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check


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
