"""The end screen of `quantize` in a few lines: what it is about, each thing in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onnxq.advice.advise import advise
from onnxq.advice.causes import MISCOMPUTED
from onnxq.advice.worth import worth_of
from onnxq.analysis.reports import number, part_of
from onnxq.analysis.sizes import share_words, sizes_words
from onnxq.base.shown import assumed
from onnxq.cli.pages.changes import accepted_text
from onnxq.cli.pages.goal import gate_text, scores_section
from onnxq.cli.pages.words import (
    answer_lines,
    assumption_words,
    counted,
    decibels,
    say,
    size_text,
    target_words,
    within,
)
from onnxq.cli.screen import Page, cut, shorten
from onnxq.data.fed import fed_lines
from onnxq.documents.advice import Advice
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.rewrite.changes import ACCEPTED, DYNAMIC_BATCH, OFF
from onnxq.task.meter import TaskPart

_FEW = 4
_WIDE = 160


def short_screen(report: Report) -> Page:
    """What a run of `quantize` made, in a line a thing where it went well; -v says all."""
    page = Page()
    advice = advise(report)
    answer_lines(page, advice)
    settings = "" if report.config is None else f", by {report.config}"
    took = f"for {target_words(report)}, in {report.seconds:.1f} s{settings}"
    page.section("Model", f"{report.model} -> {report.output}, {took}")
    page.section("Repairs", "; ".join(_repairs(report)))
    page.section(report.number_format.capitalize(), "; ".join(_quantized(report)))
    page.section("Accuracy", "; ".join(_accuracy(report)))
    for gate in report.goal.gates if report.goal is not None else ():
        page.section("Goal", gate_text(gate), "" if gate.met else "bold red")
    if report.goal is not None and report.goal.scores is not None:
        scores_section(page, report.goal.scores, report.number_format, headed=bool(report.goal.gates))
    _careful(page, report, advice)
    for label, lines in (("Sizes", _sizes), ("Data", _data), ("Images", _images)):
        page.sections(label, lines(report))
    page.section("Files", ", ".join(_files(report)))
    builds = advice.answer != "do-not-ship" and report.engine.status != "failed"
    if builds and report.commands and report.commands[0] != advice.command:
        page.code(report.commands[0], "Build")
    page.section("More", say("short.more"))
    return page


def _sizes(report: Report) -> Iterator[str]:
    """The sizes that the engine is built for, and those that nobody stated: a line for each deployment."""
    for named in report.deployments:
        yield "; ".join([share_words(named), *sizes_words(named.dimensions)])
    if report.deployment.dimensions and not report.deployments:
        yield "; ".join(sizes_words(report.deployment.dimensions))


def _repairs(report: Report) -> Iterator[str]:
    changes, proved, repair = len(report.changes), report.proved, report.repair
    accepted = [one for one in report.changes if one.proof.code == ACCEPTED]
    kinds = (
        (proved.exact, "exact"),
        (proved.close, say("change.close")),
        (proved.unproven - len(accepted), "not proved"),
        (len(accepted), say("change.accepted")),
    )
    how = ", ".join(f"{count} {what}" for count, what in kinds if count)
    yield f"{counted(changes, 'change')} of the graph: {how}" if changes else say("change.none")
    if said := _batch(report):
        yield ": ".join([said, ", ".join(_interface(report))])
    if report.rejected:
        yield say("change.undone", changes=counted(len(report.rejected), "change"))
    for rule in dict.fromkeys(one.rule for one in report.rejected if one.proof.code == OFF):
        worst = max(
            (one.proof for one in report.rejected if (one.rule, one.proof.code) == (rule, OFF)),
            key=lambda proof: proof.max_abs,
        )
        yield say("change.off", rule=rule, how=worst.offer)
    yield from (accepted_text(one) for one in accepted)
    if repair is not None and repair.before_db is not None and repair.after_db is not None:
        kept = [one.step for one in repair.steps if one.verdict == "kept"]
        before, after = decibels(repair.before_db), decibels(repair.after_db)
        whole = "all outputs together" if len(report.accuracy) > 1 else "the output"
        s = "s" * (len(kept) == 1)
        does = "leave" if before == after else "raise" if repair.after_db > repair.before_db else "lower"
        made = {"steps": ", ".join(kept), "does": f"{does}{s}", "whole": whole}
        code = "repair.no-step" if not kept else "repair.same" if before == after else "repair.from-to"
        yield say(code, **made, before=before, after=after)
        untried = [one.step for one in repair.steps if one.verdict == "left-out"]
        if untried:
            every = ",".join(one.step for one in repair.steps)
            yield say("repair.untried", steps=", ".join(untried), all=every)


def _batch(report: Report) -> str:
    """That the batch was made dynamic, as the user states; "" where it was not."""
    return next((one.node for one in report.changes if one.rule == DYNAMIC_BATCH), "")


def _interface(report: Report) -> list[str]:
    """The inputs and outputs that are others now."""
    return [f"{one.tensor}: {one.was} -> {one.now}" for one in report.interface_changes]


def _quantized(report: Report) -> Iterator[str]:
    plan, engine, worth = part_of(PlanPart, report.plan), report.engine, worth_of(report.verdict)
    eligible = [one for one in plan.layers if one.eligible]
    done, of_all = sum(one.quantized for one in eligible), number(plan.int8_share_of_all_macs)
    share = "" if of_all is None else f", {100 * of_all:.1f} % of all multiply-accumulates"
    if eligible:
        layers = counted(len(eligible), "layer")
        yield say("short.layers", done=done, layers=layers, format=plan.format, share=share)
    else:
        yield say("short.no-layers", format=plan.format)
    nodes = {one.node for one in plan.layers}  # a repair also keeps sums in float
    if in_float := sum(one.node in nodes for one in plan.kept_float):
        yield f"{counted(in_float, 'layer')} in float"
    if plan.formats is not None:
        yield plan.formats.why
    if engine.status != "compiled":
        why = shorten(engine.reason.strip().partition("\n")[0], _WIDE)
        yield "not compiled" + f": {why}" * bool(why)
    elif engine.planned and not engine.unread:
        how = f"as planned: {plan.in_words(engine.not_int8)}" if plan.is_mixed else f"in {plan.format}"
        run = f"all {engine.planned} run {how}"
        if engine.int8 != engine.planned:
            run = f"{engine.int8} of {engine.planned} run {how if plan.is_mixed else 'in it'}"
        yield f"compiled: {run}"
    if worth is not None:
        yield f"moves {worth.moves}"


def _accuracy(report: Report) -> Iterator[str]:
    task, about = part_of(TaskPart, report.task), part_of(AboutMeanPart, report.about_mean)
    for one in task.figures[:1]:
        if one.percent is not None:
            flag = f"--task {shorten(task.layout, _WIDE)}"
            read = "" if task.stated else f" {assumed(flag, say('short.outputs'))}"
            yield f"{one.name} {one.percent:.1f} %{within(one.interval)}{read}"
    for by in () if task.labels is None else task.labels.figures[:1]:
        yield by.said
    if about.worst_output is not None:
        name = shorten(about.worst_output, 40)
        level = decibels(about.worst_output_db, about.worst_interval)
        yield say("short.worst", level=level, output=name)
    elif report.accuracy and about.left_out and all(one.percent is None for one in task.figures):
        left = about.left_out[0]
        yield f"no figure of {shorten(left.output, 40)}: {left.why}"
    if not report.accuracy:
        yield "not measured"
        return
    data, samples = (
        part_of(CalibrationPart, report.calibration),
        counted(report.accuracy[0].samples, "sample"),
    )
    yield f"on {samples} kept apart" if data.held_out_code == "apart" else f"on {data.held_out}"


def _careful(page: Page, report: Report, advice: Advice) -> None:
    """What changes for who uses the model, or was taken for granted."""
    lines = [note for note in report.notes if MISCOMPUTED in note]
    lines += [one.said for one in advice.findings if one.weight == "told" and one.said not in advice.cause]
    if report.runtime.original is not None:
        lines.append(say("not-in-runtime", why=report.runtime.original))
    lines += [f"right only where {assumption_words(one)}" for one in report.assumptions]
    lines += [] if _batch(report) else _interface(report)
    lines += [
        f"TF32 off (--noTF32): {shorten(one.tensor)}: {one.because}" for one in report.exact_products[:1]
    ]
    calibration = part_of(CalibrationPart, report.calibration)
    lines += [
        *calibration.data.notes,
        *calibration.notes,
        *part_of(BodyPart, report.body).notes,
        *report.notes,
    ]
    lines = list(dict.fromkeys(lines))
    page.sections("Careful", (cut(line, _WIDE) for line in lines[:_FEW]), "yellow")
    page.more(len(lines) - _FEW, "with -v", 0)


def _data(report: Report) -> Iterator[str]:
    """How the data were understood, in a line."""
    data = part_of(CalibrationPart, report.calibration).data
    if data.lines:
        yield "; ".join(data.lines)


def _images(report: Report) -> Iterator[str]:
    """How images become inputs."""
    data = part_of(CalibrationPart, report.calibration).data
    yield from fed_lines(data.images, None if data.place is None else data.place.images, full=False)


def _files(report: Report) -> Iterator[str]:
    model, *others = report.files
    data = f"{model}.data"
    held = [file for file in (model, data) if file in report.files]
    size = sum(Path(file).stat().st_size for file in held)
    yield f"{' and '.join(held)} {size_text(size)} (was {size_text(report.size.before)})"
    for file in others:
        if file != data:
            yield f"{file} {size_text(Path(file).stat().st_size)}"
