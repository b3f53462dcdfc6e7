"""Accuracy and goal: how near the outputs are to the float model's."""

from __future__ import annotations

from onnxq.analysis.diff.rows import BETTER, WORSE, Judge
from onnxq.analysis.reports import OpenedReport, number, text

_ABOUT = "SQNR about the mean"


def accuracy(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """The outputs on samples that calibration did not see."""
    judge.figure(_ABOUT, *(number(r.at("about_mean", "sqnr_about_mean_db")) for r in (a, b)), unit="dB")
    one, other = (r.by("output", "accuracy") for r in (a, b))
    for name in dict.fromkeys([*one, *other]):
        if name not in one or name not in other:
            gone = name not in other
            judge.state(
                WORSE if gone else BETTER, "output", *("there" if name in r else None for r in (one, other)),
                name=name, why="an output of one of the models only",
            )  # fmt: skip
            continue
        x, y = one[name], other[name]
        for what, key, unit, better in (
            ("SQNR", "sqnr_db", "dB", 1),
            ("top-1 agreement", "top1", "points", 1),
            ("cosine", "cosine", "", 0),
            ("max error", "max_abs", "%", 0),
        ):
            judge.figure(what, number(x.get(key)), number(y.get(key)), unit=unit, better=better, name=name)
        if x.get("sqnr_db") is None and y.get("sqnr_db") is None:  # integers: equal or not
            judge.figure(
                "equal values", number(x.get("equal")), number(y.get("equal")), unit="points", name=name
            )
        for what, key in (
            ("NaN or infinite values", "nonfinite"),
            ("samples of another shape", "mismatched"),
        ):
            judge.count(what, number(x.get(key)), number(y.get(key)), better=-1, name=name)
    one, other = (r.by("output", "about_mean", "outputs") for r in (a, b))
    for name in [name for name in one if name in other and len(one) + len(other) > 2]:
        levels = (number(r[name].get("sqnr_about_mean_db")) for r in (one, other))
        judge.figure(_ABOUT, *levels, unit="dB", name=name)


def goal(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """What was asked for, and whether it is met."""
    met = [r.at("goal", "met") for r in (a, b)]
    if all(isinstance(one, bool) for one in met):
        judge.state(WORSE if met[0] else BETTER, "goal met", *met)
    one, other = ({_gate(g): g for g in r.entries("goal", "gates")} for r in (a, b))
    for name in dict.fromkeys([*one, *other]):
        x, y = one.get(name, {}), other.get(name, {})
        judge.other("goal", number(x.get("goal")), number(y.get("goal")), name=name)
    scores = [number(r.at("goal", "scores", "int8")) for r in (a, b)]
    judge.figure("score", *scores, unit="%", name=text(b.at("goal", "scores", "function")))


def _gate(gate: object) -> str:
    assert isinstance(gate, dict)
    return " of ".join(filter(None, (text(gate.get("what")), text(gate.get("of")))))
