"""The section on the task: how many of the float model's answers are kept, or that it is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.analysis.answers import AnswersLost
from onnxq.cli.pages.words import counted
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.task.meter import TaskPart

_WIDE = 200


def answers_alarm(page: Page, lost: AnswersLost | None) -> None:
    """Says before all else that too few answers are kept, why, and what mends it."""
    if lost is not None and lost.sure:
        page.alarm(lost.said)
        _mended(page, lost)


def _mended(page: Page, lost: AnswersLost) -> None:
    page.entry(lost.why, style="yellow")
    if lost.command:
        page.entry("layers are left in float until enough are kept by", style="yellow")
        page.code(lost.command)


def task_section(page: Page, task: TaskPart | None, lost: AnswersLost | None = None) -> None:
    """What is kept of the answers of the model's task; nothing where outputs were not compared.

    Args:
        page: the screen.
        task: what was measured.
        lost: that too few are kept; it is told here where few samples say so.
    """
    if task is None:
        return
    if not task.figures:
        page.section("Task", f"not known: {shorten(task.why, _WIDE)}", "dim")
        page.entry("--task says what the model is for: docs/tasks.md", style="dim")
        return
    for number, figure in enumerate(task.figures):
        page.section("Task" if number == 0 else "", figure.said)
    if lost is not None and not lost.sure:
        page.entry("that is few; more samples tell it better", style="yellow")
        _mended(page, lost)
    labels = task.labels
    if labels is not None:
        for by in labels.figures:
            page.entry(f"by the labels, {by.said}")
        without = f", {labels.without} have none and do not count" if labels.without else ""
        page.entry(
            f"{counted(labels.samples, 'sample')} labelled{without}",
            style="" if labels.samples else "yellow",
        )
    if not task.stated:
        page.entry(f"found in the graph, {task.why}: --task {shorten(task.layout, _WIDE)}")
