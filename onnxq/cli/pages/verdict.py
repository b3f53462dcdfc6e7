"""What quantization does to the engine, against plain float16: a section and a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.advice.worth import compared, reading, worth_of
from onnxq.cli.pages.words import FEW, counted, first_of, say
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.compiled.verdict import Form, Verdict
    from onnxq.documents.deployment import DeploymentPart, NamedDeployment
    from onnxq.documents.report import Report

_SHOWN = 0.005
"""Layers that move less more, as a share of what float16 moves, are not shown."""


def verdict_section(page: Page, report: Report) -> None:
    """The section of the end screen; none where the section on the engine says that there is none."""
    verdict = report.verdict
    if verdict is None or report.engine.status != "compiled":
        _reading_section(page, report)
        return
    worth = worth_of(verdict)
    several = [one for one in report.deployments if one.verdict is not None]
    if several:
        _deployments(page, several)
    elif worth is None:
        page.section("Verdict", f"none: {verdict.reason}")
    else:
        page.section("Verdict", worth.line, "yellow" if worth.is_more else "")
        built = worth_of(verdict, "built") if verdict.form == "merged" else None
        if built is not None:
            page.entry(say("worth.beside", form=say("worth.merged"), moves=built.moves), style="dim")
        page.entry(say("time-it.half"))
    if not several:
        _reading(page, report.deployment)


def _reading_section(page: Page, report: Report) -> None:
    """The deployments that are bound by reading weights, where no engine tells more; none: no section."""
    waiting = [f"{one.name}: {said}" for one in report.deployments if (said := reading(one))]
    if not report.deployments:
        waiting = [said for said in [reading(report.deployment)] if said]
    page.sections("Verdict", waiting, "yellow")
    if waiting:
        page.entry(say("worth.helps-reading"))


def _reading(page: Page, deployment: DeploymentPart | NamedDeployment) -> None:
    """That it is bound by reading weights, and what helps."""
    said = reading(deployment)
    if said:
        page.entry(said, style="yellow")
        page.entry(say("worth.helps-reading"))


def _deployments(page: Page, several: Sequence[NamedDeployment]) -> None:
    """The verdict in each of several deployments, and the memory of the engine."""
    for number, deployment in enumerate(several):
        worth = worth_of(deployment.verdict)
        if worth is None:
            said = f"none: {'' if deployment.verdict is None else deployment.verdict.reason}"
        else:
            said = worth.line
        more = worth is not None and worth.is_more
        page.section("" if number else "Verdict", f"{deployment.name}: {said}", "yellow" if more else "")
        if deployment.activation_mb is not None:
            page.entry(say("engine-memory", megabytes=deployment.activation_mb))
        _reading(page, deployment)
    page.entry(say("time-it"), style="dim")


def verdict_page(name: str, verdict: Verdict) -> Page:
    """A comparison with plain float16 in both forms."""
    page = Page()
    page.head(f"{name}: {verdict.format} against plain {verdict.against}")
    if verdict.reason:
        page.section("Verdict", f"none: {verdict.reason}")
        return page
    titles: dict[Form, tuple[str, str]] = {
        "merged": ("TensorRT", say("worth.merged")),
        "built": ("For RTX", say("worth.built")),
    }
    for form in sorted(titles, key=lambda form: form != verdict.form):
        title, note = titles[form]
        worth, both = worth_of(verdict, form), compared(verdict, form)
        page.section(title, note if worth is None else worth.said)
        if worth is not None:
            page.entry(worth.figures)
            page.entry(note)
        for what, figures in (("fp16", both.fp16), (verdict.format, both.int8)) if both is not None else ():
            macs = ", ".join(f"{kind} {count / 1e6:,.0f} M" for kind, count in figures.macs.items())
            kernels, held = counted(figures.kernels, "kernel"), figures.weights_mb
            moved = {"moved": figures.moved_mb, "weights": held}
            page.entry(say("worth.engine", what=what, kernels=kernels, **moved, macs=macs))
    page.section("Faster?", say("time-it.both"))
    page.entry(say("time-it.where", name=shorten(name, 40)))
    both = verdict.compared
    least = 0.0 if both is None else _SHOWN * (both.fp16.moved_mb + both.fp16.weights_mb)
    losing = [layers for layers in verdict.layers if layers.int8_mb - layers.fp16_mb > least]
    for number, layers in enumerate(losing[: 2 * FEW]):
        text = (
            f"{first_of(layers.layers)}: {layers.int8_mb:.4g} MB for {layers.fp16_mb:.4g}, "
            f"{counted(layers.kernels_int8, 'kernel')} for {layers.kernels_fp16}"
        )
        page.section("Moves more" if number == 0 else "", text)
    page.more(len(losing) - 2 * FEW, "(--json)", 0)
    page.sections("Assumed", verdict.assumptions, "dim")
    return page
