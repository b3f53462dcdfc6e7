"""Accuracy and goal: how near the outputs are to the float model's."""

from __future__ import annotations

from onnxq.analysis.diff.rows import BETTER, WORSE, Judge
from onnxq.analysis.reports import number, part_of
from onnxq.base.reason import noted
from onnxq.documents.accuracy import GateMeasured, GoalPart, OutputOfRun
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.task.meter import TaskPart

_ABOUT = "SQNR about the mean"


def accuracy(a: Report, b: Report, judge: Judge) -> None:
    """The outputs on samples that calibration did not see."""
    about = [part_of(AboutMeanPart, report.about_mean) for report in (a, b)]
    judge.figure(_ABOUT, *(number(part.sqnr_about_mean_db) for part in about), unit="dB")
    one, other = ({entry.output: entry for entry in report.accuracy} for report in (a, b))
    for name in dict.fromkeys([*one, *other]):
        if name in one and name in other:
            _output(name, one[name], other[name], judge)
            continue
        judge.state(
            BETTER if name in other else WORSE, "output",
            *("there" if name in outputs else None for outputs in (one, other)),
            name=name, why=noted("two-reports.output"),
        )  # fmt: skip
    kept = [{one.name: one for one in part_of(TaskPart, report.task).figures} for report in (a, b)]
    for name in [name for name in kept[0] if name in kept[1]]:
        shares = [number(some[name].percent) for some in kept]
        judge.figure(name, *(None if one is None else one / 100 for one in shares), unit="points", better=1)
    levels = [{one.output: number(one.sqnr_about_mean_db) for one in part.outputs} for part in about]
    for name in [name for name in levels[0] if name in levels[1] and len(levels[0]) + len(levels[1]) > 2]:
        judge.figure(_ABOUT, levels[0][name], levels[1][name], unit="dB", name=name)


def _output(name: str, x: OutputOfRun, y: OutputOfRun, judge: Judge) -> None:
    """An output that both models have."""
    sqnr = [number(one.sqnr_db) for one in (x, y)]
    judge.figure("SQNR", *sqnr, unit="dB", better=1, name=name)
    judge.figure("top-1 agreement", *(number(one.top1) for one in (x, y)), unit="points", better=1, name=name)
    judge.figure("cosine", *(number(one.cosine) for one in (x, y)), unit="", better=0, name=name)
    judge.figure("max error", *(number(one.max_abs) for one in (x, y)), unit="%", better=0, name=name)
    if sqnr == [None, None]:  # integers: equal or not
        judge.figure("equal values", *(number(one.equal) for one in (x, y)), unit="points", name=name)
    spoiled = [number(one.nonfinite) for one in (x, y)]
    judge.count("NaN or infinite values", *spoiled, better=-1, name=name)
    misshapen = [number(one.mismatched) for one in (x, y)]
    judge.count("samples of another shape", *misshapen, better=-1, name=name)


def goal(a: Report, b: Report, judge: Judge) -> None:
    """What was asked for, and whether it is met."""
    goals = [part_of(GoalPart, report.goal) for report in (a, b)]
    met: list[bool | None] = [part.met for part in goals]
    if None not in met:
        judge.state(WORSE if met[0] else BETTER, "goal met", *met)
    one, other = ({_gate(gate): number(gate.goal) for gate in part.gates} for part in goals)
    for name in dict.fromkeys([*one, *other]):
        judge.other("goal", one.get(name), other.get(name), name=name)
    scores = [None if part.scores is None else number(part.scores.int8) for part in goals]
    function = "" if goals[1].scores is None else goals[1].scores.function
    judge.figure("score", *scores, unit="%", name=function)


def _gate(gate: GateMeasured) -> str:
    return " of ".join(filter(None, (gate.what, gate.of)))
