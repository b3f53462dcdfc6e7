"""The section on the task: how many of the float model's answers are kept, or that it is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.base.shown import assumed
from onnxq.cli.pages.words import counted, say
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.task.meter import TaskPart

_WIDE = 200


def task_section(page: Page, task: TaskPart | None) -> None:
    """What is kept of the answers of the model's task; nothing where outputs were not compared.

    Args:
        page: the screen.
        task: what was measured.
    """
    if task is None:
        return
    if not task.figures:
        page.section("Task", f"not known: {shorten(task.why, _WIDE)}", "dim")
        likely = say("task.likely", layout=shorten(task.ask, _WIDE)) if task.ask else ""
        page.entry(likely + say("task.stated"), style="dim")
        return
    page.sections("Task", (figure.said for figure in task.figures))
    labels = task.labels
    if labels is not None:
        for by in labels.figures:
            page.entry(f"by the labels, {by.said}")
        without = f", {say('task.unlabelled', count=labels.without)}" if labels.without else ""
        page.entry(
            f"{counted(labels.samples, 'sample')} labelled{without}",
            style="" if labels.samples else "yellow",
        )
    if not task.stated:
        flag = f"--task {shorten(task.layout, _WIDE)}"
        page.entry(say("task.graph", why=task.why, assumed=assumed(flag)))
