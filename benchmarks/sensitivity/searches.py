"""The search against exhaustive search and against greedy orders.

    python -m benchmarks.sensitivity.searches [--nets digits,...] [--samples 32] [--rows out.jsonl]

Exhaustive: on nets of at most 14 decisions, and on 12 decisions drawn of those that have more, ten goals are
spread over the range; the heuristic's cost is divided by that of the cheapest of all sets. By G each time; of
the smallest nets all sets are also measured, and what `for_sqnr` finds is compared with the cheapest that
measures enough.

Greedy: what is loudest alone goes first, or what gains most alone (leave-one-out, measured), by itself or
for its cost. At the cost of some of their sets the search's best set is measured too: on samples that chose
nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.sensitivity.measuring import Opened, flags, printed, trained
from onnxq.noise.search import EXACT, Search
from onnxq.pipeline.accuracy import Accuracy

GOALS = 10
DRAWN, DRAWS = 12, 2  # decisions of a part of a net, and how many parts
RATIO, BEHIND = 1.1, 0.5
POINTS = 5  # of a greedy order, at which costs are equal
ALL = 8  # nodes whose sets are all measured
_HALVINGS = 10
_EQUAL_DB = 1e-6  # a set that falls short by less reaches its goal


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Ten goals, and what they cost.

    Attributes:
        net: its name.
        judge: what says the noise of a set: G, or a measurement.
        nodes: how many can be float.
        equal: goals that cost the same, of those that can be met.
        goals: how many these are.
        worst: the greatest ratio of costs.
        holds: whether nine of ten cost the same, and none more than 1.1 times as much.
    """

    net: str
    judge: str
    nodes: int
    equal: int
    goals: int
    worst: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """The search beside a greedy order, at equal cost.

    Attributes:
        net: its name.
        order: which.
        points: at how many costs.
        mean: by how many dB the search is ahead, measured on samples that chose nothing.
        worst: where it is least ahead.
        mean_chosen: likewise on the samples that chose.
        worst_chosen: likewise.
        holds: whether it is nowhere 0.5 dB behind on samples that chose nothing.
    """

    net: str
    order: str
    points: int
    mean: float
    worst: float
    mean_chosen: float
    worst_chosen: float
    holds: bool


def main() -> None:
    given = flags(__doc__)
    rows: list[Compared] = []
    for net in trained(given.nets, 0, given.samples):
        printed(exhausted(net), given.rows)
        rows += printed(compared(net), given.rows)
    printed(over_nets(rows), given.rows)


# -- exhaustive --------------------------------------------------------------------------------


def exhausted(net: Opened) -> Iterator[Exhausted]:
    """A net, or parts of it, by G; of the smallest all sets are measured, too."""
    found = net.found
    for search in parts(found.search, found):
        yield row_of(net.name, "G", len(search.nodes), *by_gram(search))
    if len(found.search.nodes) <= ALL:
        yield row_of(net.name, "measured", len(found.search.nodes), *by_measuring(found))


def row_of(
    net: str, judge: str, nodes: int, ours: Sequence[float | None], least: Sequence[float | None]
) -> Exhausted:
    """What goals cost, and what they have to; None where they are not met."""
    pairs = [(a, b) for a, b in zip(ours, least, strict=True) if b is not None]
    ratios = [np.inf if a is None else a / b if b else 1.0 if not a else np.inf for a, b in pairs]
    equal = sum(ratio <= 1 + 1e-9 for ratio in ratios)
    worst = max(ratios, default=1.0)
    return Exhausted(
        net, judge, nodes, equal, len(ratios), float(worst), equal >= 0.9 * len(ratios) and worst <= RATIO
    )


def parts(search: Search, found: Accuracy) -> Iterator[Search]:
    """A search that can be exhausted: itself, or of some decisions drawn of its own."""
    if len(search.nodes) <= EXACT:
        yield search
        return
    random = np.random.default_rng(0)
    for _ in range(DRAWS):
        order = random.permutation(len(found.decisions))
        chosen: list[int] = []
        for place in order:  # a decision may need several nodes
            more = Search(search.model, [found.decisions[i] for i in sorted([*chosen, place])], search.costs)
            if len(more.nodes) <= DRAWN:
                chosen.append(int(place))
        yield Search(search.model, [found.decisions[i] for i in sorted(chosen)], search.costs)


def by_gram(search: Search) -> tuple[list[float | None], list[float | None]]:
    """What goals cost by the heuristic and by trying all sets, both by G."""
    levels = [search.predicted(()).sqnr_db, search.predicted(search.nodes).sqnr_db]

    def costs(exact: bool) -> list[float | None]:
        chosen = [(goal, search.cheapest(goal, exact=exact)) for goal in spread(*levels)]
        return [each.cost if each.sqnr_db >= goal - _EQUAL_DB else None for goal, each in chosen]

    return costs(False), costs(True)


