"""The first section: the figures by which it is decided whether to ship."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnxq.advice.lost import LEAST_AGREEMENT, LEAST_SQNR, Judged, judged
from onnxq.advice.worth import compared, worth_of
from onnxq.analysis.reports import number, part_of
from onnxq.base.grouped import grouped
from onnxq.base.shown import INTERVALS
from onnxq.compiled.verdict import Verdict
from onnxq.data.fed import fed_lines
from onnxq.documents.accuracy import GoalPart, OutputOfRun
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.page.words import counted, decimal, figure, level, percent, say, size, tail, within, within_db
from onnxq.quant.plan import KeptFloat
from onnxq.task.meter import TaskPart

GOOD, OPEN, BAD = "good", "open", "bad"
_FORMS = {"merged": "merged", "built": "as built"}
_USUAL_AGREEMENT = 0.9
_NAME = 80


@dataclass(frozen=True, slots=True)
class Card:
    """A figure with what it is.

    Attributes:
        label: what it is.
        value: the figure.
        note: what to know of it, "" for nothing.
        tone: `good`, `open` or `bad`; "" for what is none.
    """

    label: str
    value: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class OutputFact:
    """How near an output is to the float model's.

    Attributes:
        output: its name.
        about_mean: SQNR about the mean.
        sqnr: SQNR.
        cosine: the cosine.
        worst: the greatest error, and the greatest value.
        agreement: how often the argmax is the same.
        tone: `bad` of an output that is lost, else "".
    """

    output: str
    about_mean: str
    sqnr: str
    cosine: str
    worst: str
    agreement: str
    tone: str


@dataclass(frozen=True, slots=True)
class Stayed:
    """Layers that stay in float for one reason.

    Attributes:
        because: the reason.
        count: how many.
        layers: the first of them.
    """

    because: str
    count: int
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The section.

    Attributes:
        cards: the figures.
        outputs: each output.
        format: the number format of the run.
        assumptions: what the figures of the engine rely on.
        stayed: what stays in float, the most frequent reason first.
        data: how the data were understood.
        doubts: what is doubtful about data, ranges and the run.
    """

    cards: tuple[Card, ...]
    outputs: tuple[OutputFact, ...]
    format: str
    assumptions: tuple[str, ...]
    stayed: tuple[Stayed, ...]
    data: tuple[str, ...]
    doubts: tuple[str, ...]


def verdict_view(report: Report) -> VerdictView:
    """What a report says to who decides."""
    near = judged(report.accuracy, report.about_mean)
    cards = (
        *_accuracy(report, near), *_goal(report.goal), *_shares(part_of(PlanPart, report.plan)),
        *_engine(report, near), *_against_float16(report.verdict), *_sizes(report),
    )  # fmt: skip
    return VerdictView(
        cards=cards,
        outputs=_outputs(report, near),
        format=report.number_format,
        assumptions=() if report.verdict is None else report.verdict.assumptions,
        stayed=_stayed(part_of(PlanPart, report.plan).kept_float),
        data=_data(part_of(CalibrationPart, report.calibration)),
        doubts=_doubts(report),
    )


def _is_lost(near: tuple[Judged, ...]) -> bool:
    return any(one.lost for one in near)


def _tone(decibels: float, lost: bool) -> str:
    return BAD if lost else OPEN if decibels < LEAST_SQNR else ""


def _short(name: str) -> str:
    return tail(name, _NAME)


