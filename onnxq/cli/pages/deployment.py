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
    for number, dimension in enumerate(dimensions):
        page.section("" if number else "Sizes", _sizes(dimension))
    usual, *others = deployment["worth"] or [None]
    apart = [one for one in others if abs(one["share"] - usual["share"]) > _APART]
    if apart:
        text = ", ".join(f"{100 * one['share']:.1f} % at {one['at']}" for one in apart)
        now = f"{100 * usual['share']:.1f} % of the work at these sizes"
        page.entry(f"int8 could take {now}, {text}", style="yellow")


def _sizes(dimension: Mapping[str, Any]) -> str:
    low, usual, high = (dimension[key] for key in ("smallest", "usual", "largest"))
    sizes = str(usual) if low == high else f"{low} to {high}, usually {usual}"
    origin = {"stated": "stated", "data": "in the samples", "assumed": "assumed"}[dimension["origin"]]
    if dimension["batch"] and dimension["origin"] == "assumed":
        origin += ": --batch MIN:OPT:MAX states it"
    return f"{dimension['name']} {sizes} ({origin})"
