"""A goal: sets that the noise model proposes, confirmed by measuring."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from onnxq.noise.ranking import Ranked
from onnxq.noise.search import Search

Measured = Callable[[Sequence[Collection[str]]], Sequence[float]]
"""Gives for sets of nodes in float what is measured: an SQNR about the mean in dB, or a score; higher is better."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A set that was measured.

    Attributes:
        floats: the nodes in float.
        cost: what they cost.
        predicted_db: its SQNR by the model.
        measured: what was measured, in the goal's units.
    """

    floats: tuple[str, ...]
    cost: float
    predicted_db: float
    measured: float


@dataclass(frozen=True, slots=True)
class Met:
    """What was found for a goal.

    Attributes:
        goal: in its units.
        met: whether `best` reaches it on the samples that chose.
        best: the cheapest set that does; else the best of those that were measured.
        base: nothing in float.
        trials: all that was measured, in order.
        prices: for each node in float what it gains in `best`, and costs; the greatest gain first.
    """

    goal: float
    met: bool
    best: Trial
    base: Trial
    trials: tuple[Trial, ...]
    prices: tuple[Ranked, ...]

    def to_json(self) -> dict[str, Any]:
        """The part of the report."""
        raise NotImplementedError


def meet_sqnr(search: Search, goal_db: float, measured: Measured, *, rounds: int = 8) -> Met:
    """The cheapest set whose measured SQNR about the mean reaches a goal.

    The model proposes for a target, what it proposes is measured, and the target is set off by what prediction and
    measurement differ; again, until a set comes again or `rounds` are over. Then each float node is tried in int8 once
    more, the dearest first.

    Args:
        search: proposes.
        goal_db: dB.
        measured: measures on samples that choose.
        rounds: how many sets are proposed at most.
    """
    raise NotImplementedError


def meet_score(search: Search, goal: float, measured: Measured, *, retries: int = 8) -> Met:
    """The cheapest set whose score reaches a goal, whatever the score is.

    On the nested sets of `Search.path` the smallest that reaches it is found by halving; of the same predicted noise
    the cheapest set is tried, then each float node in int8, the dearest first, at most `retries`.

    Args:
        search: proposes.
        goal: the least score.
        measured: scores.
        retries: how many nodes are tried in int8 again.
    """
    raise NotImplementedError
