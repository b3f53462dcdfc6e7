"""A goal: sets that the noise model proposes, confirmed by measuring."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from onnxq.noise.ranking import Ranked, ranked
from onnxq.noise.search import FloatSet, Search

Measured = Callable[[Sequence[Collection[str]]], Sequence[float]]
"""Gives for sets of nodes in float what is measured: dB about the mean, or a score; higher is better."""

_RETRIED = 8  # float nodes that are tried in int8 again, at most
_HOPELESS_DB = 1.0  # a set that is predicted to miss a goal by more is not measured again


@dataclass(frozen=True, slots=True)
class GoalTrial:
    """A set that was measured.

    Attributes:
        floats: the nodes in float.
        cost: what they cost.
        predicted_db: its SQNR about the mean by the model; None where no source was measured, as nothing had
            to be in float.
        measured: what was measured, in the goal's units.
    """

    floats: tuple[str, ...]
    cost: float
    predicted_db: float | None
    measured: float

    def to_json(self) -> dict[str, Any]:
        """The entry for the report."""
        return {
            "float": list(self.floats),
            "cost": self.cost,
            "predicted_sqnr_db": self.predicted_db,
            "measured": self.measured,
        }


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
    best: GoalTrial
    base: GoalTrial
    trials: tuple[GoalTrial, ...]
    prices: tuple[Ranked, ...]

    def to_json(self) -> dict[str, Any]:
        """The part of the report."""
        return {
            "goal": self.goal,
            "met": self.met,
            "best": self.best.to_json(),
            "base": self.base.to_json(),
            "prices": [price.to_json() for price in self.prices],
            "trials": [trial.to_json() for trial in self.trials],
        }


def meet_sqnr(search: Search, goal_db: float, measured: Measured, *, rounds: int = 8) -> Met:
    """The cheapest set whose measured SQNR about the mean reaches a goal.

    The model proposes a set for a target, the set is measured, and the target is moved by what prediction
    and measurement differ; again, until a set comes for the second time or `rounds` are over. Then each
    float node is tried in int8 once more, the dearest first.

    Args:
        search: proposes.
        goal_db: dB.
        measured: measures on samples that choose.
        rounds: how many sets are proposed at most.
    """
    trials = _Trials(search, measured, goal_db)
    trials.base()
    off = search.model.sqnr_db() - trials.list[0].measured
    for _ in range(rounds if trials.list[0].measured < goal_db else 0):
        proposed = search.cheapest(goal_db + off)
        if trials.knows(proposed):
            best = trials.best()
            if best.measured >= goal_db:
                break
            off += max(goal_db - trials.of(proposed).measured, 0.05)  # it fell short: aim higher
            proposed = search.cheapest(goal_db + off)
            if trials.knows(proposed):
                break
        trial = trials.add(proposed)
        off = proposed.sqnr_db - trial.measured
    trials.retry(_RETRIED, lambda found: found.sqnr_db >= goal_db + off - _HOPELESS_DB)
    return trials.met()


def meet_score(search: Search, goal: float, measured: Measured, *, retries: int = _RETRIED) -> Met:
    """The cheapest set whose score reaches a goal, whatever the score is.

    Of the nested sets of `Search.path` the smallest that reaches it is found by halving; then the cheapest
    set of no more predicted noise is tried, and each float node in int8, the dearest first.

    Args:
        search: proposes.
        goal: the least score.
        measured: scores.
        retries: how many nodes are tried in int8 again; 0: halving is all that is done.
    """
    trials = _Trials(search, measured, goal)
    trials.base()
    if trials.list[0].measured < goal:
        path = search.path()
        few, enough = 0, len(path) - 1
        if enough and trials.add(path[enough]).measured >= goal:
            while enough - few > 1:
                middle = (few + enough) // 2
                if trials.add(path[middle]).measured >= goal:
                    enough = middle
                else:
                    few = middle
            proposed = search.cheapest(path[enough].sqnr_db) if retries else path[enough]
            if proposed.cost < path[enough].cost and not trials.knows(proposed):
                trials.add(proposed)
            trials.retry(retries, lambda found: True)
        elif enough:  # the score may fall again where more is float
            while enough > 1:
                enough //= 2
                trials.add(path[enough])
    return trials.met()


class _Trials:
    """What was measured so far."""

    def __init__(self, search: Search, measured: Measured, goal: float) -> None:
        self._search, self._measured, self._goal = search, measured, goal
        self._known: dict[frozenset[str], GoalTrial] = {}
        self.list: list[GoalTrial] = []

    def base(self) -> GoalTrial:
        return self.add(self._search.predicted(()))

    def add(self, found: FloatSet) -> GoalTrial:
        """Measures a set, once."""
        key = frozenset(found.floats)
        if key not in self._known:
            (value,) = self._measured([found.floats])
            trial = GoalTrial(found.floats, found.cost, found.sqnr_db, float(value))
            self._known[key] = trial
            self.list.append(trial)
        return self._known[key]

    def knows(self, found: FloatSet) -> bool:
        return frozenset(found.floats) in self._known

    def of(self, found: FloatSet) -> GoalTrial:
        return self._known[frozenset(found.floats)]

    def best(self) -> GoalTrial:
        """The cheapest that reaches the goal, else the one that is nearest to it."""
        met = [trial for trial in self.list if trial.measured >= self._goal]
        if met:
            return min(met, key=lambda trial: (trial.cost, len(trial.floats), -trial.measured))
        return max(self.list, key=lambda trial: (trial.measured, -trial.cost))

    def retry(self, most: int, worth_it: Callable[[FloatSet], bool]) -> None:
        """Tries each float node of the best set in int8 again, the dearest first."""
        best = self.best()
        if best.measured < self._goal:
            return
        tried = 0
        nodes = sorted(best.floats, key=lambda name: -self._search.costs.cost([name]))
        for name in nodes:
            fewer = self._search.predicted(n for n in best.floats if n != name)
            if tried < most and worth_it(fewer):
                tried += not self.knows(fewer)
                if self.add(fewer).measured >= self._goal:
                    best = self.of(fewer)

    def met(self) -> Met:
        best = self.best()
        by_node = {decision.nodes: decision for decision in self._search.decisions}
        prices = []
        for name in best.floats:
            others = [other for other in best.floats if other != name]
            decision = by_node.get((name,))
            if decision is None:
                decision = next(d for d in self._search.decisions if name in d.nodes)
                decision = type(decision)((name,), decision.removes)
            prices += ranked(self._search.model, [decision], self._search.costs, others)
        prices.sort(key=lambda one: -one.gain_db)
        reached = best.measured >= self._goal
        return Met(self._goal, reached, best, self.list[0], tuple(self.list), tuple(prices))
