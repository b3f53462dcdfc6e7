"""Two runs side by side: what `onnxq diff` finds, as a section."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.analysis.diff.compared import compare_reports
from onnxq.analysis.diff.rows import RunDifference
from onnxq.analysis.reports import OpenedReport
from onnxq.options.settings import Margins

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class RunDiffView:
    """The section.

    Attributes:
        other: the report that is compared with, and who wrote it.
        this: that of the page.
        counts: how many differences have each verdict, in words.
        lines: the differences, the worst first.
        more: how many are not listed.
        notes: what makes the comparison doubtful.
        missing: what is not compared.
    """

    other: str
    this: str
    counts: str
    lines: tuple[RunDifference, ...]
    more: int
    notes: tuple[str, ...]
    missing: tuple[str, ...]


def run_diff_view(other: OpenedReport, this: OpenedReport) -> RunDiffView:
    """What a run has otherwise than another one."""
    diff = compare_reports(other, this, Margins(), ())
    return RunDiffView(
        other=f"{diff.a.report} (onnxq {diff.a.onnxq})",
        this=f"{diff.b.report} (onnxq {diff.b.onnxq})",
        counts=", ".join(f"{count} {verdict}" for verdict, count in diff.counts.items() if count) or "none",
        lines=diff.differences[:_SHOWN],
        more=max(0, len(diff.differences) - _SHOWN),
        notes=diff.notes,
        missing=tuple(
            f"{one.part}: not in {one.of}{f' ({one.why})' if one.why else ''}" for one in diff.missing
        ),
    )
