"""What int8 does to the engine, against plain float16: a section of the end screen, and a page of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.analysis.reports import OpenedReport
from onnxq.analysis.worth import ESTIMATE, MERGED, ONLY_A_GPU, Worth, worth_of
from onnxq.cli.pages.words import FEW, counted
from onnxq.cli.screen import Page, shorten
from onnxq.documents.json_values import to_json

if TYPE_CHECKING:
    from onnxq.compiled.verdict import Compared, Fastest, Form, Verdict

_SHARE = 0.005
"""Layers that take less of the time are not shown."""


def verdict_section(page: Page, verdict: Verdict | None, *, compiled: bool, estimated: bool = False) -> None:
    """The section of the end screen; none where the section on the engine says that there is none.

    Args:
        page: the screen.
        verdict: the verdict; None where nothing was compared.
        compiled: whether the result compiles.
        estimated: whether the estimate of the speed is shown.
    """
    if verdict is None or not (compiled or verdict.fastest is not None):
        return
    worth = _worth(verdict)
    if worth is None:
        page.section("Verdict", f"none: {verdict.reason}")
    else:
        said = "; ".join(filter(None, (worth.said, worth.figures)))
        page.section("Verdict", said, "yellow" if worth.is_more else "")
        built = _worth(verdict, "built") if verdict.form == "merged" else None
        if built is not None:
            page.entry(f"that is {MERGED}; as built by TensorRT-RTX it moves {built.moves}", style="dim")
        page.entry(f"{ONLY_A_GPU}: time it by the first line of Next, and the same model in plain float16 "
                   "(onnxq sanitize FLOAT.onnx --body fp16 --calib DATA)")  # fmt: skip
        if estimated:
            _estimate(page, _form(verdict, verdict.form))
    _fastest(page, verdict.fastest)


def _worth(verdict: Verdict, form: str = "") -> Worth | None:
    return worth_of(OpenedReport("", {"verdict": to_json(verdict)}), form)


def _form(verdict: Verdict, form: Form) -> Compared | None:
    return verdict.merged if form == "merged" else verdict.built


def _estimate(page: Page, found: Compared | None) -> None:
    """The estimate of the speed, GPU by GPU."""
    if found is None:
        return
    each = ", ".join(f"{one.gpu} {one.ratio:.2f}" for one in found.gpus)
    page.entry(f"times as fast as plain float16, by {ESTIMATE}: {each}", style="dim")


def _fastest(page: Page, fastest: Fastest | None) -> None:
    """What was left in float for speed."""
    if fastest is None:
        return
    if not fastest.layers:
        page.entry(f"no layer is left in float for speed: what was tried is no faster, by {ESTIMATE}")
        return
    page.entry(
        f"{counted(len(fastest.layers), 'layer')} left in float for speed: "
        f"{fastest.ratio_before:.2f} -> {fastest.ratio:.2f} times as fast as float16, by {ESTIMATE}; "
        f"int8 share {_percent(fastest.int8_before)} -> {_percent(fastest.int8)}"
    )
    page.names(fastest.layers)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def verdict_page(name: str, verdict: Verdict, *, estimated: bool = False) -> Page:
    """A comparison with plain float16 in both forms; `estimated`: with the estimate of the speed."""
    page = Page()
    page.head(f"{name}: int8 against plain {verdict.against}")
    if verdict.reason:
        page.section("Verdict", f"none: {verdict.reason}")
        return page
    titles: dict[Form, tuple[str, str]] = {
        "merged": ("TensorRT", MERGED),
        "built": ("For RTX", "as TensorRT-RTX builds it here"),
    }
    for form in sorted(titles, key=lambda form: form != verdict.form):
        title, note = titles[form]
        worth, found = _worth(verdict, form), _form(verdict, form)
        page.section(title, note if worth is None else worth.said)
        if worth is not None:
            page.entry(worth.figures)
            page.entry(note)
        for what, one in (("fp16", found.fp16), ("int8", found.int8)) if found is not None else ():
            macs = ", ".join(f"{kind} {count / 1e6:,.0f} M" for kind, count in one.macs.items())
            page.entry(
                f"{what}: {counted(one.kernels, 'kernel')}, {one.moved_mb:.4g} MB of activations, "
                f"{one.weights_mb:.4g} MB of weights, multiplies {macs}"
            )
        if estimated:
            _estimate(page, found)
    page.section("Faster?", f"{ONLY_A_GPU}: build both with trtexec --exportLayerInfo=F --exportProfile=G")
    page.entry(f"where its time goes: onnxq engine {shorten(name, 40)} --layer-info F --profile-times G")
    if not estimated:
        page.entry(f"-v and --gpu NAME show {ESTIMATE}", style="dim")
        return page
    losing = [one for one in verdict.layers if one.ratio < 1 and one.share >= _SHARE]
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
