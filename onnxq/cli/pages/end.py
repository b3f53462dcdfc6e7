"""The end screen of `sanitize` and `quantize`: what a run did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.advice.advise import advise
from onnxq.cli.pages.accuracy import accuracy_section
from onnxq.cli.pages.body import body_section, outputs_alone
from onnxq.cli.pages.changes import changes_section, misses_section
from onnxq.cli.pages.engine import engine_section
from onnxq.cli.pages.goal import goal_section
from onnxq.cli.pages.plan import plan_section
from onnxq.cli.pages.repair import repair_section
from onnxq.cli.pages.size import files_section, size_section
from onnxq.cli.pages.task import task_section
from onnxq.cli.pages.verdict import verdict_section
from onnxq.cli.pages.words import FEW, answer_lines, assumption_words, say, target_words
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.advice import Advice
    from onnxq.documents.changes import NotTaken, TakenByRuntime
    from onnxq.documents.report import Report


def end_screen(report: Report) -> Page:
    """What a run of `sanitize` or `quantize` did."""
    page = Page()
    advice = advise(report)
    answer_lines(page, advice)
    page.head(f"{report.model} -> {report.output}")
    _runtime(page, report.runtime)
    page.section("Target", f"{target_words(report)}, done in {report.seconds:.1f} s")
    page.sections("Settings", filter(None, [report.config]))
    changes_section(page, report)
    misses_section(page, report.near_misses)
    plan, calibration, body = report.plan, report.calibration, report.body
    if plan and calibration:
        plan_section(page, report, plan, calibration)
    _unsupported(page, [one for one in report.unsupported if not _is_told(one, advice)])
    for assumption in report.assumptions:
        page.section("Assumed", assumption_words(assumption))
    for change in report.interface_changes:
        page.section("Interface", f"{change.tensor}: {change.was} -> {change.now}", "yellow")
    for product in report.exact_products[:1]:
        page.section("TF32", f"off (--noTF32): {shorten(product.tensor)}: {product.because}")
    if plan and calibration and body:
        repair_section(page, report.repair)
        body_section(page, body)
        accuracy_section(page, report.accuracy, calibration, body, report.about_mean, plan.format)
        task_section(page, report.task)
        if report.goal is not None:
            goal_section(page, report.goal, plan.format)
        engine_section(page, report.engine, plan)
        verdict_section(page, report)
    if not plan:
        for note in report.notes:
            page.section("Careful", note, "yellow")
        if body:
            body_section(page, body)
            outputs_alone(page, body)
        size_section(page, report.size, quantized=False)
    files_section(page, report.files)
    anyway = say("build-anyway") if advice.answer == "do-not-ship" else ""
    for number, line in enumerate(report.commands):
        if number == 0:
            page.section("Next", anyway)
        page.code(line)
    if report.commands and report.profiles and not report.plan and not report.calibration:
        page.entry(say("sizes-of-one"), style="yellow")
    return page


def _runtime(page: Page, runtime: TakenByRuntime) -> None:
    """That onnxruntime does not take the original: the reader must know it before everything else."""
    if runtime.original is not None:
        taken = say("not-in-runtime.result" if runtime.result is None else "not-in-runtime.neither")
        taken += f"; NVIDIA's parser {runtime.parser}" if runtime.parser is not None else ""
        page.section("Careful", say("not-in-runtime", why=runtime.original), "yellow")
        page.entry(taken, style="yellow")


def _is_told(entry: NotTaken, advice: Advice) -> bool:
    """Whether the answer has it already, as a whole."""
    said = (advice.because, advice.cause)
    return entry.advice in ("", advice.do) and any(entry.node in one and entry.reason in one for one in said)


def _unsupported(page: Page, entries: Sequence[NotTaken]) -> None:
    for number, entry in enumerate(entries[:FEW]):
        text = entry.reason
        if entry.node:
            text = f"{shorten(entry.node)} ({entry.op}): {text}"
        page.section("Not taken" if number == 0 else "", text, "yellow")
        page.entry(entry.advice)
    page.more(len(entries) - FEW, "in the report", 0)
