"""The second section: the ledger of noise, from the repair of the graph to what is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number, part_of
from onnxq.documents.accuracy import GoalPart, GoalSearch, LeftInFloat
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart, MethodChosen
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.noise.breakdown import NoiseShare
from onnxq.noise.goal import FloatSetTried
from onnxq.page.words import counted, decimal, figure, level, percent, say, within_db
from onnxq.repair.ledger import RepairStep
from onnxq.rewrite.whole import WholeProof

_FULL_DB = 60.0
"""The level whose bar is full."""
_SOURCES = 20

_NO_NOISE = 200.0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A line of the ledger.

    Attributes:
        part: "surgery", "scales", "repair", the number format, "float for the goal", "body" or "result".
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


def ledger_view(report: Report) -> LedgerView | None:
    """What adds noise and what takes it away; None where nothing of it was measured."""
    repair, search = part_of(RepairPart, report.repair), _search(report)
    choice = part_of(CalibrationPart, report.calibration).choice
    idle = [step for step in repair.steps if number(step.after_db) is None]
    format = report.number_format
    entries = (
        *_surgery(report.whole_model), *_scales(choice), *_repair(repair.steps), *_kinds(search, format),
        *_left(search.floats), *_body(part_of(BodyPart, report.body), format), *_result(report.about_mean),
    )  # fmt: skip
    if not entries:
        return None
    return LedgerView(
        entries=entries,
        predictions=_predictions(search.trials),
        method=repair.method if repair.steps else "",
        idle=tuple(f"{step.step}: {step.why}" for step in idle),
        sources=tuple(_sources(search.noise.sources)),
    )


def _search(report: Report) -> GoalSearch:
    return part_of(GoalSearch, part_of(GoalPart, report.goal).search)


def _entry(
    part: str, what: str, after: float | None, note: str = "", verdict: str = "", before: float | None = None
) -> LedgerEntry:
    bar = None if after is None else min(1.0, max(0.0, after / _FULL_DB))
    return LedgerEntry(part, what, verdict, level(before), level(after), bar, note)


def _surgery(stages: Sequence[WholeProof]) -> Iterator[LedgerEntry]:
    for stage in stages:
        largest = number(stage.max_abs)
        said = [stage.verdict, f"max difference {figure(largest)}" if largest else ""]
        note = ", ".join(part for part in (*said, stage.why) if part)
        yield _entry("surgery", f"rules of stage {stage.stage}", number(stage.sqnr_db), note)


def _scales(choice: MethodChosen | None) -> Iterator[LedgerEntry]:
    for trial in () if choice is None else choice.trials:
        verdict = "kept" if choice is not None and trial.method == choice.method else "dropped"
        note = f"on {trial.samples or 0} samples" + (f"; it {trial.answers}" if trial.answers else "")
        yield _entry("scales", f"ranges by {trial.method}", number(trial.sqnr_db), note, verdict)


def _repair(steps: Sequence[RepairStep]) -> Iterator[LedgerEntry]:
    for step in steps:
        after = number(step.after_db)
        if after is None:
            continue
        parts = (step.made, step.why, f"{decimal(number(step.runs))} runs")
        note = "; ".join(filter(None, parts))
        yield _entry("repair", step.step, after, note, step.verdict, number(step.before_db))


def _kinds(search: GoalSearch, format: str) -> Iterator[LedgerEntry]:
    """Quantization by source, as the noise model has it with nothing in float for the goal."""
    name = {one: say("ledger.all-of", kind=one, format=format) for one in ("weight", "activation")}
    for source in search.noise.kinds:
        note = say("ledger.share", share=percent(number(source.share)))
        yield _entry(format, name.get(source.name, source.name), number(source.alone_db), note)
    predicted = number(search.predicted_sqnr_db)
    if search.noise.kinds and predicted is not None:
        first = next(iter(search.trials), None)
        measured = level(number(first.measured)) if first is not None and not first.nodes else ""
        note = say("ledger.measured" if measured else "ledger.predicted", level=measured)
        yield _entry(format, say("ledger.body"), predicted, note)


def _sources(sources: Sequence[NoiseShare]) -> Iterator[NoisySource]:
    kinds = {"weight": "weights ", "block": "all from "}
    for source in sources[:_SOURCES]:
        share = number(source.share) or 0.0
        yield NoisySource(
            what=kinds.get(source.kind, "") + source.name,
            layers=source.layers,
            alone=_alone(number(source.alone_db)),
            share=percent(share),
            bar=min(1.0, max(0.0, share)),
        )


def _left(floats: Sequence[LeftInFloat]) -> Iterator[LedgerEntry]:
    for layer in floats:
        gain, cost = level(number(layer.gain_db)), decimal(number(layer.cost))
        note = say("ledger.gains", level=gain, cost=cost)
        yield LedgerEntry(say("ledger.goal"), layer.node, "", "", "", None, note)


def _body(body: BodyPart, format: str) -> Iterator[LedgerEntry]:
    for output in body.outputs:
        for value, what in ((output.int8_db, f"{format} alone"),
                            (output.body_db, f"the {body.type} body alone"),
                            (output.together_db, f"{format} and body together")):  # fmt: skip
            if (decibels := number(value)) is not None:
                yield _entry("body", f"{output.output}: {what}", decibels, "SQNR of the output")


def _result(about: AboutMeanPart | None) -> list[LedgerEntry]:
    decibels = None if about is None else number(about.sqnr_about_mean_db)
    if about is None or decibels is None:
        return []
    samples = counted(about.samples or 0, "sample")
    note = say("ledger.result", interval=within_db(about.interval), samples=samples)
    return [_entry("result", say("ledger.written"), decibels, note)]


def _predictions(trials: Sequence[FloatSetTried]) -> tuple[Predicted, ...]:
    return tuple(
        Predicted(
            layers=len(one.nodes),
            cost=decimal(number(one.cost)),
            predicted=level(number(one.predicted_sqnr_db)),
            measured=figure(number(one.measured)),
        )
        for one in trials
    )


def _alone(decibels: float | None) -> str:
    """A level of what makes noise; 200 dB stand for none."""
    return "no noise" if decibels is not None and decibels >= _NO_NOISE else level(decibels)
