"""What quantization does to the engine, against plain float16: a section and a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.advice.worth import (
    ESTIMATE,
    HELPS_READING,
    MERGED,
    ONLY_A_GPU,
    compared,
    reading,
    worth_of,
)
from onnxq.cli.pages.words import FEW, counted
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.compiled.verdict import Compared, Form, Verdict
    from onnxq.documents.deployment import DeploymentPart, NamedDeployment
    from onnxq.documents.report import Report

_SHARE = 0.005
"""Layers that take less of the time are not shown."""


def verdict_section(page: Page, report: Report, *, estimated: bool = False) -> None:
    """The section of the end screen; none where the section on the engine says that there is none.

    Args:
        page: the screen.
        report: the report.
        estimated: whether the estimate of the speed is shown.
    """
    verdict = report.verdict
    if verdict is None or not (report.engine.status == "compiled" or verdict.fastest is not None):
        _reading_section(page, report)
        return
    worth = worth_of(verdict)
    several = [one for one in report.deployments if one.verdict is not None]
    if several:
        _deployments(page, several, estimated=estimated)
    elif worth is None:
        page.section("Verdict", f"none: {verdict.reason}")
    else:
        said = "; ".join(filter(None, (worth.said, worth.figures)))
        page.section("Verdict", said, "yellow" if worth.is_more else "")
        built = worth_of(verdict, "built") if verdict.form == "merged" else None
        if built is not None:
            page.entry(f"that is {MERGED}; as built by TensorRT-RTX it moves {built.moves}", style="dim")
        page.entry(f"{ONLY_A_GPU}: time it by the first line of Next, and the same model in plain float16 "
                   "(onnxq sanitize FLOAT.onnx --body fp16 --calib DATA)")  # fmt: skip
        if estimated:
            _estimate(page, compared(verdict))
    if not several:
        _reading(page, report.deployment)
    _fastest(page, verdict)


def _reading_section(page: Page, report: Report) -> None:
    """The deployments that are bound by reading weights, where no engine tells more; none: no section."""
    waiting = [f"{one.name}: {said}" for one in report.deployments if (said := reading(one))]
    if not report.deployments:
        waiting = [said for said in [reading(report.deployment)] if said]
    for place, said in enumerate(waiting):
        page.section("" if place else "Verdict", said, "yellow")
    if waiting:
        page.entry(HELPS_READING)


def _reading(page: Page, deployment: DeploymentPart | NamedDeployment) -> None:
    """That it is bound by reading weights, and what helps."""
    said = reading(deployment)
    if said:
        page.entry(said, style="yellow")
        page.entry(HELPS_READING)


def _deployments(page: Page, several: Sequence[NamedDeployment], *, estimated: bool) -> None:
    """The verdict in each of several deployments, and the memory of the engine."""
    for number, deployment in enumerate(several):
        worth = worth_of(deployment.verdict)
        if worth is None:
            said = f"none: {'' if deployment.verdict is None else deployment.verdict.reason}"
        else:
            said = "; ".join(filter(None, (worth.said, worth.figures)))
        more = worth is not None and worth.is_more
        page.section("" if number else "Verdict", f"{deployment.name}: {said}", "yellow" if more else "")
        if deployment.activation_mb is not None:
            page.entry(f"the engine takes {deployment.activation_mb:.4g} MB for activations")
        _reading(page, deployment)
        if estimated and worth is not None:
            _estimate(page, compared(deployment.verdict))
    page.entry(f"{ONLY_A_GPU}: time it by the first line of Next", style="dim")


def _estimate(page: Page, estimate: Compared | None) -> None:
    """The estimate of the speed, GPU by GPU."""
    if estimate is None:
        return
    each = ", ".join(f"{one.gpu} {one.ratio:.2f}" for one in estimate.gpus)
    page.entry(f"times as fast as plain float16, by {ESTIMATE}: {each}", style="dim")


def _fastest(page: Page, verdict: Verdict) -> None:
    """What was left in float for speed."""
    fastest = verdict.fastest
    if fastest is None:
        return
    if not fastest.layers:
        page.entry(f"no layer is left in float for speed: what was tried is no faster, by {ESTIMATE}")
        return
    page.entry(
        f"{counted(len(fastest.layers), 'layer')} left in float for speed: "
        f"{fastest.ratio_before:.2f} -> {fastest.ratio:.2f} times as fast as float16, by {ESTIMATE}; "
        f"{verdict.format} share {_percent(fastest.int8_before)} -> {_percent(fastest.int8)}"
    )
    page.names(fastest.layers)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def verdict_page(name: str, verdict: Verdict, *, estimated: bool = False) -> Page:
    """A comparison with plain float16 in both forms; `estimated`: with the estimate of the speed."""
    page = Page()
    page.head(f"{name}: {verdict.format} against plain {verdict.against}")
    if verdict.reason:
        page.section("Verdict", f"none: {verdict.reason}")
        return page
    titles: dict[Form, tuple[str, str]] = {
        "merged": ("TensorRT", MERGED),
        "built": ("For RTX", "as TensorRT-RTX builds it here"),
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
            page.entry(
                f"{what}: {counted(figures.kernels, 'kernel')}, {figures.moved_mb:.4g} MB of activations, "
                f"{figures.weights_mb:.4g} MB of weights, multiplies {macs}"
            )
        if estimated:
            _estimate(page, both)
    page.section("Faster?", f"{ONLY_A_GPU}: build both with trtexec --exportLayerInfo=F --exportProfile=G")
    page.entry(f"where its time goes: onnxq engine {shorten(name, 40)} --layer-info F --profile-times G")
    if not estimated:
        page.entry(f"-v and --gpu NAME show {ESTIMATE}", style="dim")
        return page
    losing = [figures for figures in verdict.layers if figures.ratio < 1 and figures.share >= _SHARE]
    for number, layers in enumerate(losing[: 2 * FEW]):
        more = f" +{len(layers.layers) - 1}" if len(layers.layers) > 1 else ""
        text = (
            f"{layers.ratio:.2f}  {shorten(layers.layers[0])}{more}: {100 * layers.share:.0f} % of the time, "
            f"{counted(layers.kernels_int8, 'kernel')} for {layers.kernels_fp16}"
        )
        page.section("Estimated" if number == 0 else "", text)
    if len(losing) > 2 * FEW:
        page.section("", f"+{len(losing) - 2 * FEW} more (--json)", "dim")
    for number, text in enumerate(verdict.assumptions):
        page.section("Assumed" if number == 0 else "", text, "dim")
    return page
