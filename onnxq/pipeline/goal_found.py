"""What a search for a goal found, in the words of the report."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnxq.base.errors import fault_of
from onnxq.base.plain import extended
from onnxq.base.reason import noted
from onnxq.documents.accuracy import GateMeasured, GoalPart, GoalSearch, LeftInFloat
from onnxq.noise.goal import Met
from onnxq.noise.ranking import DecisionRanked, ranked
from onnxq.noise.search import Search
from onnxq.options.settings import Goal
from onnxq.pipeline.accuracy import Accuracy
from onnxq.pipeline.gates import Verified, goal_part
from onnxq.pipeline.pursuit import Pursuit

ONE_EACH = "return one score a sample"
"""What a function does that tells more."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found.

    Attributes:
        accuracy: the noise, and what measures it.
        met: the set by the samples that chose.
        raised: by how much each aim was raised, by the kind of the gate.
    """

    accuracy: Accuracy
    met: Met
    raised: dict[str, float] = field(default_factory=dict)

    def part(self, goal: Goal) -> GoalSearch:
        """The part of the report."""
        accuracy, met, best = self.accuracy, self.met, self.met.best
        return extended(
            GoalSearch,
            accuracy.part(),
            max_float=goal.max_float,
            cost=best.cost,
            share_of_int8_macs=accuracy.costs.share(best.nodes),
            floats=tuple(
                LeftInFloat(one.nodes[0], one.gain_db, one.cost, one.share_of_int8_macs, one.why)
                for one in met.prices
            ),
            met_where_chosen=met.met,
            aim=met.goal,
            margin_db=None if goal.min_sqnr is None else accuracy.margin_db,
            raised=self.raised,
            predicted=best.predicted_sqnr_db,
            measured=best.measured,
            trials=met.trials,
        )

    def missing(self, goal: Goal) -> list[str]:
        """Why nothing meets a goal."""
        accuracy, met, sentences = self.accuracy, self.met, []
        format = accuracy.built.draft.plan.format_names
        if goal.max_float is not None and not met.met:
            taken = accuracy.costs.share(met.best.nodes)
            sentences.append(
                noted("goal.most-float", most=100 * goal.max_float, format=format, taken=100 * taken)
            )
        if goal.min_sqnr is not None and not met.met:
            free = Search(accuracy.model, accuracy.decisions, accuracy.costs, None)
            every = free.predicted(name for decision in accuracy.decisions for name in decision.nodes)
            if every.sqnr_db < goal.min_sqnr:
                sentences.append(noted("goal.body", format=format, level=every.sqnr_db))
        return sentences


def prices_of(accuracy: Accuracy, floats: Collection[str]) -> list[DecisionRanked]:
    """What each node of a set gains beside the others, the greatest gain first."""
    model, costs, prices = accuracy.model, accuracy.costs, []
    for name in floats:
        decision = next(one for one in accuracy.decisions if name in one.nodes)
        alone = replace(decision, nodes=(name,), removes="")
        prices += ranked(model, [alone], costs, [other for other in floats if other != name])
    return sorted(prices, key=lambda one: -one.gain_db)


@dataclass(frozen=True, slots=True)
class GoalFound:
    """What came of a goal.

    Attributes:
        first: how near the planned model is, on samples that verify; None where nothing was begun.
        met: whether the result passes where it was confirmed.
        searched: what the search found; None where none was needed.
        cut: what a time limit left out; "" where it left nothing out.
        notes: what the user may not expect.
        mismatch: how what the user's function feeds differs from what calibrated.
    """

    first: Verified | None = None
    met: bool = False
    searched: Searched | None = None
    cut: str = ""
    notes: tuple[str, ...] = ()
    mismatch: tuple[str, ...] = ()

    def part(self, pursuit: Pursuit, verified: Verified) -> GoalPart | None:
        """The part of the report; a fault of ours in it is said, and costs nothing else.

        Args:
            pursuit: of the goal.
            verified: how near the model is that is written.
        """
        searched, goal, first = self.searched, pursuit.goal, self.first or verified
        gates, notes = verified.gates, [*self.notes]
        search, missing = None, list[str]()
        if searched is not None:
            try:
                search = searched.part(goal)
                missing = [] if verified.met else searched.missing(goal)
            except Exception as error:
                notes.append(noted("goal.untold", fault=fault_of(error)))
        if not verified.met:
            missing = [*undecidable(gates), *self._by_chance(gates), *missing]
        if any(gate.kind == "drop" and gate.resolution is None for gate in gates):
            notes.append(noted("goal.one-number", function=gates[-1].of, do=ONE_EACH))
        return goal_part(
            gates, pursuit.scores_of(first, verified), default=tuple(first.gates), search=search,
            missing=tuple(missing), cut=self.cut or None, notes=tuple(notes), mismatch=self.mismatch,
        )  # fmt: skip

    def _by_chance(self, gates: Sequence[GateMeasured]) -> Iterator[str]:
        """What other samples say otherwise than those that decided."""
        first, met = self.first, None if self.searched is None else self.searched.met
        if any(gate.undecided for gate in gates):
            return
        if self.met:
            yield noted("goal.met-where-decided")
        elif met is not None and met.met:
            yield noted("goal.met-where-chosen")
        if first is not None and met is not None and met.best.nodes and not nearest([first.gates, gates]):
            yield noted("goal.no-nearer")


def nearest(candidates: Sequence[Sequence[GateMeasured]]) -> int:
    """The place of the one that misses least, the first of equals.

    Misses of several gates are added, each as a share of the greatest.

    Args:
        candidates: the same gates of each.
    """
    missing = np.array([[missing_of(gate) for gate in gates] for gates in candidates])
    worst = missing.max(0)
    with np.errstate(invalid="ignore"):
        shares = np.nan_to_num(missing[:, worst > 0] / worst[worst > 0], nan=1.0)
    return int(np.argmin(shares.sum(1).round(9)))


def undecidable(gates: Iterable[GateMeasured]) -> Iterator[str]:
    """What samples do not tell of gates."""
    for gate in gates:
        if gate.undecided:
            off = abs((gate.measured or 0.0) - gate.goal)
            yield noted(
                "goal.undecided" if gate.samples else "goal.undecided-of-one",
                told=gate.tells, off=off, do=ONE_EACH,
            )  # fmt: skip


def surely_less(gate: GateMeasured, other: GateMeasured) -> bool:
    """Whether one is missed by less than another, and that is resolved."""
    return missing_of(other) - missing_of(gate) > (gate.resolution or 0.0)


def missing_of(gate: GateMeasured) -> float:
    """By how much a gate is missed; infinite where nothing was measured."""
    return math.inf if gate.missing is None else gate.missing