def _accuracy(report: Report, near: tuple[Judged, ...]) -> list[Card]:
    about, cards = part_of(AboutMeanPart, report.about_mean), []
    calibration = part_of(CalibrationPart, report.calibration)
    on = f"{counted(about.samples, 'sample')} kept apart" if about.samples else ""
    on = calibration.held_out if about.samples and calibration.held_out_code == "crossed" else on
    note = f"on {on}" if on else ""
    note += f"; {INTERVALS}" if about.interval else ""
    together = number(about.sqnr_about_mean_db)
    not_verified = calibration.not_verified
    if together is not None:
        tone = _tone(together, _is_lost(near))
        cards.append(Card(say("card.accuracy"), level(together) + within_db(about.interval), note, tone))
    elif not_verified:
        cards.append(Card("Accuracy", "not verified", not_verified, OPEN))
    worst = next((one for one in near if one.output and one.level_db is not None), None)
    if worst is not None and worst.level_db is not None:
        tone = _tone(worst.level_db, worst.lost)
        levels = {one.output: one.interval for one in about.outputs}
        said = level(worst.level_db) + within_db(levels.get(worst.output))
        cards.append(Card("Worst output", said, _short(worst.output), tone))
    same = [(value, one.top1_interval) for one in report.accuracy if (value := number(one.top1)) is not None]
    if same:
        least, ends = min(same, key=lambda one: one[0])
        tone = BAD if least < LEAST_AGREEMENT else OPEN if least < _USUAL_AGREEMENT else ""
        cards.append(
            Card(
                say("card.argmax"),
                percent(least) + within(ends, 100),
                say("card.least"),
                tone,
            )
        )
    cards += _task(report.task)
    scores = part_of(GoalPart, report.goal).scores
    if scores is not None:
        reached = number(scores.int8 if number(scores.result) is None else scores.result)
        change = f"{figure(number(scores.floating))} → {figure(reached)}"
        cards.append(Card("Score", change, scores.function))
    return cards


def _task(task: TaskPart | None) -> Iterator[Card]:
    """What is kept of the float model's answers, or that it is not known what they are."""
    if task is None:
        return
    for one in task.figures:
        share = number(one.percent)
        value = "none to keep" if share is None else f"{percent(share / 100)}{within(one.interval)}"
        yield Card(f"{one.name[0].upper()}{one.name[1:]}", value, one.said)
    for by in () if task.labels is None else task.labels.figures:
        change = f"{figure(number(by.floating))} % → {figure(number(by.int8))} %"
        yield Card(
            f"By the labels: {by.name}", change, counted(task.labels.samples if task.labels else 0, "sample")
        )
    if not task.figures and task.why:
        yield Card("The model's task", "not known", task.why)


def _goal(goal: GoalPart | None) -> Iterator[Card]:
    for gate in part_of(GoalPart, goal).gates:
        of = f" of {gate.of}" if gate.of else ""
        asked, reached = figure(number(gate.goal)), figure(number(gate.measured))
        how = "met" if gate.met else "not decidable" if gate.undecided else "not met"
        spread = within_db(gate.interval) if gate.kind == "sqnr" else within(gate.interval)
        value = f"{how}: {reached or 'not measured'}{spread}"
        yield Card(f"Goal: {gate.what}{of}", value, f"{asked} asked for", GOOD if gate.met else BAD)


def _shares(plan: PlanPart) -> Iterator[Card]:
    eligible, whole = number(plan.int8_share_of_eligible_macs), number(plan.int8_share_of_all_macs)
    if eligible is not None:
        yield Card(say("card.eligible", format=plan.format), percent(eligible), "of multiply-accumulates")
    if whole is not None:
        yield Card(say("card.all", format=plan.format), percent(whole), "of multiply-accumulates")
    if plan.formats is not None:
        yield Card("Number formats", plan.format, plan.formats.why)


def _engine(report: Report, near: tuple[Judged, ...]) -> list[Card]:
    engine, format, label = report.engine, report.number_format, "Compiles"
    if engine.status == "compiled":
        if engine.unread:
            return [Card(label, "yes", say("card.unread", format=format, why=engine.unread), OPEN)]
        planned, done = engine.planned or 0, engine.int8 or 0
        where = f"{engine.compiler}, sm {'' if engine.sm is None else engine.sm}"
        plan = part_of(PlanPart, report.plan)
        told = {"done": done, "planned": planned}
        value = say("card.compiled", **told, format=format)
        if plan.is_mixed:
            value = say("card.mixed", **told, formats=plan.in_words(engine.not_int8))
        tone = OPEN if done < planned else "" if _is_lost(near) else GOOD  # what is lost is not good to ship
        return [Card(label, value, where, tone)]
    if engine.status == "failed":
        return [Card(label, "no", engine.reason, BAD)]
    return [Card(label, "not asked", engine.reason, OPEN)] if engine.status else []


