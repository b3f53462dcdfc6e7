"""A goal: sets that the noise model proposes, confirmed by measuring."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.judge.policies import MISSES_DB
from onnxq.noise.ranking import DecisionRanked, ranked
from onnxq.noise.search import FloatSet, Search

Measured = Callable[[Sequence[Collection[str]]], Sequence[float]]
"""Gives for sets of nodes in float what is measured: dB about the mean, or a score; higher is better."""

_RETRIED = 8  # float nodes that are tried in int8 again, at most


@dataclass(frozen=True, slots=True)
class FloatSetTried(DocumentPart):
    """A set of nodes in float that was measured.

    Attributes:
        float: the nodes.
        cost: what they cost, in the unit of the search.
        predicted_sqnr_db: its signal-to-noise ratio about the mean by the noise model, dB; None where no
            source of noise was measured.
        measured: what was measured, in the goal's units.
    """

    nodes: tuple[str, ...] = field(metadata={"key": "float"})
    cost: float
    predicted_sqnr_db: float | None
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
    best: FloatSetTried
    base: FloatSetTried
    trials: tuple[FloatSetTried, ...]
    prices: tuple[DecisionRanked, ...]


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
    trials.retry(_RETRIED, lambda proposed: proposed.sqnr_db >= goal_db + off - MISSES_DB)
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
            trials.retry(retries, lambda proposed: True)
        elif enough:  # the score may fall again where more is float
            while enough > 1:
                enough //= 2
                trials.add(path[enough])
    return trials.met()


class _Trials:
    """What was measured so far."""

    def __init__(self, search: Search, measured: Measured, goal: float) -> None:
        self._search, self._measured, self._goal = search, measured, goal
        self._trials: dict[frozenset[str], FloatSetTried] = {}
        self.list: list[FloatSetTried] = []

    def base(self) -> FloatSetTried:
        return self.add(self._search.predicted(()))

    def add(self, proposed: FloatSet) -> FloatSetTried:
        """Measures a set, once."""
        key = frozenset(proposed.floats)
        if key not in self._trials:
            (value,) = self._measured([proposed.floats])
            trial = FloatSetTried(proposed.floats, proposed.cost, proposed.sqnr_db, float(value))
            self._trials[key] = trial
            self.list.append(trial)
        return self._trials[key]

    def knows(self, proposed: FloatSet) -> bool:
        return frozenset(proposed.floats) in self._trials

    def of(self, proposed: FloatSet) -> FloatSetTried:
        return self._trials[frozenset(proposed.floats)]

    def best(self) -> FloatSetTried:
        """The cheapest that reaches the goal, else the one that is nearest to it."""
        met = [trial for trial in self.list if trial.measured >= self._goal]
        if met:
            return min(met, key=lambda trial: (trial.cost, len(trial.nodes), -trial.measured))
        return max(self.list, key=lambda trial: (trial.measured, -trial.cost))

    def retry(self, most: int, worth_it: Callable[[FloatSet], bool]) -> None:
        """Tries each float node of the best set in int8 again, the dearest first."""
        best = self.best()
        if best.measured < self._goal:
            return
        tried = 0
        nodes = sorted(best.nodes, key=lambda name: -self._search.costs.cost([name]))
        for name in nodes:
            fewer = self._search.predicted(n for n in best.nodes if n != name)
            if tried < most and worth_it(fewer):
                tried += not self.knows(fewer)
                if self.add(fewer).measured >= self._goal:
                    best = self.of(fewer)

    def met(self) -> Met:
        best = self.best()
        by_node = {decision.nodes: decision for decision in self._search.decisions}
        prices = []
        for name in best.nodes:
            others = [other for other in best.nodes if other != name]
            decision = by_node.get((name,))
            if decision is None:
                decision = next(d for d in self._search.decisions if name in d.nodes)
                decision = type(decision)((name,), decision.removes)
            prices += ranked(self._search.model, [decision], self._search.costs, others)
        prices.sort(key=lambda one: -one.gain_db)
        reached = best.measured >= self._goal
        return Met(self._goal, reached, best, self.list[0], tuple(self.list), tuple(prices))
