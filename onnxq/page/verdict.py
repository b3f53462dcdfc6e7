"""The first section: whether to ship, by figures, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.lost import ADVICE, LEAST_AGREEMENT, LEAST_SQNR, Judged, lost_words, outputs_of
from onnxq.analysis.reports import OpenedReport, names, number, objects, text
from onnxq.analysis.worth import ESTIMATE, ONLY_A_GPU, worth_of
from onnxq.page.words import between, counted, decimal, figure, level, percent, size, tail

GOOD, OPEN, BAD = "good", "open", "bad"
_FORMS = {"merged": "merged", "built": "as built"}
_USUAL_AGREEMENT = 0.9
_NAME = 80


@dataclass(frozen=True, slots=True)
class Fact:
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
class GpuFact:
    """What is estimated for a GPU.

    Attributes:
        gpu: its name.
        ratio: how many times as fast int8 is as float16.
    """

    gpu: str
    ratio: str


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
        alarms: what nobody may overlook.
        facts: the figures.
        outputs: each output.
        gpus: each GPU of the estimate.
        estimate: what the estimate is.
        assumptions: what the estimate assumes.
        stayed: what stays in float, the most frequent reason first.
        data: how the data were understood.
        doubts: what is doubtful about data, ranges and the run.
    """

    alarms: tuple[str, ...]
    facts: tuple[Fact, ...]
    outputs: tuple[OutputFact, ...]
    gpus: tuple[GpuFact, ...]
    estimate: str
    assumptions: tuple[str, ...]
    stayed: tuple[Stayed, ...]
    data: tuple[str, ...]
    doubts: tuple[str, ...]


def verdict_view(report: OpenedReport) -> VerdictView:
    """What a report says to who decides."""
    near = outputs_of(report)
    facts = (
        *_accuracy(report, near), *_goal(report), *_shares(report), *_engine(report, near), *_speed(report),
        *_sizes(report),
    )  # fmt: skip
    found = _form(report)
    return VerdictView(
        alarms=tuple(_alarms(report, near)),
        facts=facts,
        outputs=_outputs(report, near),
        gpus=tuple(
            GpuFact(text(one.get("gpu")), between(number(one.get("ratio")), number(one.get("ratio"))))
            for one in objects(found.get("gpus"))
        ),
        estimate=ESTIMATE,
        assumptions=names(report.at("verdict", "assumptions")),
        stayed=_stayed(report),
        data=_data(report),
        doubts=_doubts(report),
    )  # fmt: skip


def _alarms(report: OpenedReport, near: tuple[Judged, ...]) -> Iterator[str]:
    if report.at("engine", "regressed"):
        why = text(report.at("engine", "regression", "reason")) or text(report.at("engine", "reason"))
        yield f"The result does not compile, and the original does: {why}"
    bad = [one for one in report.entries("accuracy") if (number(one.get("nonfinite")) or 0) > 0]
    if bad:
        yield f"Output {text(bad[0].get('output'))!r} has NaN or infinities that the float model's has not"
    if said := lost_words(near, _short):
        yield f"The accuracy is lost: {said}. {ADVICE[0].upper()}{ADVICE[1:]}"


def _is_lost(near: tuple[Judged, ...]) -> bool:
    return any(one.lost for one in near)


def _tone(decibels: float, lost: bool) -> str:
    return BAD if lost else OPEN if decibels < LEAST_SQNR else ""


def _short(name: str) -> str:
    return tail(name, _NAME)


