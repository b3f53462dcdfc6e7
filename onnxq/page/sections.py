"""The short sections of the page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnxq.advice.asked import again
from onnxq.advice.worth import reading, worth_of
from onnxq.analysis.diff.compared import compare_reports
from onnxq.analysis.diff.rows import RunDifference
from onnxq.analysis.reports import OpenedReport, number, part_of
from onnxq.analysis.sizes import share_words, sizes_words, worth_words
from onnxq.base.reason import say
from onnxq.base.shown import capitalized
from onnxq.documents.advice import Advice, LikelyCause
from onnxq.documents.analysis import Analysis, LayerErrors, OutputBeside, ValueBeside
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.changes import NotTaken
from onnxq.documents.deployment import DeploymentPart, NamedDeployment
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.options.command_line import accepted
from onnxq.options.settings import Margins
from onnxq.page.samples import ShownPicture, shown
from onnxq.page.words import counted, figure, file_name, level, percent
from onnxq.task.output_pictures import OUTPUTS, SAMPLES, OutputPictures, PictureBeside

_CHECKS = 200


@dataclass(frozen=True, slots=True)
class ChecksView:
    """The section.

    Attributes:
        checks: what the target does not take.
        more: how many are not listed.
        format: the number format of the run.
        missed: layers that were planned in it and do not run in it.
        float32: what stays float32 in the body, with the reason.
        suspicious: layers that an analysis finds suspicious.
    """

    checks: tuple[NotTaken, ...]
    more: int
    format: str
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
        f"{one.node} ({one.op}): {one.because}" for one in part_of(BodyPart, report.body).float32[:_CHECKS]
    )
    view = ChecksView(
        unsupported[:_CHECKS], max(0, len(unsupported) - _CHECKS), report.number_format, missed[:_CHECKS],
        float32, suspicious[:_CHECKS],
    )  # fmt: skip
    return view if unsupported or missed or float32 or suspicious else None


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


_KINDS = ("map", "heat", "classes", "mask")


@dataclass(frozen=True, slots=True)
class PicturesRow:
    """A sample.

    Attributes:
        where: the sample, a file without its folder.
        off: how far the result is off in it.
        pictures: float, result, difference.
    """

    where: str
    off: str
    pictures: tuple[ShownPicture, ShownPicture, ShownPicture]


@dataclass(frozen=True, slots=True)
class PicturesView:
    """An output.

    Attributes:
        output: its name.
        title: what is drawn, and how values became colors.
        rows: the samples, the worst first.
    """

    output: str
    title: str
    rows: tuple[PicturesRow, ...]


def pictures_of(outputs: Sequence[OutputPictures]) -> tuple[PicturesView, ...]:
    """The outputs of a report that are pictures; what is no PNG file is left out."""
    views = (
        PicturesView(one.output, _title(one), tuple(filter(None, map(_row, one.pictures[:SAMPLES]))))
        for one in outputs[:OUTPUTS]
    )
    return tuple(view for view in views if view.rows)


def _title(one: OutputPictures) -> str:
    low, high, most = (number(value) for value in (one.low, one.high, one.most))
    form = one.kind if one.kind in _KINDS else "colors" if one.channels == 3 else "channels"
    parts = [say(f"drawn.{form}", channels=one.channels)]
    if low is not None and high is not None:
        parts.append(say("drawn.ends", low=figure(low), high=figure(high)))
    if most is not None:
        parts.append(say("drawn.most", most=figure(most)))
    elif one.kind in ("classes", "mask"):
        parts.append(say("drawn.other"))
    return say("drawn", parts="; ".join(parts), samples=counted(one.samples, "sample"), why=one.why)


def _row(one: PictureBeside) -> PicturesRow | None:
    kinds = (("float", one.reference), ("result", one.result), ("difference", one.difference))
    drawn = [shown(f"{kind}, {one.where}", one.width, one.height, png) for kind, png in kinds]
    if None in drawn:
        return None
    changed = number(one.changed)
    level_of = level(number(one.sqnr_db))
    off = level_of if changed is None else say("drawn.changed", percent=percent(changed, 2))
    first, second, third = (picture for picture in drawn if picture is not None)
    return PicturesRow(file_name(one.where), off, (first, second, third))


@dataclass(frozen=True, slots=True)
class ReproduceView:
    """The section.

    Attributes:
        facts: versions, hashes and settings: what each is, and its value.
        commands: the command line of the run, and those to go on with.
        files: what was written.
        phases: the steps, with seconds and their share of the longest.
    """

    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    files: tuple[str, ...]
    phases: tuple[tuple[str, str, float], ...]


def reproduce_view(report: Report) -> ReproduceView:
    """How a result came about."""
    spent = {name: number(took) or 0.0 for name, took in report.phases.items()}
    longest = max(spent.values(), default=0.0) or 1.0
    return ReproduceView(
        facts=tuple((label, value) for label, value in _facts(report) if value),
        commands=(*filter(None, [again(report)]), *report.commands),
        files=report.files,
        phases=tuple((name, f"{took:.2f} s", took / longest) for name, took in spent.items()),
    )


def _facts(report: Report) -> list[tuple[str, str]]:
    calibration, body = part_of(CalibrationPart, report.calibration), part_of(BodyPart, report.body)
    asked, place = part_of(RepairPart, report.repair).asked, calibration.data.place
    facts: dict[str, str | int | None] = {
        "onnxq": report.onnxq, "model": report.model, "result": report.output,
        "SHA-256 of the result": report.sha256, "target": report.target, "opset": report.opset,
        "IR version": report.ir_version, "compiler": report.engine.compiler,
        "device": report.device, "compute capability": report.engine.sm, "settings file": report.config,
        "plan file": part_of(PlanPart, report.plan).file, "seed": calibration.seed,
        "method": calibration.method, "statistics file": calibration.stats_file,
        "held out": calibration.held_out, "body": body.type, "the body because": body.because,
        "weight scales": body.scale_form,
        "repair asked for": asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False),
        "data": None if place is None else place.path,
    }  # fmt: skip
    return [(label, "" if value is None else str(value)) for label, value in facts.items()]


_DIFFERENCES = 500


@dataclass(frozen=True, slots=True)
class RunDiffView:
    """The section.

    Attributes:
        other: the report that is compared with, and who wrote it.
        this: that of the page.
        counts: how many differences have each verdict, in words.
        lines: the differences, the worst first.
        more: how many are not listed.
        notes: what makes the comparison doubtful.
        missing: what is not compared.
    """

    other: str
    this: str
    counts: str
    lines: tuple[RunDifference, ...]
    more: int
    notes: tuple[str, ...]
    missing: tuple[str, ...]


def run_diff_view(other: OpenedReport, this: OpenedReport) -> RunDiffView:
    """What a run has otherwise than another one."""
    diff = compare_reports(other, this, Margins(), ())
    return RunDiffView(
        other=f"{diff.a.report} (onnxq {diff.a.onnxq})",
        this=f"{diff.b.report} (onnxq {diff.b.onnxq})",
        counts=", ".join(f"{count} {verdict}" for verdict, count in diff.counts.items() if count) or "none",
        lines=diff.differences[:_DIFFERENCES],
        more=max(0, len(diff.differences) - _DIFFERENCES),
        notes=diff.notes,
        missing=tuple(
            f"{one.part}: not in {one.of}{f' ({one.why})' if one.why else ''}" for one in diff.missing
        ),
    )


@dataclass(frozen=True, slots=True)
class SizesOf:
    """A deployment.

    Attributes:
        title: its name, and its share of the work; "" of the only one.
        lines: its sizes, what they decide, and what quantization does to the engine at them.
    """

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SizesView:
    """The section.

    Attributes:
        deployments: each of them.
        profiles: the profiles of the engine: the inputs, with their smallest, usual and largest shape.
    """

    deployments: tuple[SizesOf, ...]
    profiles: tuple[str, ...]


def sizes_view(report: Report) -> SizesView | None:
    """What a run decided for; None where all sizes are static, or the report is older and has no profiles."""
    named = report.deployments or ()
    sizes = [SizesOf(share_words(one), _lines(one)) for one in named]
    if not sizes and report.deployment and report.deployment.dimensions:
        sizes = [SizesOf("", _lines(report.deployment))]
    profiles = [(f"{one.name}: ", one.profiles) for one in named] or [("", report.profiles)]
    said = [
        f"{of}{name} {' : '.join(' × '.join(map(str, shape)) for shape in shapes)}"
        for of, each in profiles
        for name, shapes in (each or {}).items()
    ]
    return SizesView(tuple(sizes), tuple(said)) if sizes or said else None


def _lines(one: DeploymentPart | NamedDeployment) -> tuple[str, ...]:
    lines = [*sizes_words(one.dimensions or ()), worth_words(one.worth or ())]
    if isinstance(one, NamedDeployment):
        worth = worth_of(one.verdict)
        lines.append("" if worth is None else worth.line)
        if one.activation_mb is not None:
            lines.append(say("engine-memory", megabytes=one.activation_mb))
    said = reading(one)
    lines += [said, say("worth.helps-reading")] if said else []
    return tuple(filter(None, lines))


@dataclass(frozen=True, slots=True)
class WorstOutput:
    """An output of the sample.

    Attributes:
        output: its name.
        argmax: where the greatest value is in both; "" of what is not one vector.
        same: whether that is the same place.
        values: those that differ most.
    """

    output: str
    argmax: str
    same: bool
    values: tuple[ValueBeside, ...]


@dataclass(frozen=True, slots=True)
class WorstView:
    """The sample whose outputs are furthest off.

    Attributes:
        where: which sample it is.
        sqnr: its outputs together.
        outputs: each.
    """

    where: str
    sqnr: str
    outputs: tuple[WorstOutput, ...]


def worst_view(analysis: Analysis | LayerErrors | None) -> WorstView | None:
    """The worst sample of an analysis; None where there is none."""
    worst = analysis.worst if analysis is not None else None
    if worst is None:
        return None
    where = f"sample {worst.sample}" + (f", {worst.where}" if worst.where else "")
    return WorstView(where, level(number(worst.sqnr_db)), tuple(map(_output, worst.outputs)))


def _output(one: OutputBeside) -> WorstOutput:
    ours, theirs = one.argmax
    one_class = None not in one.argmax and one.shape is not None and all(size == 1 for size in one.shape[:-1])
    return WorstOutput(
        output=one.output,
        argmax=f"{ours} in float, {theirs} here" if one_class else "",  # else it holds no one answer
        same=not one_class or ours == theirs,
        values=one.values,
    )
