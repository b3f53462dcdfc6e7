"""The section on the task: how many of the float model's answers are kept, or that it is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.base.shown import assumed
from onnxq.cli.pages.words import counted
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
        likely = f"if that is what it is: --task {shorten(task.ask, _WIDE)}; else " if task.ask else ""
        page.entry(f"{likely}--task says what the model is for: onnxq help task", style="dim")
        return
    for number, figure in enumerate(task.figures):
        page.section("Task" if number == 0 else "", figure.said)
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
        page.entry(f"read off the graph: {task.why} {assumed(f'--task {shorten(task.layout, _WIDE)}')}")
