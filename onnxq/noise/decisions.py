"""What a file can leave in float, what that removes, and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onnxq.graph.model import Model
from onnxq.noise.sources import Sources
from onnxq.quant.plan import QuantPlan

Unit = Literal["macs", "bytes"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that can be left in float.

    Attributes:
        nodes: names of the nodes that are asked for; `QuantPlan.with_partners` says who goes along.
        removes: the tensor whose pair that removes, where that is its purpose: all that read it are float; else "".
    """

    nodes: tuple[str, ...]
    removes: str = ""


class Costs:
    """What nodes cost in float.

    Attributes:
        unit: `macs`, `bytes`, or `given`.
    """

    unit: str

    @staticmethod
    def of(plan: QuantPlan, model: Model, unit: Unit = "macs") -> Costs:
        """By multiply-accumulates, or by the bytes that a node reads in float32 and not in int8.

        What is no layer costs 64 MACs an element that it reads. A size that is not known counts as the mean of those
        of its kind that are.
        """
        raise NotImplementedError

    @staticmethod
    def given(plan: QuantPlan, costs: Mapping[str, float]) -> Costs:
        """By node, in any unit; those of no cost are 0.

        Raises:
            UserError: a name is no node that the plan quantizes, or a cost is negative or not finite.
        """
        raise NotImplementedError

    def cost(self, floats: Collection[str]) -> float:
        """What a set of nodes, and their partners, cost."""
        raise NotImplementedError

    def float_share(self, floats: Collection[str]) -> float:
        """Which share of the MACs of all layers of the plan that run in int8 these take to float, 0 to 1."""
        raise NotImplementedError


def decisions_of(plan: QuantPlan, sources: Sources) -> list[Decision]:
    """All decisions: each layer that is in int8, and each pair that several layers read."""
    raise NotImplementedError
