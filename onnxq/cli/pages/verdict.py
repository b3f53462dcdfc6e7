"""What int8 does to the engine, against plain float16: a section of the end screen, and a page of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxq.analysis.reports import OpenedReport
from onnxq.analysis.worth import ESTIMATE, HELPS_READING, MERGED, ONLY_A_GPU, reading, worth_of
from onnxq.cli.pages.words import FEW, counted
from onnxq.cli.screen import Page, shorten
from onnxq.compiled.verdict import Verdict
from onnxq.documents.json_values import to_json
from onnxq.typed import typed

_SHARE = 0.005
"""Layers that take less of the time are not shown."""


def verdict_section(page: Page, report: Mapping[str, Any], *, estimated: bool = False) -> None:
    """The section of the end screen; none where the section on the engine says that there is none.

    Args:
        page: the screen.
        report: the report.
        estimated: whether the estimate of the speed is shown.
    """
    verdict = report["verdict"]
    if verdict is None or (report["engine"]["status"] != "compiled" and verdict["fastest"] is None):
        reading_section(page, report)
        return
    opened = OpenedReport("", report)
    worth = worth_of(opened)
    several = [one for one in report.get("deployments") or () if one["verdict"] is not None]
    if several:
        _deployments(page, several, estimated=estimated)
    elif worth is None:
        page.section("Verdict", f"none: {verdict['reason']}")
    else:
        said = "; ".join(filter(None, (worth.said, worth.figures)))
        page.section("Verdict", said, "yellow" if worth.is_more else "")
        built = worth_of(compared, "built") if verdict["form"] == "merged" else None
        if built is not None:
            page.entry(f"that is {MERGED}; as built by TensorRT-RTX it moves {built.moves}", style="dim")
        page.entry(f"{ONLY_A_GPU}: time it by the first line of Next, and the same model in plain float16 "
                   "(onnxq sanitize FLOAT.onnx --body fp16 --calib DATA)")  # fmt: skip
        if estimated:
            _estimate(page, verdict[verdict["form"]])
    if not several:
        _reading(page, [report.get("deployment") or {}])
    _fastest(page, verdict["fastest"])


def reading_section(page: Page, report: Mapping[str, Any]) -> None:
    """The deployments that are bound by reading weights, where no engine tells more; none: no section."""
    named = report.get("deployments") or ()
    waiting = [(one, said) for one in named or [report.get("deployment") or {}] if (said := reading(one))]
    for place, (one, said) in enumerate(waiting):
        page.section("" if place else "Verdict", f"{one['name']}: {said}" if named else said, "yellow")
    if waiting:
        page.entry(HELPS_READING)


def _reading(page: Page, deployments: Sequence[Mapping[str, Any]]) -> None:
    """That one is bound by reading weights, and what helps."""
    for said in filter(None, map(reading, deployments)):
        page.entry(said, style="yellow")
        page.entry(HELPS_READING)


def _deployments(page: Page, several: Sequence[Mapping[str, Any]], *, estimated: bool) -> None:
    """The verdict in each of several deployments, and the memory of the engine."""
    for number, one in enumerate(several):
        verdict = one["verdict"]
        worth = worth_of(OpenedReport("", {"verdict": verdict}))
        if worth is None:
            said = f"none: {verdict['reason']}"
        else:
            said = "; ".join(filter(None, (worth.said, worth.figures)))
        more = worth is not None and worth.is_more
        page.section("" if number else "Verdict", f"{one['name']}: {said}", "yellow" if more else "")
        if one["activation_mb"] is not None:
            page.entry(f"the engine takes {one['activation_mb']:.4g} MB for activations")
        _reading(page, [one])
        if estimated and worth is not None:
            _estimate(page, verdict[verdict["form"]])
    page.entry(f"{ONLY_A_GPU}: time it by the first line of Next", style="dim")


def _estimate(page: Page, found: Mapping[str, Any]) -> None:
    """The estimate of the speed, GPU by GPU."""
    each = ", ".join(f"{one['gpu']} {one['ratio']:.2f}" for one in found["gpus"])
    page.entry(f"times as fast as plain float16, by {ESTIMATE}: {each}", style="dim")


def _fastest(page: Page, fastest: Mapping[str, Any] | None) -> None:
    """What was left in float for speed."""
    if fastest is None:
        return
    if not fastest["layers"]:
        page.entry(f"no layer is left in float for speed: what was tried is no faster, by {ESTIMATE}")
        return
    page.entry(
        f"{counted(len(fastest['layers']), 'layer')} left in float for speed: "
        f"{fastest['ratio_before']:.2f} -> {fastest['ratio']:.2f} times as fast as float16, by {ESTIMATE}; "
        f"int8 share {_percent(fastest['int8_before'])} -> {_percent(fastest['int8'])}"
    )
    page.names(fastest["layers"])


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def verdict_page(name: str, verdict: Mapping[str, Any], *, estimated: bool = False) -> Page:
    """A comparison with plain float16 in both forms; `estimated`: with the estimate of the speed."""
    page = Page()
    page.head(f"{name}: int8 against plain {verdict['against']}")
    if verdict["reason"]:
        page.section("Verdict", f"none: {verdict['reason']}")
        return page
    titles = {"merged": ("TensorRT", MERGED), "built": ("For RTX", "as TensorRT-RTX builds it here")}
    for form in sorted(titles, key=lambda form: form != verdict["form"]):
        title, note = titles[form]
        worth = worth_of(typed(Verdict, to_json(verdict)), form)
        page.section(title, note if worth is None else worth.said)
        if worth is not None:
            page.entry(worth.figures)
            page.entry(note)
        for what in ("fp16", "int8"):
            one = verdict[form][what]
            macs = ", ".join(f"{kind} {count / 1e6:,.0f} M" for kind, count in one["macs"].items())
            page.entry(
                f"{what}: {counted(one['kernels'], 'kernel')}, {one['moved_mb']:.4g} MB of activations, "
                f"{one['weights_mb']:.4g} MB of weights, multiplies {macs}"
            )
        if estimated:
            _estimate(page, verdict[form])
    page.section("Faster?", f"{ONLY_A_GPU}: build both with trtexec --exportLayerInfo=F --exportProfile=G")
    page.entry(f"where its time goes: onnxq engine {shorten(name, 40)} --layer-info F --profile-times G")
    if not estimated:
        page.entry(f"-v and --gpu NAME show {ESTIMATE}", style="dim")
        return page
    losing = [one for one in verdict["layers"] if one["ratio"] < 1 and one["share"] >= _SHARE]
    for number, one in enumerate(losing[: 2 * FEW]):
        more = f" +{len(one['layers']) - 1}" if len(one["layers"]) > 1 else ""
        text = (
            f"{one['ratio']:.2f}  {shorten(one['layers'][0])}{more}: {100 * one['share']:.0f} % of the time, "
            f"{counted(one['kernels_int8'], 'kernel')} for {one['kernels_fp16']}"
        )
        page.section("Estimated" if number == 0 else "", text)
    if len(losing) > 2 * FEW:
        page.section("", f"+{len(losing) - 2 * FEW} more (--json)", "dim")
    for number, text in enumerate(verdict["assumptions"]):
        page.section("Assumed" if number == 0 else "", text, "dim")
    return page