def _accuracy(report: OpenedReport, near: tuple[Judged, ...]) -> list[Fact]:
    about, facts = report.part("about_mean"), []
    samples = number(about.get("samples"))
    note = f"on {counted(int(samples), 'sample')} held out of calibration" if samples else ""
    together = number(about.get("sqnr_about_mean_db"))
    if together is not None:
        tone = _tone(together, _is_lost(near))
        facts.append(Fact("Accuracy, SQNR about the mean", level(together), note, tone))
    elif text(report.at("calibration", "not_verified")):
        facts.append(Fact("Accuracy", "not verified", text(report.at("calibration", "not_verified")), OPEN))
    worst = next((one for one in near if one.output and one.level_db is not None), None)
    if worst is not None and worst.level_db is not None:
        tone = _tone(worst.level_db, worst.lost)
        facts.append(Fact("Worst output", level(worst.level_db), _short(worst.output), tone))
    same = [value for one in report.entries("accuracy") if (value := number(one.get("top1"))) is not None]
    if same:
        least = min(same)
        tone = BAD if least < LEAST_AGREEMENT else OPEN if least < _USUAL_AGREEMENT else ""
        facts.append(Fact("Agreement of the argmax", percent(least), "the least of all outputs", tone))
    scores = report.part("goal", "scores")
    if scores:
        first, second = (number(scores.get(key)) for key in ("float", "int8"))
        reached = number(scores.get("result"))
        facts.append(
            Fact("Score", f"{figure(first)} → {figure(reached if reached is not None else second)}",
                 text(scores.get("function")))
        )  # fmt: skip
    return facts


def _goal(report: OpenedReport) -> list[Fact]:
    facts = []
    for gate in report.entries("goal", "gates"):
        met = bool(gate.get("met"))
        of = f" of {text(gate.get('of'))}" if gate.get("of") else ""
        asked, reached = figure(number(gate.get("goal"))), figure(number(gate.get("measured")))
        value = f"{'met' if met else 'not met'}: {reached or 'not measured'}"
        facts.append(
            Fact(f"Goal: {text(gate.get('what'))}{of}", value, f"{asked} asked for", GOOD if met else BAD)
        )
    return facts


def _shares(report: OpenedReport) -> list[Fact]:
    eligible = number(report.at("plan", "int8_share_of_eligible_macs"))
    whole = number(report.at("plan", "int8_share_of_all_macs"))
    facts = []
    if eligible is not None:
        facts.append(Fact("In int8, of eligible work", percent(eligible), "of multiply-accumulates"))
    if whole is not None:
        facts.append(Fact("In int8, of all work", percent(whole), "of multiply-accumulates"))
    return facts


def _engine(report: OpenedReport, near: tuple[Judged, ...]) -> list[Fact]:
    engine = report.part("engine")
    status, label = text(engine.get("status")), "Compiles"
    if status == "compiled":
        if engine.get("unread"):
            return [Fact(label, "yes", f"what runs in int8 is not known: {text(engine['unread'])}", OPEN)]
        planned, done = number(engine.get("planned")) or 0, number(engine.get("int8")) or 0
        where = f"{text(engine.get('compiler'))}, sm {text(engine.get('sm'))}"
        value = f"yes, {done:.0f} of {planned:.0f} planned layers in int8"
        tone = OPEN if done < planned else "" if _is_lost(near) else GOOD  # what is lost is not good to ship
        return [Fact(label, value, where, tone)]
    if status == "failed":
        return [Fact(label, "no", text(engine.get("reason")), BAD)]
    return [Fact(label, "not asked", text(engine.get("reason")), OPEN)] if status else []


def _form(report: OpenedReport) -> Mapping[str, Any]:
    form = report.at("verdict", "form")
    return report.part("verdict", form) if form in tuple(_FORMS) else {}


def _speed(report: OpenedReport) -> list[Fact]:
    worth = worth_of(report)
    if worth is None:
        reason = text(report.at("verdict", "reason"))
        return [Fact("Int8 against float16", "no verdict", reason, OPEN)] if reason else []
    note = "; ".join(filter(None, (worth.figures, ONLY_A_GPU)))
    return [Fact("Int8 against float16", worth.said, note, BAD if worth.is_more else "")]


def _sizes(report: OpenedReport) -> list[Fact]:
    before, after = (number(report.at("size", key)) for key in ("before", "after"))
    facts = []
    if before and after is not None:
        facts.append(
            Fact("File", f"{size(before)} → {size(after)}", f"{percent(after / before)} of the original's")
        )
    form = text(report.at("verdict", "form"))
    moved = [number(report.at("verdict", form, kind, "moved_mb")) for kind in ("fp16", "int8")]
    if form in _FORMS and None not in moved:
        first, second = (size((one or 0) * 1e6) for one in moved)
        facts.append(Fact(f"Memory traffic of a run, {_FORMS[form]}", second,
                          f"{first} in plain float16{_as_built(report)}"))  # fmt: skip
    peak = number(report.at("peak_memory_mb"))
    seconds = number(report.at("seconds"))
    if seconds is not None:
        note = f"peak memory {decimal(peak)} MiB" if peak else ""
        facts.append(Fact("The run took", f"{seconds:.1f} s", note))
    return facts


