"""The cheapest set of decisions whose predicted noise is low enough: a quadratic knapsack on G.

Greedy from several sides (what gains most, most for its cost, backwards from all), then exchange: nodes go
back into int8, one in the place of another, one in the place of two, two in the place of one, until nothing
is cheaper. Few nodes are simply enumerated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.base.grouped import grouped
from onnxq.judge.sqnr import limited_db, nsr_of
from onnxq.noise.decisions import Costs, FloatDecision
from onnxq.noise.gram import NoiseModel
from onnxq.noise.sources import Union

EXACT = 14
"""So many nodes to decide on are enumerated."""

_ROWS = 2048  # sets that are looked at together
_STARTS = 2  # that are exchanged
_NEAR = 24  # nodes that are exchanged one by one: those that promise most
_NEAR_PAIRS = 10  # and in pairs
_SLACK = 1e-9  # of a goal: float rounding


@dataclass(frozen=True, slots=True)
class FloatSet:
    """A set of nodes in float.

    Attributes:
        floats: names of the nodes that are asked for, in the order of the decisions.
        cost: theirs, and that of those that go along.
        sqnr_db: predicted, dB.
    """

    floats: tuple[str, ...]
    cost: float
    sqnr_db: float


@dataclass(frozen=True, slots=True)
class _Worth:
    """What sets are worth, [sets]: the noise, what they cost, and whether that is allowed."""

    noise: np.ndarray
    cost: np.ndarray
    allowed: np.ndarray

    def best(self, target: float) -> int:
        """The place of the cheapest that is quiet enough, else of the quietest; -1 if none is allowed."""
        if not self.allowed.any():
            return -1
        met = self.allowed & (self.noise <= target)
        if met.any():
            order = np.lexsort((self.noise, self.cost, ~met))
        else:
            order = np.lexsort((self.cost, self.noise, ~self.allowed))
        return int(order[0])

    def key(self, place: int, target: float) -> tuple[float, float, float]:
        """What is less where a set is better."""
        noise, cost = float(self.noise[place]), float(self.cost[place])
        return (0.0, cost, noise) if noise <= target else (1.0, noise, cost)


class Search:
    """Searches sets of decisions.

    Attributes:
        model: predicts the noise.
        costs: what nodes cost.
        decisions: what can be left in float.
        nodes: those that they name, one of each that go together.
    """

    def __init__(
        self,
        model: NoiseModel,
        decisions: Sequence[FloatDecision],
        costs: Costs,
        max_float: float | None = None,
    ) -> None:
        """What is searched with.

        Args:
            model: predicts the noise.
            decisions: what can be left in float.
            costs: what that costs.
            max_float: which share of the int8 MACs may go to float at most, 0 to 1.
        """
        self.model, self.costs, self.decisions = model, costs, list(decisions)
        self._max = 1.0 if max_float is None else max_float
        whole: dict[frozenset[str], str] = {}  # of partners, one stands for all
        for name in dict.fromkeys(name for decision in decisions for name in decision.nodes):
            whole.setdefault(costs.along([name]), name)
        self.nodes = list(whole.values())
        self._units = _units(model, self.nodes)
        place = {name: i for i, unit in enumerate(self._units) for name in unit}
        taken = list(dict.fromkeys(name for along in whole for name in sorted(along)))
        takers: dict[str, dict[int, None]] = {name: {} for name in taken}
        for along, stands in whole.items():
            for name in along:
                takers[name][place[stands]] = None
        self._takers = Union([list(numbers) for numbers in takers.values()])
        prices = np.array([costs.of_node(name) for name in taken], np.float64).reshape(-1, 2)
        self._cost, self._share = prices[:, 0], prices[:, 1]
        moves = [[place[whole[costs.along([n])]] for n in decision.nodes] for decision in decisions]
        if len(self._units) < len(self.nodes):
            moves = [list(move) for move in dict.fromkeys(map(tuple, moves))]
        self._moves = np.zeros((len(moves), len(self._units)), bool)
        for row, move in enumerate(moves):
            self._moves[row, move] = True
        self._on = _Removal(model, place)

    def predicted(self, floats: Iterable[str]) -> FloatSet:
        """What a set is predicted to be, whatever the goal."""
        floats = tuple(floats)
        return FloatSet(floats, self.costs.cost(floats), self.model.sqnr_db(floats))

    def cheapest(self, goal_db: float, *, exact: bool | None = None) -> FloatSet:
        """The cheapest set that is predicted to reach an SQNR; else the quietest within `max_float`.

        Args:
            goal_db: the SQNR about the mean, dB.
            exact: whether all sets are tried; None: where there are at most `EXACT` nodes.
        """
        target = (nsr_of(goal_db) - self.model.body_noise) * (1 + _SLACK)
        if exact or (exact is None and len(self._units) <= EXACT):
            chosen = self._enumerated(target)
        else:
            starts = [self._greedy(target, power) for power in (1.0, 0.5, 0.0)] + [self._backwards(target)]
            starts = list({start.tobytes(): start for start in starts}.values())
            worth = self._worth(np.array(starts))
            starts = [
                starts[i] for i in sorted(range(len(starts)), key=lambda i: worth.key(i, target))[:_STARTS]
            ]
            exchanged = [self._exchanged(start, target) for start in starts]
            worth = self._worth(np.array(exchanged))
            chosen = exchanged[worth.best(target)]
        return self._set_of(chosen)

    def path(self) -> list[FloatSet]:
        """Nested sets, none to all that `max_float` allows: each adds what gains most for its cost."""
        chosen = np.zeros(len(self._units), bool)
        nested = [self._set_of(chosen)]
        while (more := self._step(chosen, 0.0, 1.0)) is not None:
            chosen = more
            nested.append(self._set_of(chosen))
        return nested

    # -- sets ----------------------------------------------------------------------------------

    def _set_of(self, chosen: np.ndarray) -> FloatSet:
        taken = (unit for unit, is_float in zip(self._units, chosen, strict=True) if is_float)
        floats = tuple(itertools.chain.from_iterable(taken))
        worth = self._worth(chosen[None])
        level = limited_db(float(worth.noise[0]) + self.model.body_noise)
        return FloatSet(floats, float(worth.cost[0]), level)

    def _worth(self, sets: np.ndarray) -> _Worth:
        """Of bool [sets, units]."""
        noise, taken = [], []
        for start in range(0, len(sets), _ROWS):
            rows = sets[start : start + _ROWS]
            noise.append(self.model.noises(self._on(rows)))
            taken.append(self._takers(rows))
        along = np.concatenate(taken) if taken else np.zeros((0, len(self._cost)), bool)
        return _Worth(
            np.concatenate(noise) if noise else np.zeros(0),
            along @ self._cost,
            along @ self._share <= self._max + 1e-12,
        )

    def _enumerated(self, target: float) -> np.ndarray:
        count = len(self._units)
        best: np.ndarray | None = None
        key: tuple[float, float, float] | None = None
        for start in range(0, 1 << count, 1 << 16):
            numbers = np.arange(start, min(start + (1 << 16), 1 << count))
            sets = (numbers[:, None] >> np.arange(count)) & 1 > 0
            worth = self._worth(sets)
            place = worth.best(target)
            if place >= 0 and (key is None or worth.key(place, target) < key):
                best, key = sets[place], worth.key(place, target)
        assert best is not None  # nothing in float is always allowed
        return best

    def _step(self, chosen: np.ndarray, target: float, power: float) -> np.ndarray | None:
        """One more decision: the one of most gain, down to a target, for its cost to a power."""
        sets = chosen | self._moves
        sets = sets[(sets != chosen).any(1)]
        if not len(sets):
            return None
        worth, now = self._worth(sets), self._worth(chosen[None])
        if not worth.allowed.any():
            return None
        gain = now.noise[0] - np.maximum(worth.noise, target)
        cost = np.maximum(worth.cost - now.cost[0], 1e-9 * max(float(self._cost.sum()), 1e-9))
        rate = np.where(gain > 0, gain / cost**power, gain)
        rate[~worth.allowed] = -np.inf
        step: np.ndarray = sets[int(np.argmax(rate))]
        return step

    def _greedy(self, target: float, power: float) -> np.ndarray:
        chosen = np.zeros(len(self._units), bool)
        while self._worth(chosen[None]).noise[0] > target:
            more = self._step(chosen, target, power)
            if more is None:
                break
            chosen = more
        return chosen

    def _backwards(self, target: float) -> np.ndarray:
        """From all in float: into int8 goes what saves most for the noise that it adds."""
        chosen = np.ones(len(self._units), bool)
        while chosen.any():
            sets = _without(chosen, np.flatnonzero(chosen)[:, None])
            worth, now = self._worth(sets), self._worth(chosen[None])
            if now.allowed[0] and (worth.noise > target).all():
                break
            added = np.maximum(worth.noise - now.noise[0], 1e-12 * max(target, 1e-12))
            rate = (now.cost[0] - worth.cost + 1e-12) / added
            if now.allowed[0]:
                rate[worth.noise > target] = -np.inf
            chosen = sets[int(np.argmax(rate))]
        return chosen

    def _exchanged(self, chosen: np.ndarray, target: float) -> np.ndarray:
        """As long as an exchange makes it better, the best one."""
        key = self._worth(chosen[None]).key(0, target)
        while True:
            better = None
            for sets in self._neighbours(chosen):
                worth = self._worth(sets)
                place = worth.best(target)
                if place >= 0 and worth.key(place, target) < key:
                    better, key = sets[place], worth.key(place, target)
                    break
            if better is None:
                return chosen
            chosen = better

    def _neighbours(self, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """Sets near one, in kinds: those of the first are fewer."""
        ours, others = self._by_rate(chosen)
        if len(ours):
            yield _without(chosen, ours[:, None])
        if len(others):
            yield chosen | self._moves
        ones, pairs = _choices(ours[:_NEAR], 1), _choices(ours[:_NEAR_PAIRS], 2)
        other_ones, other_pairs = _choices(others[:_NEAR], 1), _choices(others[:_NEAR_PAIRS], 2)
        for out, into in ((ones, other_ones), (pairs, other_ones), (ones, other_pairs), (pairs, other_pairs)):
            if len(out) and len(into):
                sets = _without(chosen, np.repeat(out, len(into), axis=0))
                rows = np.arange(len(sets))
                for column in np.tile(into, (len(out), 1)).T:
                    sets[rows, column] = True
                yield sets

    def _by_rate(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places of the nodes in float, and of those in int8; first those that promise most.

        In float it is what costs much for what it gains, in int8 what gains much for what it costs.
        """
        sets = np.repeat(chosen[None], len(chosen), axis=0)
        np.fill_diagonal(sets, ~chosen)
        worth, now = self._worth(sets), self._worth(chosen[None])
        gain = np.abs(now.noise[0] - worth.noise)
        rate = gain / np.maximum(np.abs(worth.cost - now.cost[0]), 1e-9)
        order = np.argsort(-rate, kind="stable")
        return order[chosen[order]][::-1], order[~chosen[order]]


