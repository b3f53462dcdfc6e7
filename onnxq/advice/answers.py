"""Whether too few of the float model's answers are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.analysis.reports import part_of
from onnxq.documents.report import Report
from onnxq.task.measures import FigureKind
from onnxq.task.meter import TaskFigure, TaskPart

LEAST_KEPT: Mapping[FigureKind, float] = {
    "detections": 97.0, "selections": 97.0, "objects": 97.0, "cosines": 98.0, "depths": 97.0, "flows": 97.0,
    "images": 97.0,
}  # fmt: skip
"""Percent of the float model's answers that an int8 model keeps, at least, of those near by a limit."""

LEAST_OF_OTHERS = 90.0
"""The same of other tasks: where two classes are about as likely, either may be first. (MobileNetV1 gives
96 % of the same answers, and is right less often by 0.4 points, -0.2 to 1.0.)"""

TELLING = 50
"""From so many answers on a share is told before all else, whatever its interval."""


@dataclass(frozen=True, slots=True)
class AnswersLost:
    """Answers of the float model that the int8 model does not give.

    Attributes:
        said: how many, in words.
        least: how many are asked for, percent.
        sure: whether other samples would say so, too.
    """

    said: str
    least: float
    sure: bool


def answers_lost(report: Report) -> AnswersLost | None:
    """What is lost of the task's answers; None where enough are kept, or nothing is known of them."""
    figure = _figure(report)
    if figure is None or figure.percent is None or figure.percent >= _least(figure):
        return None
    least = _least(figure)
    sure = figure.whole >= TELLING or (figure.interval is not None and figure.interval.high < least)
    return AnswersLost(f"{figure.said}: fewer than {least:g} %", least, sure)


def chance(report: Report) -> str:
    """That enough answers are kept, but of so few that it may be chance, in words; "" where it is not so."""
    figure = _figure(report)
    if figure is None or figure.percent is None or figure.percent < _least(figure):
        return ""
    is_few = figure.interval is not None and figure.interval.low < _least(figure) and figure.whole < TELLING
    return f"{figure.said}: with so few it may be chance" if is_few else ""


def read_and_kept(report: Report) -> frozenset[str]:
    """The outputs of which answers are read, where enough of these are kept beyond chance; else none."""
    figure, part = _figure(report), part_of(TaskPart, report.task)
    if figure is None or figure.percent is None or figure.percent < _least(figure):
        return frozenset()
    sure = figure.whole >= TELLING or (figure.interval is not None and figure.interval.low >= _least(figure))
    return frozenset(part.reads) if sure else frozenset()


def _figure(report: Report) -> TaskFigure | None:
    """What is measured of the task, that of goals; None where nothing is."""
    figures = part_of(TaskPart, report.task).figures if report.task is not None else ()
    return figures[0] if figures else None


def _least(figure: TaskFigure) -> float:
    """Percent of answers that are kept, at least."""
    return LEAST_KEPT.get(figure.kind, LEAST_OF_OTHERS)
