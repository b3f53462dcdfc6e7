"""Checks and advice: what the target does not take, what is doubtful, and what to do, with its command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.analysis.lost import ADVICE, outputs_of
from onnxq.analysis.reports import OpenedReport, names, number, text
from onnxq.page.words import counted

_SHOWN = 200


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
    model, output = text(report.at("model")) or "MODEL", text(report.at("output")) or "X.onnx"
    data = text(report.at("calibration", "data", "place", "path")) or "DATA"
    again = f"onnxq quantize {shlex.quote(model)} --calib {shlex.quote(data)} -o {shlex.quote(output)}"
    status = text(report.at("engine", "status"))
    if status == "failed":
        yield Advice("It does not compile: see which nodes NVIDIA's compiler refuses",
                     f"onnxq check {shlex.quote(output)}")  # fmt: skip
    lost = any(one.lost for one in outputs_of(report))
    if lost:
        yield Advice(f"The accuracy is lost: {ADVICE}")
        if not report.entries("goal", "gates"):
            yield Advice("Or have layers left in float until the outputs are near", f"{again} --min-sqnr 20")
    for gate in report.entries("goal", "gates"):
        if not gate.get("met"):
            yield Advice("The goal is not met: let more layers stay in float", f"{again} --max-float 20%")
            break
    form = text(report.at("verdict", "form"))
    if text(report.at("verdict", form, "says")) == "slower":
        yield Advice("Int8 is slower by estimate: leave layers in float where it is", f"{again} --fastest")
    missed = names(report.at("engine", "not_int8"))
    if missed and status == "compiled":
        yield Advice(
            f"{counted(len(missed), 'layer')} planned in int8 and not run in it: see the kernels",
            f"onnxq engine {shlex.quote(output)}",
        )
    if not analysed and report.at("plan", "sites"):
        yield Advice("See which layer adds the error, alone and accumulated, and put that on this page",
                     f"onnxq analyze {shlex.quote(output)} --json > analysis.json && onnxq report "
                     f"{shlex.quote(_report_of(report))} --analysis analysis.json")  # fmt: skip
    samples = number(report.at("calibration", "samples"))
    if samples is not None and 0 < samples < 32:
        yield Advice(f"{samples:.0f} samples calibrated: 100 or more are usual", again)
    commands = names(report.at("commands"))
    if status != "failed" and commands and not lost:
        yield Advice("Build the engine", commands[0])


def _report_of(report: OpenedReport) -> str:
    found = [name for name in names(report.at("files")) if name.endswith(".report.json")]
    return found[0] if found else report.path or "X.report.json"