def by_measuring(found: Accuracy) -> tuple[list[float | None], list[float | None]]:
    """What goals cost as `for_sqnr` meets them, and the cheapest set that measures enough."""
    search = found.search
    sets = [
        [node for node, is_float in zip(search.nodes, choice, strict=True) if is_float]
        for choice in itertools.product((False, True), repeat=len(search.nodes))
    ]
    levels = found.sqnr_db(sets)
    costs = [search.costs.cost(one) for one in sets]
    ours, least = [], []
    for goal in spread(levels[0], levels[-1]):
        met = found.for_sqnr(goal)
        ours.append(met.best.cost if met.met else None)
        enough = [cost for cost, level in zip(costs, levels, strict=True) if level >= goal]
        least.append(min(enough, default=None))
    return ours, least


def spread(low: float, high: float, count: int = GOALS, most: float = 30.0) -> list[float]:
    """Goals between what all in int8 and all in float give, the ends left out; no more than 30 dB above."""
    return [float(goal) for goal in np.linspace(low, min(high, low + most), count + 2)[1:-1]]


# -- greedy ------------------------------------------------------------------------------------


def compared(net: Opened) -> Iterator[Compared]:
    """The search beside the greedy orders."""
    found = net.found
    search = found.search
    kinds = orders(found)
    pairs: dict[str, list[tuple[Collection[str], Collection[str]]]] = {}
    for kind, order in kinds.items():
        pairs[kind] = []
        for count in points(len(order)):
            theirs = order[:count]
            pairs[kind].append((affordable(search, search.costs.cost(theirs)), theirs))
    sets = list(dict.fromkeys(tuple(sorted(one)) for each in pairs.values() for pair in each for one in pair))
    unseen = dict(zip(sets, net.unseen_db(sets), strict=True))
    chosen = dict(zip(sets, found.sqnr_db(sets), strict=True))
    for kind, each in pairs.items():
        ahead, ahead_chosen = (
            [_less(levels[tuple(sorted(a))], levels[tuple(sorted(b))]) for a, b in each]
            for levels in (unseen, chosen)
        )
        mean, worst = float(np.mean(ahead)), float(np.min(ahead))
        yield Compared(
            net.name, kind, len(each), mean, worst, float(np.mean(ahead_chosen)), float(np.min(ahead_chosen)),
            worst >= -BEHIND,
        )  # fmt: skip


def over_nets(rows: Sequence[Compared]) -> Iterator[Compared]:
    """The means over nets, which weigh the same, and the worst of all; the means have to be ahead."""
    for order in dict.fromkeys(row.order for row in rows):
        some = [row for row in rows if row.order == order]
        means = [float(np.mean([getattr(row, name) for row in some])) for name in ("mean", "mean_chosen")]
        worst = [min(getattr(row, name) for row in some) for name in ("worst", "worst_chosen")]
        count = sum(row.points for row in some)
        holds = means[0] >= 0 and worst[0] >= -BEHIND
        yield Compared(f"{len(some)} nets", order, count, means[0], worst[0], means[1], worst[1], holds)


def orders(found: Accuracy) -> dict[str, list[str]]:
    """Nodes in the orders that greedy takes them in."""
    search, model = found.search, found.model
    on = model.sources.on(())
    ones = [[node] for node in search.nodes]
    alone = model.noises(on & ~model.sources.on_each(ones))
    base, *gains = found.sqnr_db([(), *ones])
    gain = 10 ** (-base / 10) - 10 ** (-np.array(gains) / 10)
    cost = np.array([max(search.costs.cost(one), 1e-9) for one in ones])
    kinds = {"power": alone, "power for cost": alone / cost, "leave-one-out": gain,
             "leave-one-out for cost": np.where(gain > 0, gain / cost, gain * cost)}  # fmt: skip
    return {
        kind: [search.nodes[place] for place in np.argsort(-worth, kind="stable")]
        for kind, worth in kinds.items()
    }


def points(count: int, most: int = POINTS) -> list[int]:
    """How many nodes of an order are float where costs are equal: few and half of them, not all."""
    wanted = np.geomspace(1, max(1, count // 2), most)
    return sorted({round(float(one)) for one in wanted})


def affordable(search: Search, cost: float) -> Sequence[str]:
    """The set of least predicted noise that costs no more: by halving the goal."""
    low, high = search.predicted(()).sqnr_db, search.predicted(search.nodes).sqnr_db
    best = search.predicted(())
    high = min(high, low + 60)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        one = search.cheapest(middle, exact=False)
        if one.sqnr_db >= middle - _EQUAL_DB and one.cost <= cost * (1 + 1e-9):
            low = max(middle, min(one.sqnr_db, high))
            best = max(best, one, key=lambda each: each.sqnr_db)
        else:
            high = middle
    return best.floats


def _less(one: float, other: float) -> float:
    return 0.0 if one == other else one - other


if __name__ == "__main__":
    main()
