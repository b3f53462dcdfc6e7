"""What `onnxq report` shows of two runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxq.analysis.diff.rows import BETTER, OTHER, WITHIN, WORSE, RunDiff, RunDifference
from onnxq.cli.options import RowFlags
from onnxq.cli.pages.words import ROWS, counted, say
from onnxq.cli.screen import Page, shorten

_SHOWN = {WORSE: 10, BETTER: 4, OTHER: 10, WITHIN: 4}


def diff_page(diff: RunDiff, choice: RowFlags) -> Page:
    """What a run has otherwise than another one.

    Args:
        diff: the difference.
        choice: which rows were asked for, and whether all are shown.
    """
    page = Page()
    page.head(f"{diff.a.report} -> {diff.b.report}")
    versions, margins = " -> ".join(dict.fromkeys((diff.a.onnxq, diff.b.onnxq))), diff.margins
    db, points, percent = margins["margin_db"], margins["margin_points"], margins["margin_percent"]
    page.section("Judged", f"onnxq {versions}; {say('diff', db=db, points=points, percent=percent)}")
    for note in diff.notes:
        page.section("Note", note, "yellow")
    if not diff.differences:
        page.section("Same", say("diff.same") + (f" of {choice.said}" if choice.is_any else ""))
    for verdict, shown in _SHOWN.items():
        rows = [row for row in diff.differences if row.verdict == verdict]
        if rows:
            _rows(page, verdict.capitalize(), rows, len(rows) if choice.all_rows else shown)
    page.section("Compared", ", ".join(diff.compared) or "nothing")
    for part in diff.missing:
        of = say("diff.neither") if part.of == "both" else f"report {part.of} lacks it"
        page.section("Missing", f"{part.part}: {of}{f' ({part.why})' if part.why else ''}")
    return page


def _rows(page: Page, title: str, rows: Sequence[RunDifference], shown: int) -> None:
    page.section(
        title, counted(len(rows), "difference"), {WORSE: "red", BETTER: "green"}.get(rows[0].verdict, "")
    )
    for row in rows[:shown]:
        name = f" {shorten(row.name, 40)}" if row.name else ""
        page.entry(f"{row.part}  {row.what}{name}: {_change(row)}")
        if row.why:
            page.entry(shorten(row.why, 200), 2, "dim")
    page.more(len(rows) - shown, ROWS)


def _change(row: RunDifference) -> str:
    """What it was, what it is, by how much."""
    text = " -> ".join(_cell(value, row.unit == "points") for value in (row.a, row.b))
    if row.change is None or not math.isfinite(row.change):
        return text
    if row.unit == "ratio":
        return f"{text}, {row.change:.4g} times"
    if row.unit in ("dB", "points", "%"):
        return f"{text} ({row.change:+.3g} {row.unit})"
    return text


def _cell(value: str | int | float | bool | None, percent: bool) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return shorten(value, 60) or "none"
    if percent:
        return f"{100 * value:.2f} %"
    return f"{value:.6g}" if not float(value).is_integer() or abs(value) >= 1e15 else f"{value:.0f}"
