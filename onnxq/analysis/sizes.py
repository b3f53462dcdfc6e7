"""The sizes that a run decided for, and what they decide: the words of screen and page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from onnxq.base.shown import count
from onnxq.documents.deployment import DimensionDeployed, NamedDeployment, SizesWorth

_APART = 0.01  # of all multiply-accumulates: less is not worth a word


def share_words(deployment: NamedDeployment) -> str:
    """The name of a deployment, its share of the work, and how many samples it has."""
    share = f"{deployment.name}: {100 * deployment.weight:.3g} % of the work"
    if deployment.is_weight_assumed:
        share += f" (assumed; state it with --profile-weight {shlex.quote(deployment.name)}=W)"
    return f"{share}, {count(deployment.samples, 'sample') if deployment.samples else 'no sample is of it'}"


def dimension_words(dimension: DimensionDeployed) -> str:
    """The sizes of a dimension, and where they are from."""
    low, usual, high = dimension.smallest, dimension.usual, dimension.largest
    sizes = str(usual) if low == high else f"{low} to {high}, usually {usual}"
    origins = {"stated": "stated", "data": "in the samples", "assumed": "assumed"}
    origin = origins.get(dimension.origin, dimension.origin)
    if dimension.batch and dimension.origin == "assumed":
        origin += "; state it with --batch MIN:OPT:MAX"
    return f"{dimension.name} {sizes} ({origin})"


def worth_words(worth: Sequence[SizesWorth]) -> str:
    """What could be quantized at the usual sizes and at others, where that is apart; "" where it is not."""
    if not worth:
        return ""
    usual, *others = worth
    apart = [one for one in others if abs(one.share - usual.share) > _APART]
    if not apart:
        return ""
    text = ", ".join(f"{100 * one.share:.1f} % at {one.at}" for one in apart)
    return f"{100 * usual.share:.1f} % of the work could be quantized at these sizes, {text}"
