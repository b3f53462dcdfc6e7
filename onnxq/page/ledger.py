"""The second section: the ledger of noise, from the repair of the graph to what is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.reports import OpenedReport, names, number, text
from onnxq.page.words import counted, decimal, figure, level, percent

_FULL_DB = 60.0
"""The level whose bar is full."""
_ONE = {"tensors": "tensor", "biases": "bias", "codes": "code", "weights": "weight", "ranges": "range"}

_SOURCES = 20

_NO_NOISE = 200.0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A line of the ledger.

    Attributes:
        part: "surgery", "scales", "repair", "int8", "float for the goal", "body" or "result".
        what: the step.
        verdict: "kept", "dropped", ...; "" for what is only measured.
        before: the level before, "" for none.
        after: the level with it.
        bar: the share of a full bar, 0 to 1, None for none.
        note: why, and what it took.
    """

    part: str
    what: str
    verdict: str
    before: str
    after: str
    bar: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Predicted:
    """A set of layers in float: what the noise model said of it, and what was measured.

    Attributes:
        layers: how many are in float.
        cost: what that costs.
        predicted: by the noise model.
        measured: on samples.
    """

    layers: int
    cost: str
    predicted: str
    measured: str


@dataclass(frozen=True, slots=True)
class NoisySource:
    """What makes noise, by the noise model.

    Attributes:
        what: a tensor or some weights.
        layers: the layers that read it.
        alone: what it alone leaves of the outputs.
        share: what the noise falls by without it, in per cent.
        bar: the same, 0 to 1.
    """

    what: str
    layers: tuple[str, ...]
    alone: str
    share: str
    bar: float


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The section.

    Attributes:
        entries: the lines, in the order of the run.
        predictions: predicted and measured, side by side.
        method: how a step of repair is judged, "" for none.
        idle: steps of repair that had nothing to do, with the reason.
        sources: who makes most noise, by the noise model; none where it was not measured.
    """

    entries: tuple[LedgerEntry, ...]
    predictions: tuple[Predicted, ...]
    method: str
    idle: tuple[str, ...]
    sources: tuple[NoisySource, ...]


def ledger_view(report: OpenedReport) -> LedgerView | None:
    """What adds noise and what takes it away; None where nothing of it was measured."""
    steps = report.entries("repair", "steps")
    idle = [one for one in steps if number(one.get("after_db")) is None]
    entries = (
        *_surgery(report), *_scales(report), *_repair(report, steps), *_kinds(report), *_left(report),
        *_body(report), *_result(report),
    )  # fmt: skip
    if not entries:
        return None
    return LedgerView(
        entries=entries,
        predictions=_predictions(report),
        method=text(report.at("repair", "method")) if steps else "",
        idle=tuple(f"{text(one.get('step'))}: {text(one.get('why'))}" for one in idle),
        sources=_sources(report),
    )


def _entry(
    part: str, what: str, after: float | None, note: str = "", verdict: str = "", before: float | None = None
) -> LedgerEntry:
    bar = None if after is None else min(1.0, max(0.0, after / _FULL_DB))
    return LedgerEntry(part, what, verdict, level(before), level(after), bar, note)


def _surgery(report: OpenedReport) -> list[LedgerEntry]:
    found = []
    for one in report.entries("whole_model"):
        largest = number(one.get("max_abs"))
        said = [text(one.get("verdict")), f"max difference {figure(largest)}" if largest else ""]
        note = ", ".join(part for part in (*said, text(one.get("why"))) if part)
        what = f"rules of stage {text(one.get('stage'))}"
        found.append(_entry("surgery", what, number(one.get("sqnr_db")), note))
    return found


def _scales(report: OpenedReport) -> list[LedgerEntry]:
    choice = report.part("calibration", "choice")
    chosen, found = text(choice.get("method")), []
    for one in report.entries("calibration", "choice", "trials"):
        method = text(one.get("method"))
        verdict = "kept" if method == chosen else "dropped"
        note = f"on {number(one.get('samples')) or 0:.0f} samples"
        found.append(_entry("scales", f"ranges by {method}", number(one.get("sqnr_db")), note, verdict))
    return found


def _repair(report: OpenedReport, steps: list[Mapping[str, Any]]) -> list[LedgerEntry]:
    found = []
    for one in steps:
        after = number(one.get("after_db"))
        if after is None:
            continue
        changed = one.get("changed")
        changed = changed if isinstance(changed, Mapping) else {}
        made = [f"{text(count)} {_ONE.get(what, what) if count == 1 else what}"
                for what, count in changed.items() if count]  # fmt: skip
        note = "; ".join(part for part in (", ".join(made), text(one.get("why")),
                                           f"{decimal(number(one.get('runs')))} runs") if part)  # fmt: skip
        found.append(
            _entry("repair", text(one.get("step")), after, note, text(one.get("verdict")),
                   number(one.get("before_db")))
        )  # fmt: skip
    return found


def _kinds(report: OpenedReport) -> list[LedgerEntry]:
    """Int8 by source, as the noise model has it with nothing in float for the goal."""
    found = []
    for one in report.entries("goal", "search", "noise", "kinds"):
        name = {"weight": "weights in int8, all of them", "activation": "activations in int8, all of them"}
        what, share = name.get(text(one.get("name")), text(one.get("name"))), number(one.get("share"))
        note = f"predicted, with nothing in float for the goal; {percent(share)} of the noise goes with them"
        found.append(_entry("int8", what, number(one.get("alone_db")), note))
    predicted = number(report.at("goal", "search", "predicted_sqnr_db"))
    if found and predicted is not None:
        first = next(iter(report.entries("goal", "search", "trials")), {})
        measured = level(number(first.get("measured"))) if not first.get("float") else ""
        note = "predicted, with nothing in float for the goal" + (
            f"; {measured} measured" if measured else ""
        )
        found.append(_entry("int8", "all of it, and the body", predicted, note))
    return found


def _sources(report: OpenedReport) -> tuple[NoisySource, ...]:
    found = []
    for one in report.entries("goal", "search", "noise", "sources")[:_SOURCES]:
        share = number(one.get("share")) or 0.0
        kind = (
            "weights " if one.get("kind") == "weight" else "all from " if one.get("kind") == "block" else ""
        )
        found.append(
            NoisySource(
                what=kind + text(one.get("name")),
                layers=names(one.get("layers")),
                alone=_alone(number(one.get("alone_db"))),
                share=percent(share),
                bar=min(1.0, max(0.0, share)),
            )
        )
    return tuple(found)


def _left(report: OpenedReport) -> list[LedgerEntry]:
    found = []
    for one in report.entries("goal", "search", "float"):
        gain = number(one.get("gain_db"))
        note = f"gains {level(gain)} beside the others, for {decimal(number(one.get('cost')))}"
        found.append(LedgerEntry("float for the goal", text(one.get("node")), "", "", "", None, note))
    return found


def _body(report: OpenedReport) -> list[LedgerEntry]:
    kind, found = text(report.at("body", "type")), []
    for one in report.entries("body", "outputs"):
        name = text(one.get("output"))
        for key, what in (("int8_db", "int8 alone"), ("body_db", f"the {kind} body alone"),
                          ("together_db", "int8 and body together")):  # fmt: skip
            value = number(one.get(key))
            if value is not None:
                found.append(_entry("body", f"{name}: {what}", value, "SQNR of the output"))
    return found


def _result(report: OpenedReport) -> list[LedgerEntry]:
    found = number(report.at("about_mean", "sqnr_about_mean_db"))
    if found is None:
        return []
    samples = number(report.at("about_mean", "samples")) or 0
    note = f"about the mean, on {counted(int(samples), 'sample')} that chose nothing"
    return [_entry("result", "as written, all outputs", found, note)]


def _predictions(report: OpenedReport) -> tuple[Predicted, ...]:
    rows = []
    for one in report.entries("goal", "search", "trials"):
        left = names(one.get("float"))
        measured = number(one.get("measured"))
        rows.append(
            Predicted(
                layers=len(left),
                cost=decimal(number(one.get("cost"))),
                predicted=level(number(one.get("predicted_sqnr_db"))),
                measured=figure(measured),
            )
        )
    return tuple(rows)


def _alone(decibels: float | None) -> str:
    """A level of what makes noise; 200 dB stand for none."""
    return "no noise" if decibels is not None and decibels >= _NO_NOISE else level(decibels)
