"""Whether int8 is worth it: a line of the end screen, and the page of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.cli.pages.words import FEW, counted
from onnxq.cli.screen import Page, shorten

_SHARE = 0.005
"""Layers that take less of the time are not shown."""


def verdict_section(page: Page, verdict: Mapping[str, Any] | None, engine: Mapping[str, Any]) -> None:
    """The line of the end screen; none where the section on the engine says that there is none."""
    if verdict is None or (engine["status"] != "compiled" and verdict["fastest"] is None):
        return
    found = verdict[verdict["form"]]
    if found is None:
        page.section("Verdict", f"none: {verdict['reason']}")
    else:
        page.section("Verdict", _said(found), "yellow" if found["says"] == "slower" else "")
    fastest = verdict["fastest"]
    if fastest is None:
        return
    if not fastest["layers"]:
        page.entry("no layer is left in float for speed: what was tried is no faster")
        return
    page.entry(
        f"{counted(len(fastest['layers']), 'layer')} left in float for speed: "
        f"{fastest['ratio_before']:.2f} -> {fastest['ratio']:.2f} times as fast as float16, int8 share "
        f"{_percent(fastest['int8_before'])} -> {_percent(fastest['int8'])}"
    )
    page.names(fastest["layers"])


def _said(found: Mapping[str, Any]) -> str:
    low, high = f"{found['low']:.2f}", f"{found['high']:.2f}"
    times = low if low == high else f"{low} to {high}"
    gpus = found["gpus"]
    text = f"{found['says']}: int8 is {times} times as fast as plain float16, estimated for "
    text += f"{counted(len(gpus), 'GPU')}"
    if found["says"] == "undecided":
        decided = [f"{one['gpu']} {one['says']}" for one in gpus if one["says"] != "undecided"]
        text += f" ({', '.join(decided)})" if decided else ""
    return text


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def verdict_page(name: str, verdict: Mapping[str, Any]) -> Page:
    """A comparison with plain float16, in full: both forms, the GPUs, the layers that lose."""
    page = Page()
    page.head(f"{name}: int8 against plain {verdict['against']}")
    if verdict["reason"]:
        page.section("Verdict", f"none: {verdict['reason']}")
        return page
    titles = {"merged": "TensorRT", "built": "For RTX"}
    forms = {
        "merged": "merged: what follows a product is done in its kernel, so that less is moved than as built",
        "built": "as built by TensorRT-RTX: what follows an int8 product is a kernel of its own",
    }
    for form in sorted(titles, key=lambda form: form != verdict["form"]):
        found = verdict[form]
        page.section(titles[form], _said(found))
        page.entry(forms[form])
        for what in ("fp16", "int8"):
            one = found[what]
            macs = ", ".join(f"{kind} {count / 1e6:,.0f} M" for kind, count in one["macs"].items())
            page.entry(
                f"{what}: {counted(one['kernels'], 'kernel')}, {one['moved_mb']:.4g} MB moved, "
                f"{one['weights_mb']:.4g} MB of weights, multiplies {macs}"
            )
        for one in found["gpus"]:
            page.entry(f"{one['ratio']:.2f}  {one['gpu']}: {one['says']}", 2, "dim")
    losing = [one for one in verdict["layers"] if one["ratio"] < 1 and one["share"] >= _SHARE]
    for number, one in enumerate(losing[: 2 * FEW]):
        more = f" +{len(one['layers']) - 1}" if len(one["layers"]) > 1 else ""
        text = (
            f"{one['ratio']:.2f}  {shorten(one['layers'][0])}{more}: {100 * one['share']:.0f} % of the time, "
            f"{counted(one['kernels_int8'], 'kernel')} for {one['kernels_fp16']}"
        )
        page.section("Slower" if number == 0 else "", text)
    if len(losing) > 2 * FEW:
        page.section("", f"+{len(losing) - 2 * FEW} more (--json)", "dim")
    for number, text in enumerate(verdict["assumptions"]):
        page.section("Assumed" if number == 0 else "", text, "dim")
    return page
