"""Whether too few of the float model's answers are kept, why, and which command mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.analysis.asked import again, given
from onnxq.analysis.reports import part_of
from onnxq.documents.accuracy import GoalPart
from onnxq.documents.plan import PlanPart
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
        why: what is at fault, as far as it is known.
        command: the command line that leaves layers in float until enough are kept; "" where the run had a
            goal of its own, or was no command line.
        sure: whether other samples would say so, too.
    """

    said: str
    why: str
    command: str
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
    command = "" if _has_goal(report) else again(report, more=("--min-agreement", f"{least:g}"))
    return AnswersLost(f"{figure.said}: fewer than {least:g} %", _why(report), command, sure)


def _has_goal(report: Report) -> bool:
    return bool(part_of(GoalPart, report.goal).gates) or given(report, "--min-agreement")


def _why(report: Report) -> str:
    """What makes the noise, as far as the look for what is loud said so."""
    heads = part_of(PlanPart, report.plan).heads
    if heads is None:
        return "What makes the noise was not looked for (--loud auto)"
    loud = [one for one in heads.loud if not one.left_float]
    if loud:
        return loud[0].why
    return heads.why or "No layer in int8 makes much of the noise alone"
