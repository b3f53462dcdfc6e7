"""Checks: what the target does not take, what does not run as planned, and which layers are suspicious."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.analysis.reports import part_of
from onnxq.documents.body import BodyPart
from onnxq.documents.changes import NotTaken
from onnxq.documents.report import Report

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ChecksView:
    """The section.

    Attributes:
        checks: what the target does not take.
        more: how many are not listed.
        format: the number format of the run.
        missed: layers that were planned in it and do not run in it.
        float32: what stays float32 in the body, with the reason.
        suspicious: layers that an analysis finds suspicious.
    """

    checks: tuple[NotTaken, ...]
    more: int
    format: str
    missed: tuple[str, ...]
    float32: tuple[str, ...]
    suspicious: tuple[str, ...]


def checks_view(report: Report, suspicious: tuple[str, ...]) -> ChecksView | None:
    """What checks found; None for nothing.

    Args:
        report: the report.
        suspicious: layers that an analysis finds suspicious, with the causes.
    """
    unsupported, engine = report.unsupported, report.engine
    missed = engine.not_int8 if engine.status == "compiled" else ()
    float32 = tuple(
        f"{one.node} ({one.op}): {one.because}" for one in part_of(BodyPart, report.body).float32[:_SHOWN]
    )
    view = ChecksView(
        unsupported[:_SHOWN], max(0, len(unsupported) - _SHOWN), report.number_format, missed[:_SHOWN],
        float32, suspicious[:_SHOWN],
    )  # fmt: skip
    return view if unsupported or missed or float32 or suspicious else None