class _Removal:
    """Which sources are on, for sets of nodes in float: `Sources.on_each` on arrays."""

    def __init__(self, model: NoiseModel, place: Mapping[str, int]) -> None:
        wants, self._kept = model.sources.wants
        self._hit = Union([[place[name] for name in want if name in place] for want in wants])

    def __call__(self, sets: np.ndarray) -> np.ndarray:
        return self._kept(~self._hit(sets))


def _units(model: NoiseModel, nodes: Sequence[str]) -> list[tuple[str, ...]]:
    """Nodes that are decided on together: those of a block, as what one of them gains is not known."""
    sources = model.sources
    block: dict[str, int] = {}
    for place, source in enumerate(sources.entries):
        for name in itertools.chain(*source.wants):
            if place not in sources.parts or block.setdefault(name, place) != place:
                block[name] = -1
    places = ((block.get(name, -1), name) for name in nodes)
    return [tuple(unit) for unit in grouped((name if at < 0 else at, name) for at, name in places).values()]


def _without(chosen: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Sets that lack some of a set's nodes, int [sets, missing]."""
    sets = np.repeat(chosen[None], len(places), axis=0)
    rows = np.arange(len(places))
    for column in places.T:
        sets[rows, column] = False
    return sets


def _choices(places: np.ndarray, count: int) -> np.ndarray:
    """All choices of so many places, int [choices, count]."""
    return np.array(list(itertools.combinations(places.tolist(), count)), int).reshape(-1, count)
