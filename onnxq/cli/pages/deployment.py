"""The sizes that a run decided for, and what they decide."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.cli.pages.words import counted
from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.documents.deployment import DeploymentPart, DimensionDeployed, NamedDeployment, SizesWorth

_APART = 0.01  # of all multiply-accumulates: less is not worth a word


def deployment_section(
    page: Page, deployment: DeploymentPart, several: Sequence[NamedDeployment] = ()
) -> None:
    """The sizes of dynamic dimensions; nothing where all are static.

    Args:
        page: the screen.
        deployment: the one that there is.
        several: those that have names, in its place.
    """
    for number, one in enumerate(several):
        _share(page, one, "" if number else "Sizes")
        for dimension in one.dimensions:
            page.entry(_sizes(dimension))
        _worth(page, one.worth)
    if several:
        return
    for number, dimension in enumerate(deployment.dimensions):
        page.section("" if number else "Sizes", _sizes(dimension))
    if deployment.dimensions:
        _worth(page, deployment.worth)


def _share(page: Page, one: NamedDeployment, title: str) -> None:
    """The name of a deployment, and its share of the work."""
    share = f"{one.name}: {100 * one.weight:.3g} % of the work"
    if one.is_weight_assumed:
        share += f" (assumed: --profile-weight {shlex.quote(one.name)}=W states it)"
    samples = counted(one.samples, "sample") if one.samples else "no sample is of it"
    page.section(title, f"{share}, {samples}")


def _worth(page: Page, worth: Sequence[SizesWorth]) -> None:
    """What could be int8 at these sizes and others, where that is apart."""
    if not worth:
        return
    usual, *others = worth
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
