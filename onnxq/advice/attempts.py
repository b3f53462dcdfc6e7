"""Which of several results is the best, and what may be tried next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from onnxq.advice.worth import worth_of
from onnxq.analysis.reports import number, part_of
from onnxq.base.reason import noted
from onnxq.documents.advice import Advice, Attempt, LikelyCause, Untried
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.task.meter import TaskPart


def attempt(command: str, why: str, report: Report, advice: Advice) -> Attempt:
    """A command line that made a result.

    Args:
        command: the command line.
        why: what it was tried for.
        report: of what it made.
        advice: the answer to that.
    """
    figure, unit = _figure(report)
    worth = worth_of(report.verdict)
    moved = None if worth is None else worth.ratio
    return Attempt(command, why, advice, figure, unit, moved, report.seconds)


def _figure(report: Report) -> tuple[float | None, str]:
    figures = part_of(TaskPart, report.task).figures
    if figures and figures[0].percent is not None:
        return figures[0].percent, "%"
    return number(part_of(AboutMeanPart, report.about_mean).worst_output_db), "dB"


def rank(one: Attempt) -> tuple[float, ...]:
    """How good an attempt is, the least first: what speaks against it, what is open, how near it is."""
    if one.answer is None:
        return (float("inf"),)
    weights = [found.weight for found in one.answer.findings]
    return (weights.count("bad"), weights.count("open"), -(one.figure or 0.0), one.moved or 1.0)


def next_tries(report: Report, advice: Advice) -> tuple[list[tuple[str, str]], list[Untried]]:
    """The command lines that may mend a result, each with why; and those that are not for us to try."""
    doubts = {one.kind for one in part_of(CalibrationPart, report.calibration).data.doubts}
    tries, left = [], []
    for cause in _causes(advice):
        why = cause.do or cause.said
        words = shlex.split(cause.command)
        if cause.code in doubts:
            left.append(Untried(cause.command, f"{cause.said}: {why}", noted("not-tried.fed")))
        elif words[:2] == ["onnxq", "quantize"]:
            tries.append((cause.command, why))
        elif words[:2] == ["onnxq", "sanitize"]:
            left.append(Untried(cause.command, why, noted("not-tried.file")))
        elif not words and why:
            left.append(Untried("", why, noted("not-tried.user")))
    return tries, left


def _causes(advice: Advice) -> Iterator[LikelyCause]:
    for finding in advice.findings:
        if finding.weight != "told":
            yield from finding.causes
