"""Whether too few of the float model's answers are kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.analysis.reports import number, part_of
from onnxq.base.shown import counted
from onnxq.data.split import HELD_OUT, given_for
from onnxq.documents.advice import AdviceFinding, LikelyCause, advised, cause
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.report import Report
from onnxq.judge.intervals import Interval
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
        figure: how many are kept.
        least: how many are asked for, percent.
        sure: whether other samples would say so, too.
    """

    figure: TaskFigure
    least: float
    sure: bool


def answers_lost(report: Report) -> AnswersLost | None:
    """What is lost of the task's answers; None where enough are kept, or nothing is known of them."""
    figure = _figure(report)
    if figure is None or figure.percent is None or figure.percent >= _least(figure):
        return None
    least = _least(figure)
    sure = figure.whole >= TELLING or (figure.interval is not None and figure.interval.high < least)
    return AnswersLost(figure, least, sure)


def near_so_far(report: Report) -> AdviceFinding | None:
    """That enough answers are kept, but of so few samples that fewer may be on others; None: that is sure."""
    figure, part = _figure(report), part_of(TaskPart, report.task)
    if figure is None or figure.percent is None or figure.percent < _least(figure) or _is_sure(figure, part):
        return None
    more = _more(report, figure, part.ship_from)
    return advised("few-answers", "open", [more], figure=figure.said, least=part.ship_from)


def _more(report: Report, figure: TaskFigure, wanted: float) -> LikelyCause:
    """How many more samples raise the lower end to what is wanted, where as large a share is kept."""
    judged = number(report.accuracy[0].samples) if report.accuracy else None
    share, low = (figure.percent or 0.0) / 100, wanted / 100
    if judged is None or share <= low:
        return cause("few-samples")
    ends = figure.interval
    trials = Interval.trials(share, ends.low / 100) if ends is not None and ends.low > 0 else judged
    needed = given_for(math.ceil(judged * Interval.trials(share, low) / trials))
    is_crossed = part_of(CalibrationPart, report.calibration).held_out_code == "crossed"
    if is_crossed and judged < HELD_OUT:  # all that were given judged
        return cause("few-samples.more", samples=counted(needed - int(judged), "more sample"))
    return cause("few-samples.in-all", count=needed)


def read_and_kept(report: Report) -> frozenset[str]:
    """The outputs of which answers are read, where enough of these are kept beyond chance; else none."""
    figure, part = _figure(report), part_of(TaskPart, report.task)
    if figure is None or figure.percent is None or figure.percent < _least(figure):
        return frozenset()
    return frozenset(part.reads) if _is_sure(figure, part) else frozenset()


def _is_sure(figure: TaskFigure, part: TaskPart) -> bool:
    return figure.interval is not None and figure.interval.low >= part.ship_from


def _figure(report: Report) -> TaskFigure | None:
    """What is measured of the task, that of goals; None where nothing is."""
    figures = part_of(TaskPart, report.task).figures if report.task is not None else ()
    return figures[0] if figures else None


def _least(figure: TaskFigure) -> float:
    """Percent of answers that are kept, at least."""
    return LEAST_KEPT.get(figure.kind, LEAST_OF_OTHERS)
