"""Two runs side by side: what `onnxq diff` finds, as a section."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.analysis.diff.compared import compare_reports
from onnxq.analysis.diff.rows import Cell
from onnxq.analysis.reports import OpenedReport
from onnxq.options.settings import Margins
from onnxq.page.words import figure

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class RunDiffLine:
    """A difference.

    Attributes:
        verdict: "worse", "better", "other" or "within".
        part: what it is about.
        what: the figure or property.
        name: what it is of.
        other: in the run that is compared with.
        this: in the run of the page.
        change: the difference, with its unit.
        why: the reason.
    """

    verdict: str
    part: str
    what: str
    name: str
    other: str
    this: str
    change: str
    why: str


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
    lines: tuple[RunDiffLine, ...]
    more: int
    notes: tuple[str, ...]
    missing: tuple[str, ...]


def run_diff_view(other: OpenedReport, this: OpenedReport) -> RunDiffView:
    """What a run has otherwise than another one."""
    diff = compare_reports(other, this, Margins(), ())
    lines = tuple(
        RunDiffLine(
            row.verdict, row.part, row.what, row.name, _cell(row.a), _cell(row.b),
            "" if row.change is None else f"{row.change:+.4g} {row.unit}".strip(), row.why,
        )
        for row in diff.differences[:_SHOWN]
    )  # fmt: skip
    return RunDiffView(
        other=f"{diff.a.report} (onnxq {diff.a.onnxq})",
        this=f"{diff.b.report} (onnxq {diff.b.onnxq})",
        counts=", ".join(f"{count} {verdict}" for verdict, count in diff.counts.items() if count) or "none",
        lines=lines,
        more=max(0, len(diff.differences) - _SHOWN),
        notes=diff.notes,
        missing=tuple(
            f"{one.part}: not in {one.of}{f' ({one.why})' if one.why else ''}" for one in diff.missing
        ),
    )


def _cell(value: Cell) -> str:
    if isinstance(value, float):
        return figure(value)
    return "" if value is None else str(value)
