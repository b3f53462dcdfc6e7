"""Channels of weights that are all but zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.graph.model import Model
from onnxq.quant.patches import NONE, Patches
from onnxq.repair.draft import Draft


@dataclass(frozen=True, slots=True)
class Degenerate:
    """What becomes of them.

    Attributes:
        patches: ranges of weights (`Patches.amax`).
        told: by weight, how many channels and what becomes of them.
    """

    patches: Patches = NONE
    told: Mapping[str, str] = field(default_factory=dict)


def find(model: Model, draft: Draft) -> Degenerate:
    """The channels."""
    return Degenerate()
