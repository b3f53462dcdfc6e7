"""Checks and advice: what the target does not take, what is doubtful, and what to do, with its command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnxq.analysis.lost import ADVICE, outputs_of
from onnxq.analysis.reports import OpenedReport, names, number, text
from onnxq.analysis.worth import ONLY_A_GPU, worth_of
from onnxq.option import read_options
from onnxq.page.words import counted
from onnxq.settings import DataPlace, Feeding, ImageOptions, Inputs, Repairs, Runtime

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
class CheckLine:
    """What a check found.

    Attributes:
        node: the node, "" for the model.
        op: its operator.
        reason: what is wrong.
        advice: what to do.
    """

    node: str
    op: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class ChecksView:
    """The section.

    Attributes:
        checks: what was found.
        more: how many are not listed.
        missed: layers that were planned in int8 and do not run in it.
        float32: what stays float32 in the body, with the reason.
        suspicious: layers that an analysis finds suspicious.
    """

    checks: tuple[CheckLine, ...]
    more: int
    missed: tuple[str, ...]
    float32: tuple[str, ...]
    suspicious: tuple[str, ...]


def checks_view(report: OpenedReport, suspicious: tuple[str, ...]) -> ChecksView | None:
    """What checks found; None for nothing.

    Args:
        report: the report.
        suspicious: layers that an analysis finds suspicious, with the causes.
    """
    found = report.entries("unsupported")
    checks = tuple(
        CheckLine(*(text(one.get(key)) for key in ("node", "op", "reason", "advice")))
        for one in found[:_SHOWN]
    )
    missed = names(report.at("engine", "not_int8")) if report.at("engine", "status") == "compiled" else ()
    float32 = tuple(
        f"{text(one.get('node'))} ({text(one.get('op'))}): {text(one.get('because'))}"
        for one in report.entries("body", "float32")[:_SHOWN]
    )
    view = ChecksView(checks, max(0, len(found) - _SHOWN), missed[:_SHOWN], float32, suspicious[:_SHOWN])
    return view if checks or missed or float32 or suspicious else None


def advice_of(report: OpenedReport, *, analysed: bool) -> tuple[Advice, ...]:
    """What a user should do next, what matters most first."""
    return tuple(_advice(report, analysed))


def _advice(report: OpenedReport, analysed: bool) -> Iterator[Advice]:
    output = text(report.at("output")) or "X.onnx"
    status = text(report.at("engine", "status"))
    if status == "failed":
        yield Advice("It does not compile: see which nodes NVIDIA's compiler refuses",
                     shlex.join(["onnxq", "check", output]))  # fmt: skip
    lost = any(one.lost for one in outputs_of(report))
    if lost:
        yield Advice(f"The accuracy is lost: {ADVICE}")
        if not report.entries("goal", "gates"):
            yield Advice(
                "Or have layers left in float until the outputs are near",
                again(report, more=("--min-sqnr", "20")),
            )
    if not all(gate.get("met") for gate in report.entries("goal", "gates")):
        yield _of_goal(report)
    worth = worth_of(report)
    if worth is not None and not lost:
        said = f"{worth.said[0].upper()}{worth.said[1:]}; {ONLY_A_GPU}"
        yield Advice(f"{said}: make the model in plain float16, and time both",
                     _in_float16(report))  # fmt: skip
    missed = names(report.at("engine", "not_int8"))
    if missed and status == "compiled":
        yield Advice(
            f"{counted(len(missed), 'layer')} planned in int8 and not run in it: see the kernels",
            shlex.join(["onnxq", "engine", output]),
        )
    if not analysed and report.at("plan", "sites") and report.at("calibration", "data", "place", "path"):
        yield Advice("See which layer adds the error, alone and accumulated, and put that on this page",
                     f"onnxq analyze {shlex.quote(output)} --json > analysis.json && onnxq report "
                     f"{shlex.quote(_report_of(report))} --analysis analysis.json")  # fmt: skip
    samples = number(report.at("calibration", "samples"))
    if samples is not None and 0 < samples < 32:
        yield Advice(f"{counted(int(samples), 'sample')} calibrated: give more, 100 or more are usual")
    commands = names(report.at("commands"))
    if status != "failed" and commands and not lost:
        yield Advice("Build the engine", commands[0])


def _of_goal(report: OpenedReport) -> Advice:
    """What to do about a goal that is not met."""
    if report.at("goal", "cut"):
        return Advice("The time limit cut the search for the goal: let it go on",
                      again(report, without=("--time-limit",)))  # fmt: skip
    if _given(report, "--max-float"):
        return Advice("The goal is not met: let more layers stay in float",
                      again(report, without=("--max-float",)))  # fmt: skip
    return Advice("The goal is not met, whatever stays in float: give more samples, or a lower goal")


def _in_float16(report: OpenedReport) -> str:
    """The command line that writes the float model in plain float16; "" where that is not known."""
    _, *asked = _asked(report) or [()]
    if not asked or not report.entries("plan", "sites"):  # it may have come quantized
        return ""
    flags = [word for part in asked[1:] if part[0] in _KEPT for word in part]
    return shlex.join(["onnxq", "sanitize", *asked[0], *flags, "--body", "fp16"])


def again(report: OpenedReport, *, without: Sequence[str] = (), more: Sequence[str] = ()) -> str:
    """The command line of a run, to be given again; "" where it was not a command line.

    Args:
        report: its report.
        without: flags that are left out, with their values.
        more: what is given beside.
    """
    kept = [part for part in _asked(report) if part[0] not in without]
    return shlex.join(["onnxq", *(word for part in kept for word in part), *more]) if kept else ""


def _given(report: OpenedReport, flag: str) -> bool:
    """Whether a flag was given."""
    return any(part[0] == flag for part in _asked(report))


def _asked(report: OpenedReport) -> list[tuple[str, ...]]:
    asked = report.at("asked")
    return [part for one in asked if (part := names(one))] if isinstance(asked, list) else []


def _report_of(report: OpenedReport) -> str:
    found = [name for name in names(report.at("files")) if name.endswith(".report.json")]
    return found[0] if found else report.path or "X.report.json"
