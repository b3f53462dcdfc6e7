"""The cheapest set of decisions whose predicted noise is low enough: a quadratic knapsack on G."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.noise.decisions import Costs, Decision
from onnxq.noise.gram import NoiseModel

EXACT = 14
"""So many nodes to decide on are enumerated."""


@dataclass(frozen=True, slots=True)
class Found:
    """A set of nodes in float.

    Attributes:
        floats: names of the nodes that are asked for, in the order of the model.
        cost: theirs and their partners'.
        sqnr_db: predicted.
        met: whether that reaches the goal.
    """

    floats: tuple[str, ...]
    cost: float
    sqnr_db: float
    met: bool


class Search:
    """Searches sets of decisions."""

    def __init__(
        self, model: NoiseModel, decisions: Sequence[Decision], costs: Costs, max_float: float | None = None
    ) -> None:
        """What is searched with.

        Args:
            model: predicts the noise.
            decisions: what can be left in float.
            costs: what that costs.
            max_float: which share of the int8 MACs may go to float at most, 0 to 1.
        """
        raise NotImplementedError

    def cheapest(self, goal_db: float, *, exact: bool | None = None) -> Found:
        """The cheapest set that is predicted to reach an SQNR; else the quietest within `max_float`.

        Args:
            goal_db: the SQNR about the mean, dB.
            exact: whether all sets are tried; None: where there are at most `EXACT` nodes.
        """
        raise NotImplementedError

    def path(self) -> list[Found]:
        """Nested sets, none to all within `max_float`: each adds what gains most for its cost."""
        raise NotImplementedError
