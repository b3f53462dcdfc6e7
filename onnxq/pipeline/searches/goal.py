"""The goal: which layers are left in float so that the outputs pass.

What samples that choose propose, others confirm; of others again, which decide nothing, are the figures told.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason, noted, reason
from onnxq.base.time_limit import TimeIsUp
from onnxq.documents.accuracy import GateMeasured
from onnxq.judge.acceptance import Gain
from onnxq.judge.comparable import not_compared
from onnxq.judge.paired import SampleScores
from onnxq.judge.policies import GIVEN_AWAY, SURE
from onnxq.noise.goal import FloatSetTried, Met, meet_score
from onnxq.options.settings import CallableModel
from onnxq.pipeline.accuracy import MOST, Accuracy
from onnxq.pipeline.building import Built
from onnxq.pipeline.gates import Verified, rounding
from onnxq.pipeline.goal_found import GoalFound, Searched, missing_of, nearest, prices_of, surely_less
from onnxq.pipeline.pursuit import Pursuit
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.searches.body import last_form
from onnxq.run import ort

GOAL_SOURCES = 2 * MOST
"""As `Asked.most`, for a goal: sets of many nodes need more of them told apart than a ranking."""

RAISES = 3
"""How often the aim of an agreement or a score is raised where the samples that confirm fall short."""

_LEAST_RAISE = 0.05  # percent of rows that agree; of a score see `_GoalSearch._raised`
_BEYOND = 1.25  # of what is missing of a score: by so much the aim is raised
_LEAST_SHARE = 0.05  # of the drop that is allowed: by so much at least

_WIDE = reason("goal.wide")


class _Tried(NamedTuple):
    """A model as it would be written, and how near it is on samples that confirm."""

    built: Built
    verified: Verified


class _GoalSearch:
    """One search for a goal."""

    def __init__(self, run: Run, pursuit: Pursuit) -> None:
        self._sampling, self._run, self._pursuit = run.sampling, run, pursuit
        self._goal = pursuit.goal
        self._notes: list[str] = []
        self._cut = self._kept = ""
        self._searched: Searched | None = None
        self._accuracy: Accuracy | None = None
        self._mismatch = pursuit.mismatch

    def run(self) -> Run:
        """The model that meets the goal with the least in float; else the one that is nearest to it.

        Where the planned one meets it as it is, nothing is searched for. What samples that choose propose,
        others confirm; the figures of what is returned are of the samples that verify, which have no say.

        Raises:
            UserError: the noise cannot be measured, or the user's function fails.
        """
        first = self._tried(self._run.built)
        best = self._decided(first)
        if self._sampling.few and self._searched is None:
            self._notes.append(self._sampling.few)
        as_planned = self._verified(first)
        verified = as_planned if best is first else self._verified(best)
        if self._kept and not verified.met:
            self._notes.append(self._kept)
        goal = GoalFound(
            as_planned, best.verified.met, self._searched, self._cut, tuple(self._notes), self._mismatch
        )
        return replace(self._run, built=best.built, verified=verified, goal=goal)

    def _tried(self, built: Built) -> _Tried:
        """A quantized model as it would be written, and how near it is on samples that confirm."""
        built = last_form(built, self._run.stats, self._sampling)
        confirming, crossing = self._run.references.confirming, self._run.crossing(built, confirms=True)
        return _Tried(
            built,
            self._pursuit.verified(self._sampling, built, confirming, confirms=True, crossed=crossing),
        )

    def _verified(self, of: _Tried) -> Verified:
        """How near a model is on samples that decided nothing."""
        score = of.verified.score if self._pursuit.same_score else None
        verifying, crossing = self._run.references.verifying, self._run.crossing(of.built)
        return self._pursuit.verified(self._sampling, of.built, verifying, score=score, crossed=crossing)

    def _decided(self, first: _Tried) -> _Tried:
        """The one that is kept, as the samples that choose and confirm say."""
        if first.verified.clear or not first.built.draft.plan.pairs:
            return first
        if self._mismatch and self._goal.max_drop is not None:
            if not first.verified.met:
                self._notes.append(noted("goal.mismatch"))
            return first
        silent = first.verified.gauge.about_mean
        if silent.sqnr_about_mean_db is None:  # integers, say: what moves them is not seen until they change
            self._notes.append(noted("not-searched-for.outputs", why=not_compared(silent.left_out)))
            return first
        for gate in first.verified.gates:
            if gate.measured is None:
                why = "; ".join(f"{one.output!r}: {one.why}" for one in silent.left_out)
                self._notes.append(noted("not-searched-for.gate", what=gate.what, why=why and f" ({why})"))
                return first
        try:
            best = self._best(first)
            return best if best.verified.met or self._cut else self._of_bodies(best)
        except UserError as error:
            if not isinstance(error.__cause__, ort.RunError):  # on these samples the float model runs
                raise
            self._notes.append(noted("not-searched-for", why=error))
            return first

    def _best(self, first: _Tried) -> _Tried:
        """The cheapest that passes where it is confirmed; else the nearest."""
        built, job, limit = self._run.built, self._run.built.job, self._run.built.job.limit
        accuracy = self._accuracy = self._accuracy or Accuracy(
            self._sampling, built, replace(self._pursuit.asked(), most=GOAL_SOURCES)
        )
        accuracy.measure_body(first.built.draft.body.decision)
        candidates = {frozenset[str](): first}
        sets: dict[frozenset[str], Met] = {}
        raised: dict[str, float] = {}
        candidate = first
        for _ in range(1 + RAISES):
            try:
                with job.step("goal"), limit:
                    met = self._worth_it(accuracy, self._met(accuracy, raised), raised)
            except TimeIsUp:
                if not accuracy.is_measured:
                    self._cut = noted("goal-cut.sources", limit=limit)
                    return candidate
                by_db = [*self._aims(0.0, raised)] == ["sqnr"]
                self._cut = noted("goal-cut.search" if by_db else "goal-cut.halves", limit=limit)
                if by_db:
                    met = self._unconfirmed(accuracy, raised)
                else:  # prediction does not know the score
                    with job.step("goal"):
                        met = self._met(accuracy, raised, retries=0)
            floats = frozenset(met.best.nodes)
            if floats not in candidates:
                candidates[floats] = self._tried(built.in_float(accuracy.reasons(met)))
            candidate, sets[floats] = candidates[floats], met
            if candidate.verified.met or candidate.verified.undecided or not met.met or self._cut:
                break
            # of dB there is a margin instead
            higher = self._raised(raised, [gate for gate in candidate.verified.gates if gate.kind != "sqnr"])
            if self._aims(0.0, higher) == self._aims(0.0, raised):  # no aim is above the float model
                break
            raised = higher
        if not candidate.verified.met:  # what confirms has the last word: never what is dearer and no nearer
            by_cost = [frozenset[str](), *sorted(sets, key=lambda one: sets[one].best.cost)]
            floats = by_cost[nearest([candidates[one].verified.gates for one in by_cost])]
            candidate, met = candidates[floats], sets.get(floats) or replace(met, best=met.base, prices=())
            if floats not in sets:
                self._notes.append(noted("not-searched-for.confirmed"))
        if not candidate.built.draft.plan.pairs:
            self._notes.insert(0, noted("goal.all-float", format=candidate.built.draft.plan.format_names))
        self._searched = Searched(accuracy, met, raised)
        return candidate

    def _of_bodies(self, best: _Tried) -> _Tried:
        """The one that is nearer, of this and the best with a float32 body, where half was nobody's wish."""
        body, limit = best.built.draft.body, self._run.built.job.limit
        if body.kind is None or body.because.code != "typed" or best.verified.undecided or limit.is_over:
            return best
        wide = replace(body, kind=None, decision=None, because=_WIDE)
        if not self._nearer(best, self._tried(best.built.with_body(wide))):
            return best
        halves = self._run, self._searched, [*self._notes]
        self._run = replace(self._run, built=self._run.built.with_body(wide))
        self._notes = []
        first = self._tried(self._run.built)
        other = first if first.verified.clear else self._best(first)
        if self._nearer(best, other):
            if other is first:
                self._searched = None
            self._notes.append(f"{_WIDE}: see body")
            return other
        self._run, self._searched, self._notes = halves
        return best

    @staticmethod
    def _nearer(best: _Tried, other: _Tried) -> bool:
        """Whether another model is nearer to the goal by more than its samples leave to chance."""
        if other.verified.met:
            return True
        return nearest([best.verified.gates, other.verified.gates]) == 1 and all(
            before.met or surely_less(after, before)
            for before, after in zip(best.verified.gates, other.verified.gates, strict=True)
        )

    def _worth_it(self, accuracy: Accuracy, met: Met, raised: Mapping[str, float]) -> Met:
        """The same, unless it gives away layers for less than the samples resolve; else what does not.

        Of the sets that were measured the cheapest is taken that is not surely worse than a much dearer one.
        """
        allowed, share = self._goal.max_float, accuracy.costs.share
        taken = share(met.best.nodes)
        if taken <= GIVEN_AWAY:
            return met
        if "sqnr" in self._aims(0.0, raised):  # a standard error more than asked for is not resolved
            modest = self._met(accuracy, raised, margin=False)
            if modest.met and taken - share(modest.best.nodes) > GIVEN_AWAY:
                return modest
        cheaper = sorted(met.trials, key=lambda trial: trial.cost)
        for trial in cheaper:
            if taken - share(trial.nodes) <= GIVEN_AWAY:
                break
            if not self._resolved(accuracy, trial.nodes, met.best.nodes):
                format = self._run.built.draft.plan.format_names
                self._kept = noted(
                    "goal.not-resolved", share=100 * (taken - share(trial.nodes)), format=format
                )
                least = min(share(trial.nodes) + GIVEN_AWAY, 1.0 if allowed is None else allowed)
                accuracy.bounded(least)
                little = self._met(accuracy, raised)
                accuracy.bounded(allowed)
                if little.met:
                    return little
                return replace(little, best=trial, prices=tuple(prices_of(accuracy, trial.nodes)))
        return met

    def _resolved(self, accuracy: Accuracy, before: Collection[str], after: Collection[str]) -> bool:
        """Whether a set is surely nearer to the goal than another one, by a figure that misses it there."""
        bound, aims, sets, pairs = self._pursuit.bound, self._aims(0.0, {}), [before, after], []
        assert bound is not None
        if "sqnr" in aims:
            was, now = accuracy.levels(sets)
            if was.sqnr_db is not None and now.sqnr_db is not None and was.sqnr_db < aims["sqnr"]:
                gain = Gain.of(was, now)
                if gain.db > 0 and gain.lead > SURE:
                    return True
        if bound.agreement is not None:
            pairs.append(accuracy.kept(bound.task, sets))
        if "drop" in aims:
            pairs.append(accuracy.scores(self._score, sets))
        for less, more in pairs:
            told = less.resolution(more)
            if more.value - less.value > ((self._goal.max_drop or 0.0) if told is None else told.least):
                return True
        return False

    def _raised(self, raised: Mapping[str, float], gates: Sequence[GateMeasured]) -> dict[str, float]:
        """By how much each aim is raised where gates are missed; a score's has no unit of ours."""
        raises = dict(raised)
        for gate in gates:
            if gate.met:
                continue
            if gate.kind == "drop":
                by = max(_BEYOND * missing_of(gate), _LEAST_SHARE * gate.goal)
            else:
                by = max(missing_of(gate), _LEAST_RAISE)
            raises[gate.kind] = raises.get(gate.kind, 0.0) + by
        return raises

    def _unconfirmed(self, accuracy: Accuracy, raised: Mapping[str, float]) -> Met:
        """The set by prediction alone, for a goal of dB."""
        best = accuracy.search.cheapest(self._aims(accuracy.margin_db, raised)["sqnr"])
        trial = FloatSetTried(best.floats, best.cost, best.sqnr_db, math.nan)
        base = FloatSetTried((), 0.0, accuracy.model.sqnr_db(), math.nan)
        return Met(math.nan, False, trial, base, (), tuple(prices_of(accuracy, best.floats)))

    def _aims(self, margin: float, raised: Mapping[str, float]) -> dict[str, float]:
        """What is aimed at, by kind of gate, on the samples that choose; `margin`: of dB."""
        bound, goal = self._pursuit.bound, self._goal
        assert bound is not None
        aims: dict[str, float] = {}
        if goal.min_sqnr is not None:
            aims["sqnr"] = goal.min_sqnr + margin
        if bound.agreement is not None:
            aims["agreement"] = min(100.0, bound.agreement + raised.get("agreement", 0.0))
        if goal.max_drop is not None:
            float_score = self._pursuit.floats["choose"].value
            least = float_score - goal.max_drop + raised.get("drop", 0.0)
            aims["drop"] = min(least, float_score) - rounding(float_score, goal.max_drop)
        return aims

    def _met(
        self, accuracy: Accuracy, raised: Mapping[str, float], retries: int = 8, *, margin: bool = True
    ) -> Met:
        """What the samples that choose say is the cheapest set for the goal, aimed higher by so much.

        `retries`: see `meet_score`; `margin`: whether a goal of dB is aimed at by a standard error more.
        """
        bound = self._pursuit.bound
        assert bound is not None
        aims = self._aims(accuracy.margin_db if margin and self._goal.min_sqnr is not None else 0.0, raised)
        if len(aims) == 1:
            ((kind, aim),) = aims.items()
            if kind == "sqnr":
                return accuracy.for_sqnr(aim)
            if kind == "agreement":
                return accuracy.for_kept(bound.task, aim, retries=retries)
            return accuracy.for_score(self._score, aim, retries=retries)

        units = {
            "sqnr": 20.0,
            "agreement": 100.0,
            "drop": self._goal.max_drop or abs(aims.get("drop", 0)) or 1.0,
        }

        def margins(sets: Sequence[Collection[str]]) -> list[float]:
            """By how much the worst of the figures is above what is aimed at."""
            by_set: list[list[float]] = [[] for _ in sets]

            def add(kind: str, values: Sequence[float]) -> None:
                for margin, value in zip(by_set, values, strict=True):
                    margin.append((value - aims[kind]) / units[kind])

            if "sqnr" in aims:
                add("sqnr", accuracy.sqnr_db(sets))
            if bound.agreement is not None:
                add("agreement", [one.value for one in accuracy.kept(bound.task, sets)])
            if "drop" in aims:
                add("drop", [one.value for one in accuracy.scores(self._score, sets)])
            return [min(margin) for margin in by_set]

        return meet_score(accuracy.search, 0.0, margins, retries=retries)

    def _score(self, model: CallableModel) -> SampleScores:
        score = self._pursuit.score(model, "choose")
        assert score is not None
        return score


def _left_out(run: Run, why: Reason) -> Run:
    if why.code == "late":
        return replace(run, goal=GoalFound(cut=noted("goal-cut.sources", limit=run.built.job.limit)))
    return replace(run, goal=GoalFound(notes=(noted("not-searched-for", why=why),)))


def _sought(run: Run) -> Run:
    assert run.request.pursuit is not None
    return _GoalSearch(run, run.request.pursuit).run()


GOAL = ModelSearch(
    "goal",
    lambda run: run.request.pursues,
    _sought,
    _left_out,
)
