"""The sizes that a run decided for, and what they decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.analysis.sizes import share_words, sizes_words, worth_words
from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.documents.deployment import DeploymentPart, NamedDeployment, SizesWorth


def deployment_section(
    page: Page, deployment: DeploymentPart, several: Sequence[NamedDeployment] = ()
) -> None:
    """The sizes of dynamic dimensions; nothing where all are static.

    Args:
        page: the screen.
        deployment: the one that there is.
        several: those that have names, in its place.
    """
    for number, named in enumerate(several):
        page.section("" if number else "Sizes", share_words(named))
        for line in sizes_words(named.dimensions):
            page.entry(line)
        _worth(page, named.worth)
    if several:
        return
    page.sections("Sizes", sizes_words(deployment.dimensions))
    if deployment.dimensions:
        _worth(page, deployment.worth)


def _worth(page: Page, worth: Sequence[SizesWorth]) -> None:
    said = worth_words(worth)
    if said:
        page.entry(said, style="yellow")
