"""What a model is run for, where it is run for several things: the shapes of its tensors in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.graph.types import Shape


@dataclass(frozen=True, slots=True)
class WorkShare:
    """One of several deployments of a model, as its layers see it.

    Attributes:
        name: the deployment's.
        share: its share of all work, 0 to 1.
        shapes: those of all tensors, by name.
        factor: what a multiply-accumulate in it counts, see `onnxq.graph.layers.balance`.
    """

    name: str
    share: float
    shapes: Mapping[str, Shape]
    factor: float = 1.0
