"""Checks and advice: what the target does not take, what is doubtful, and what to do, with its command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.analysis.answers import answers_lost
from onnxq.analysis.asked import again, asked_of, given
from onnxq.analysis.lost import ADVICE, judged
from onnxq.analysis.reports import OpenedReport, part_of
from onnxq.analysis.worth import ONLY_A_GPU, worth_of
from onnxq.documents.accuracy import GoalPart
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.changes import NotTaken
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.options.option import read_options
from onnxq.options.settings import DataPlace, Feeding, ImageOptions, Inputs, Repairs, Runtime
from onnxq.page.words import counted

_SHOWN = 200

_KEPT = frozenset(
    flag
    for group in (DataPlace, Feeding, ImageOptions, Repairs, Inputs, Runtime)
    for said in read_options(group).values()
    for flag in said.flag
)
"""Flags that say of the model and its data what every verb has to know."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to do.

    Attributes:
        text: what and why.
        command: the command line, "" for none.
    """

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ChecksView:
    """The section.

    Attributes:
        checks: what the target does not take.
        more: how many are not listed.
        missed: layers that were planned in int8 and do not run in it.
        float32: what stays float32 in the body, with the reason.
        suspicious: layers that an analysis finds suspicious.
    """

    checks: tuple[NotTaken, ...]
    more: int
    missed: tuple[str, ...]
    float32: tuple[str, ...]
    suspicious: tuple[str, ...]


def checks_view(report: Report, suspicious: tuple[str, ...]) -> ChecksView | None:
    """What checks found; None for nothing.

    Args:
        report: the report.
        suspicious: layers that an analysis finds suspicious, with the causes.
    """
    unsupported, engine = report.unsupported, report.engine
    missed = engine.not_int8 if engine.status == "compiled" else ()
    float32 = tuple(
        f"{one.node} ({one.op}): {one.because}" for one in part_of(BodyPart, report.body).float32[:_SHOWN]
    )
    view = ChecksView(
        unsupported[:_SHOWN], max(0, len(unsupported) - _SHOWN), missed[:_SHOWN], float32, suspicious[:_SHOWN]
    )
    return view if unsupported or missed or float32 or suspicious else None


def advice_of(report: OpenedReport, *, analysed: bool) -> tuple[Advice, ...]:
    """What a user should do next, what matters most first."""
    return tuple(_advice(report, analysed))


def _advice(opened: OpenedReport, analysed: bool) -> Iterator[Advice]:
    report = opened.document
    output, engine = report.output or "X.onnx", report.engine
    gates = part_of(GoalPart, report.goal).gates
    if engine.status == "failed":
        yield Advice("It does not compile: see which nodes NVIDIA's compiler refuses",
                     shlex.join(["onnxq", "check", output]))  # fmt: skip
    lost = any(one.lost for one in judged(report.accuracy, report.about_mean))
    if lost:
        yield Advice(f"The accuracy is lost: {ADVICE}")
        if not gates:
            yield Advice(
                "Or have layers left in float until the outputs are near",
                again(report, more=("--min-sqnr", "20")),
            )
    answers = answers_lost(report)
    if answers is not None and not lost:
        yield Advice(f"{answers.said}. {answers.why}", answers.command)
    if not all(gate.met for gate in gates):
        yield _of_goal(report)
    worth = worth_of(report.verdict)
    if worth is not None and not lost:
        said = f"{worth.said[0].upper()}{worth.said[1:]}; {ONLY_A_GPU}"
        yield Advice(f"{said}: make the model in plain float16, and time both",
                     _in_float16(report))  # fmt: skip
    if engine.not_int8 and engine.status == "compiled":
        yield Advice(
            f"{counted(len(engine.not_int8), 'layer')} planned in int8 and not run in it: see the kernels",
            shlex.join(["onnxq", "engine", output]),
        )
    calibration = part_of(CalibrationPart, report.calibration)
    if not analysed and part_of(PlanPart, report.plan).sites and calibration.data.place is not None:
        yield Advice("See which layer adds the error, alone and accumulated, and put that on this page",
                     f"onnxq analyze {shlex.quote(output)} --json > analysis.json && onnxq report "
                     f"{shlex.quote(_report_of(opened))} --analysis analysis.json")  # fmt: skip
    samples = calibration.samples
    if samples is not None and 0 < samples < 32:
        yield Advice(f"{counted(samples, 'sample')} calibrated: give more, 100 or more are usual")
    if engine.status != "failed" and report.commands and not lost and answers is None:
        yield Advice("Build the engine", report.commands[0])


def _of_goal(report: Report) -> Advice:
    """What to do about a goal that is not met."""
    goal = part_of(GoalPart, report.goal)
    if goal.mismatch:
        return Advice("Calibrate with what your function feeds the model, or have it feed what calibrated")
    if all(gate.met or gate.undecided for gate in goal.gates):
        return Advice("The samples do not tell whether the goal is met: give more")
    if goal.cut:
        return Advice("The time limit cut the search for the goal: let it go on",
                      again(report, without=("--time-limit",)))  # fmt: skip
    if given(report, "--max-float"):
        return Advice("The goal is not met: let more layers stay in float",
                      again(report, without=("--max-float",)))  # fmt: skip
    return Advice("The goal is not met, whatever stays in float: give more samples, or a lower goal")


def _in_float16(report: Report) -> str:
    """The command line that writes the float model in plain float16; "" where that is not known."""
    _, *asked = asked_of(report) or [()]
    if not asked or not part_of(PlanPart, report.plan).sites:  # it may have come quantized
        return ""
    flags = [word for part in asked[1:] if part[0] in _KEPT for word in part]
    return shlex.join(["onnxq", "sanitize", *asked[0], *flags, "--body", "fp16"])


def _report_of(opened: OpenedReport) -> str:
    reports = [name for name in opened.document.files if name.endswith(".report.json")]
    return reports[0] if reports else opened.path or "X.report.json"
