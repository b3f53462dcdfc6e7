"""Whether too few of the float model's answers are kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.analysis.reports import part_of
from onnxq.documents.report import Report
from onnxq.task.measures import FigureKind
from onnxq.task.meter import TaskPart

LEAST_KEPT: Mapping[FigureKind, float] = {"detections": 97.0}
"""Percent of the float model's answers that an int8 model keeps, at least."""

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
    figures = part_of(TaskPart, report.task).figures if report.task is not None else ()
    if not figures:
        return None
    figure, least = figures[0], LEAST_KEPT.get(figures[0].kind, LEAST_OF_OTHERS)
    if figure.percent is None or figure.percent >= least:
        return None
    sure = figure.whole >= TELLING or (figure.interval is not None and figure.interval.high < least)
    return AnswersLost(f"{figure.said}: fewer than {least:g} %", least, sure)


def chance(report: Report) -> str:
    """That enough answers are kept, but of so few that it may be chance, in words; "" where it is not so."""
    figures = part_of(TaskPart, report.task).figures if report.task is not None else ()
    if not figures:
        return ""
    figure, least = figures[0], LEAST_KEPT.get(figures[0].kind, LEAST_OF_OTHERS)
    low = math.inf if figure.interval is None else figure.interval.low
    is_few = figure.percent is not None and figure.whole < TELLING and low < least <= figure.percent
    return f"{figure.said}: with so few it may be chance" if is_few else ""
