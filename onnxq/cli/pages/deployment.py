"""The sizes that a run decided for, and what they decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.documents.deployment import DeploymentPart, DimensionDeployed

_APART = 0.01  # of all multiply-accumulates: less is not worth a word


def deployment_section(page: Page, deployment: DeploymentPart) -> None:
    """The sizes of dynamic dimensions; nothing where all are static."""
    if not deployment.dimensions:
        return
    for number, dimension in enumerate(deployment.dimensions):
        page.section("" if number else "Sizes", _sizes(dimension))
    if not deployment.worth:
        return
    usual, *others = deployment.worth
    apart = [one for one in others if abs(one.share - usual.share) > _APART]
    if apart:
        text = ", ".join(f"{100 * one.share:.1f} % at {one.at}" for one in apart)
        now = f"{100 * usual.share:.1f} % of the work at these sizes"
        page.entry(f"int8 could take {now}, {text}", style="yellow")


def _sizes(dimension: DimensionDeployed) -> str:
    low, usual, high = dimension.smallest, dimension.usual, dimension.largest
    sizes = str(usual) if low == high else f"{low} to {high}, usually {usual}"
    origin = {"stated": "stated", "data": "in the samples", "assumed": "assumed"}[dimension.origin]
    if dimension.batch and dimension.origin == "assumed":
        origin += ": --batch MIN:OPT:MAX states it"
    return f"{dimension.name} {sizes} ({origin})"
