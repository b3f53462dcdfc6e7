"""Channels of weights that are all but zero: what training left of dead ones.

Their scales would be far below the others' (1e-14 is met), down to where products with the scale of an
activation leave the normal floats. Nothing of such a channel reaches an output beside its bias, so that its
scale is raised to what the layer's other channels make negligible. Channels that are zero have the scale 1
anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxq.base.reason import reason
from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.scales import weight_amax

_NEGLIGIBLE = 1e-8
"""The part of the layer's median below which a channel's largest weight is no weight."""

_LEAST_SCALE = 1e-30
"""A scale whose product with that of an activation is a normal float32."""


@dataclass(frozen=True, slots=True)
class Degenerate:
    """What becomes of such channels.

    Attributes:
        patches: ranges of weights (`Patches.amax`), of the weights that have such channels only.
        told: by weight, how many channels there are, and how small.
    """

    patches: Patches = NONE
    told: Mapping[str, str] = field(default_factory=dict)


def find(model: Model, draft: Draft) -> Degenerate:
    """The channels of quantized weights that are all but zero.

    Args:
        model: with the draft's edits.
        draft: the plan; ranges of weights that its patches state are raised as well.
    """
    tensors = model.tensors()
    floors: dict[tuple[str, int | None], np.ndarray] = {}
    told: dict[str, str] = {}
    for site in draft.plan.sites:
        if site.kind != "weight" or site.axis is None or site.tensor not in tensors:
            continue
        values = tensors[site.tensor].constant
        if values is None:
            continue
        stated = draft.patches.amax.get((site.tensor, site.axis))
        amax = weight_amax(np.asarray(values, np.float32), site.axis) if stated is None else stated
        live = amax[amax > 0]
        if not live.size or not np.isfinite(live).all():
            continue
        median = float(np.median(live))
        floor = np.float32(max(_NEGLIGIBLE * median, _LEAST_SCALE * site.numbers.greatest))
        small = (amax > 0) & (amax < floor)
        if small.any():
            floors[site.tensor, site.axis] = np.where(small, floor, amax).astype(np.float32)
            most = float(amax[small].max())
            told[site.tensor] = reason(
                "all-but-zero", small=small.sum(), channels=len(amax), most=most, median=median
            )
    return Degenerate(Patches(amax=floors) if floors else NONE, told)
