"""What a search for a goal found, in the words of the report."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from onnxq.base.plain import extended
from onnxq.documents.accuracy import GoalSearch, LeftInFloat
from onnxq.noise.goal import Met
from onnxq.noise.ranking import DecisionRanked, ranked
from onnxq.noise.search import Search
from onnxq.options.settings import Goal
from onnxq.pipeline.accuracy import Accuracy


@dataclass(slots=True)
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
        accuracy, met, said = self.accuracy, self.met, []
        if goal.max_float is not None and not met.met:
            taken = accuracy.costs.share(met.best.nodes)
            said.append(
                f"no more than {100 * goal.max_float:.3g} % of the int8 multiply-accumulates may go to "
                f"float, and {100 * taken:.3g} % did (--max-float)"
            )
        if goal.min_sqnr is not None and not met.met:
            free = Search(accuracy.model, accuracy.decisions, accuracy.costs, None)
            every = free.predicted(name for decision in accuracy.decisions for name in decision.nodes)
            if every.sqnr_db < goal.min_sqnr:
                said.append(
                    f"with all of int8 in float {every.sqnr_db:.1f} dB are predicted: the rest of the noise "
                    "is the body's (--body fp32)"
                )
        return said


def prices_of(accuracy: Accuracy, floats: Collection[str]) -> list[DecisionRanked]:
    """What each node of a set gains beside the others, the greatest gain first."""
    model, costs, found = accuracy.model, accuracy.costs, []
    for name in floats:
        decision = next(one for one in accuracy.decisions if name in one.nodes)
        alone = replace(decision, nodes=(name,), removes="")
        found += ranked(model, [alone], costs, [other for other in floats if other != name])
    return sorted(found, key=lambda one: -one.gain_db)
