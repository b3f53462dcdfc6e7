"""What `onnxq report` shows of two runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxq.analysis.diff.rows import BETTER, OTHER, WITHIN, WORSE, RunDiff, RunDifference
from onnxq.cli.options import ALL_ROWS, ChoiceFlags
from onnxq.cli.pages.words import ROWS, counted, say
from onnxq.cli.screen import Page, shorten

_SHOWN = {WORSE: 10, BETTER: 4, OTHER: 10, WITHIN: 4}
_TITLES = {WORSE: "Worse", BETTER: "Better", OTHER: "Other", WITHIN: "Within"}
_STYLES = {WORSE: "red", BETTER: "green"}


def diff_page(diff: RunDiff, *, full: bool, choice: ChoiceFlags = ALL_ROWS) -> Page:
    """What a run has otherwise than another one.

    Args:
        diff: the difference.
        full: whether all rows are shown.
        choice: what they are of, where not all were asked for.
    """
    page = Page()
    page.head(f"{diff.a.report} -> {diff.b.report}")
    versions = f"onnxq {diff.a.onnxq}"
    if diff.a.onnxq != diff.b.onnxq:
        versions += f" -> {diff.b.onnxq}"
    margins = diff.margins
    db, points, percent = margins["margin_db"], margins["margin_points"], margins["margin_percent"]
    page.section("Judged", f"{versions}; {say('diff', db=db, points=points, percent=percent)}")
    for note in diff.notes:
        page.section("Note", note, "yellow")
    if not diff.differences:
        of = f" of {choice.said}" if choice.is_any else ""
        page.section("Same", f"{say('diff.same')}{of}")
    for verdict, title in _TITLES.items():
        rows = [row for row in diff.differences if row.verdict == verdict]
        if rows:
            _rows(page, title, rows, len(rows) if full else _SHOWN[verdict])
    page.section("Compared", ", ".join(diff.compared) or "nothing")
    for part in diff.missing:
        of = say("diff.neither") if part.of == "both" else f"report {part.of} lacks it"
        page.section("Missing", f"{part.part}: {of}{f' ({part.why})' if part.why else ''}")
    return page


def _rows(page: Page, title: str, rows: Sequence[RunDifference], shown: int) -> None:
    page.section(title, counted(len(rows), "difference"), _STYLES.get(rows[0].verdict, ""))
    for row in rows[:shown]:
        name = f" {shorten(row.name, 40)}" if row.name else ""
        page.entry(f"{row.part}  {row.what}{name}: {_change(row)}")
        if row.why:
            page.entry(shorten(row.why, 200), 2, "dim")
    page.more(len(rows) - shown, ROWS)


def _change(row: RunDifference) -> str:
    """What it was, what it is, by how much."""
    percent = row.unit == "points"
    text = f"{_cell(row.a, percent)} -> {_cell(row.b, percent)}"
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