def _against_float16(verdict: Verdict | None) -> list[Card]:
    if verdict is None:
        return []
    worth, label = worth_of(verdict), f"{verdict.format.capitalize()} against float16"
    if worth is None:
        return [Card(label, "no verdict", verdict.reason, OPEN)] if verdict.reason else []
    note = "; ".join(filter(None, (worth.figures, say("time-it.page"))))
    return [Card(label, worth.said, note, BAD if worth.is_more else "")]


def _sizes(report: Report) -> Iterator[Card]:
    before, after = number(report.size.before), number(report.size.after)
    if before and after is not None:
        yield Card("File", f"{size(before)} → {size(after)}", f"{percent(after / before)} of the original's")
    yield from _traffic(report.verdict)
    peak, seconds = number(report.peak_memory_mb), number(report.seconds)
    if seconds is not None:
        note = f"peak memory {decimal(peak)} MiB" if peak else ""
        yield Card("The run took", f"{seconds:.1f} s", note)


def _traffic(verdict: Verdict | None) -> list[Card]:
    both = compared(verdict)
    if verdict is None or both is None:
        return []
    before, after = number(both.fp16.moved_mb), number(both.int8.moved_mb)
    if before is None or after is None:
        return []
    label, half = say("card.traffic", form=_FORMS[verdict.form]), size(before * 1e6)
    built = None if verdict.built is None else number(verdict.built.int8.moved_mb)
    if verdict.form != "merged" or built is None:
        return [Card(label, size(after * 1e6), say("card.half", size=half))]
    # the kernels that the page lists are others than the verdict's
    return [Card(label, size(after * 1e6), say("card.built", size=half, built=size(built * 1e6)))]


def _outputs(report: Report, near: tuple[Judged, ...]) -> tuple[OutputFact, ...]:
    """The rows of the table, in the order of what was judged."""
    levels = part_of(AboutMeanPart, report.about_mean).outputs
    about = {one.output: level(number(one.sqnr_about_mean_db)) + within_db(one.interval) for one in levels}
    entries = {one.output: one for one in report.accuracy}
    return tuple(
        _output(one, entries[one.output], about.get(one.output, "")) for one in near if one.output in entries
    )


def _output(one: Judged, entry: OutputOfRun, about: str) -> OutputFact:
    cosine = number(entry.cosine)
    return OutputFact(
        output=one.output,
        about_mean=about,
        sqnr=level(number(entry.sqnr_db)) + within_db(entry.sqnr_interval),
        cosine="" if cosine is None else f"{cosine:.5f}",
        worst=f"{figure(number(entry.max_abs))} of {figure(number(entry.max_ref))}",
        agreement=percent(number(entry.top1)) + within(entry.top1_interval, 100),
        tone=BAD if one.lost else "",
    )


def _stayed(kept: Sequence[KeptFloat]) -> tuple[Stayed, ...]:
    by_reason = grouped((one.because, one.node) for one in kept)
    listed = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return tuple(Stayed(because, len(nodes), tuple(nodes[:8])) for because, nodes in listed)


def _data(calibration: CalibrationPart) -> tuple[str, ...]:
    data = calibration.data
    lines = [*data.lines, *fed_lines(data.images, None if data.place is None else data.place.images)]
    if calibration.samples:
        lines.append(f"{counted(calibration.samples, 'sample')} calibrated, method {calibration.method}")
    if data.skipped is not None and data.skipped.count:
        lines.append(say("card.skipped", samples=counted(data.skipped.count, "sample")))
    return tuple(lines)


def _doubts(report: Report) -> tuple[str, ...]:
    calibration = part_of(CalibrationPart, report.calibration)
    doubts = [*part_of(GoalPart, report.goal).mismatch, *(one.text for one in calibration.data.doubts)]
    doubts += [*calibration.data.notes, *calibration.notes]
    doubts += [*part_of(BodyPart, report.body).notes, *report.notes]
    if report.runtime.original:
        doubts.insert(0, say("not-in-runtime", why=report.runtime.original))
    return tuple(dict.fromkeys(doubts))
