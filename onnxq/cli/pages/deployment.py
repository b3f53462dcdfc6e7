"""The sizes that a run decided for, and what they decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.cli.screen import Page

_APART = 0.01  # of all multiply-accumulates: less is not worth a word


def deployment_section(page: Page, deployment: Mapping[str, Any]) -> None:
    """The sizes of dynamic dimensions; nothing where all are static."""
    dimensions = deployment["dimensions"]
    if not dimensions:
        return
    page.section("Sizes", "; ".join(map(_sizes, dimensions)))
    usual, *others = deployment["worth"] or [None]
    apart = [one for one in others if abs(one["share"] - usual["share"]) > _APART]
    if apart:
        text = ", ".join(f"{one['share']:.1%} at {one['at']}" for one in apart)
        page.entry(f"int8 could take {usual['share']:.1%} of the work at these sizes, {text}", style="yellow")
    if any(one["batch"] and one["origin"] == "assumed" for one in dimensions):
        page.entry("the batch is assumed: --batch MIN:OPT:MAX states it")


def _sizes(dimension: Mapping[str, Any]) -> str:
    low, usual, high = (dimension[key] for key in ("smallest", "usual", "largest"))
    sizes = str(usual) if low == high else f"{low} to {high}, usually {usual}"
    origin = {"stated": "stated", "data": "of the samples", "assumed": "assumed"}[dimension["origin"]]
    return f"{dimension['name']} {sizes} ({origin})"
