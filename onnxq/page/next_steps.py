"""What to do next: what each finding asks for, with its command; then what is left to look at."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.analysis.reports import OpenedReport, part_of
from onnxq.base.reason import say
from onnxq.base.shown import capitalized
from onnxq.documents.advice import Advice, LikelyCause
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.options.command_line import accepted


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do.

    Attributes:
        text: what and why.
        command: the command line, "" for none.
    """

    text: str
    command: str = ""


def next_steps(report: OpenedReport, advice: Advice, *, analysed: bool) -> tuple[NextStep, ...]:
    """What a user should do next, what matters most first; no line twice.

    Args:
        report: the report.
        advice: the answer to it.
        analysed: whether the page shows the errors of layers.
    """
    steps = dict.fromkeys(map(_runnable, [*_of_findings(advice), *_beside(report, advice, analysed)]))
    return tuple({step.command or step.text: step for step in reversed(steps)}.values())[::-1]


def _runnable(step: NextStep) -> NextStep:
    """The step without a command of ours that would be refused."""
    parts = (part.partition(" > ")[0] for part in step.command.split(" && "))
    stands = all(accepted(part, {}) for part in parts if part.startswith("onnxq "))
    return step if stands else NextStep(step.text)


def _of_findings(advice: Advice) -> Iterator[NextStep]:
    for finding in advice.findings:
        for cause in finding.causes:
            if cause.do or cause.command:
                yield NextStep(_text(cause) or finding.said, cause.command)


def _text(cause: LikelyCause) -> str:
    said = ". ".join(capitalized(part) for part in (cause.said, cause.do) if part)
    return f"{said} (what tells it: {cause.test})" if cause.test and said else said


def _beside(opened: OpenedReport, advice: Advice, analysed: bool) -> Iterator[NextStep]:
    report = opened.document
    calibration = part_of(CalibrationPart, report.calibration)
    if not analysed and part_of(PlanPart, report.plan).sites and calibration.data.place is not None:
        output = shlex.quote(report.output or "X.onnx")
        yield NextStep(say("look-closer"),
                       f"onnxq analyze {output} --json > analysis.json && onnxq report "
                       f"{shlex.quote(_report_of(opened))} --analysis analysis.json")  # fmt: skip
    if report.commands and report.engine.status != "failed":
        anyway = " all the same" * (advice.answer == "do-not-ship")
        yield NextStep(f"Build the engine{anyway}", report.commands[0])


def _report_of(opened: OpenedReport) -> str:
    reports = [name for name in opened.document.files if name.endswith(".report.json")]
    return reports[0] if reports else opened.path or "X.report.json"
