"""The sizes that a run decided for, and what they decide: the words of screen and page."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.base.grouped import grouped
from onnxq.base.reason import say
from onnxq.base.shown import assumed, count
from onnxq.documents.deployment import DimensionDeployed, NamedDeployment, SizesWorth

_APART = 0.01  # of all multiply-accumulates: less is not worth a word


def share_words(deployment: NamedDeployment) -> str:
    """The name of a deployment, its share of the work, and how many samples it has."""
    share = f"{deployment.name}: {100 * deployment.weight:.3g} % of the work"
    if deployment.is_weight_assumed:
        share += f" {assumed(f'profile_weight {deployment.name}=W')}"
    samples = count(deployment.samples, "sample") if deployment.samples else say("no-sample-of-it")
    return f"{share}, {samples}"


def sizes_words(dimensions: Sequence[DimensionDeployed]) -> list[str]:
    """The sizes of dimensions, those of one origin together; with what states them, where nobody did."""
    origins = grouped((_origin(one), _sizes(one)) for one in dimensions)
    return [f"{', '.join(sizes)}{origin}" for origin, sizes in origins.items()]


def _sizes(one: DimensionDeployed) -> str:
    low, usual, high = one.smallest, one.usual, one.largest
    return f"{one.name} {usual}" if low == high else f"{one.name} {low} to {high}, usually {usual}"


def _origin(one: DimensionDeployed) -> str:
    """Where sizes are from: the engine takes no others."""
    if one.origin == "stated":
        return " (stated)"
    flag = "--batch MIN:OPT:MAX" if one.batch else "--profile INPUT=MIN:OPT:MAX"
    seen = say("as-in-samples") if one.origin == "data" else ""
    return f"{seen} {assumed(flag)}"


def worth_words(worth: Sequence[SizesWorth]) -> str:
    """What could be quantized at the usual sizes and at others, where that is apart; "" where it is not."""
    if not worth:
        return ""
    usual, *others = worth
    apart = [one for one in others if abs(one.share - usual.share) > _APART]
    if not apart:
        return ""
    text = ", ".join(f"{100 * one.share:.1f} % at {one.at}" for one in apart)
    return say("work-at-sizes", percent=100 * usual.share, others=text)