def _as_built(report: OpenedReport) -> str:
    """The figure of the kernels that the page lists, where the verdict's is that of others."""
    built = number(report.at("verdict", "built", "int8", "moved_mb"))
    if report.at("verdict", "form") != "merged" or built is None:
        return ""
    return (
        f"; as built by TensorRT-RTX {size(built * 1e6)} (the kernels below), which has kernels of their own "
        "for what TensorRT does at the end of a product's"
    )


def _outputs(report: OpenedReport, near: tuple[Judged, ...]) -> tuple[OutputFact, ...]:
    """The rows of the table, in the order of what was judged."""
    about = report.by("output", "about_mean", "outputs")
    entries = report.by("output", "accuracy")
    return tuple(
        _output(one, entries[one.output], about.get(one.output, {})) for one in near if one.output in entries
    )


def _output(one: Judged, entry: Mapping[str, Any], about: Mapping[str, Any]) -> OutputFact:
    cosine = number(entry.get("cosine"))
    return OutputFact(
        output=one.output,
        about_mean=level(number(about.get("sqnr_about_mean_db"))),
        sqnr=level(number(entry.get("sqnr_db"))),
        cosine="" if cosine is None else f"{cosine:.5f}",
        worst=f"{figure(number(entry.get('max_abs')))} of {figure(number(entry.get('max_ref')))}",
        agreement=percent(number(entry.get("top1"))),
        tone=BAD if one.lost else "",
    )


def _stayed(report: OpenedReport) -> tuple[Stayed, ...]:
    by_reason: dict[str, list[str]] = {}
    for one in report.entries("plan", "kept_float"):
        by_reason.setdefault(text(one.get("because")), []).append(text(one.get("node")))
    listed = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return tuple(Stayed(because, len(found), tuple(found[:8])) for because, found in listed)


def _data(report: OpenedReport) -> tuple[str, ...]:
    lines = list(names(report.at("calibration", "data", "lines")))
    for one in report.entries("calibration", "data", "images"):
        span = one.get("range")
        ends = [number(end) for end in span] if isinstance(span, list) else []
        low_high = f", from {figure(ends[0])} to {figure(ends[1])}" if len(ends) == 2 else ""
        lines.append(
            f"{text(one.get('input'))} is fed {text(one.get('layout'))}, {text(one.get('color'))}, "
            f"{text(one.get('size'))}; {text(one.get('dtype'))}{low_high}; factor "
            f"{figure(number(one.get('scale')))}, mean {_numbers(one.get('mean'))}, "
            f"deviation {_numbers(one.get('std'))}"
        )
    samples = number(report.at("calibration", "samples"))
    if samples:
        lines.append(
            f"{counted(int(samples), 'sample')} calibrated, method {text(report.at('calibration', 'method'))}"
        )
    skipped = number(report.at("calibration", "data", "skipped", "count"))
    if skipped:
        lines.append(f"{skipped:.0f} samples could not be read and were skipped")
    return tuple(lines)


def _numbers(value: Any) -> str:
    return ", ".join(figure(number(one)) for one in value) if isinstance(value, list) else ""


def _doubts(report: OpenedReport) -> tuple[str, ...]:
    found: list[str] = []
    for keys in (("calibration", "data", "doubts"), ("calibration", "data", "notes"),
                 ("calibration", "notes"), ("body", "notes"), ("notes",)):  # fmt: skip
        said = report.at(*keys)
        for one in said if isinstance(said, list) else ():
            line = text(one.get("text") or one.get("what")) if isinstance(one, dict) else text(one)
            found.append(line or text(one))
    runtime = text(report.at("runtime", "original"))
    if runtime:
        found.insert(0, f"onnxruntime does not take the original: {runtime}")
    return tuple(dict.fromkeys(found))
