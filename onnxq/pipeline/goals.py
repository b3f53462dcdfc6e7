"""A goal: which layers are left in float so that the outputs pass.

What samples that choose propose, others confirm; of others again, which decide nothing, are the figures told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.progress import Observer
from onnxq.calib.stats import Stats
from onnxq.documents.accuracy import GateMeasured, GoalPart, ScoresPart
from onnxq.documents.report import Report
from onnxq.judge.comparable import not_compared
from onnxq.judge.policies import CLEAR_DB
from onnxq.noise.goal import FloatSetTried, Met, meet_score
from onnxq.noise.measure import Submit
from onnxq.options.settings import CallableModel, Goal
from onnxq.pipeline.accuracy import MOST, STAGES, Accuracy, Asked
from onnxq.pipeline.body import decided
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.costs import costs_of_nodes, read_costs
from onnxq.pipeline.gates import BoundGoal, Gauge, drop_of, goal_part, rounding
from onnxq.pipeline.goal_search import Searched, prices_of
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.scoring import Part, Score, callable_of
from onnxq.pipeline.verifying import runner, verify
from onnxq.run import ort
from onnxq.run.about_mean import AboutMeanPart
from onnxq.run.compare import OutputAccuracy, Recording

GOAL_SOURCES = 2 * MOST
"""As `Asked.most`, for a goal: sets of many nodes need more of them told apart than a ranking."""

RAISES = 3
"""How often the aim of an agreement or a score is raised where the samples that confirm fall short."""

_LEAST_RAISE = 0.05  # percent of rows that agree; of a score see `Pursuit._raised`
_BEYOND = 1.25  # of what is missing of a score: by so much the aim is raised
_LEAST_SHARE = 0.05  # of the drop that is allowed: by so much at least

T = TypeVar("T")

_CUT_SOURCES = "was over before all sources of noise were measured: nothing is in float for the goal"
_CUT_GOAL = "cut the search: what is in float was chosen by prediction, and no fewer layers were tried"
_CUT_HALVES = "cut the search: layers were tried by halves only, and fewer in float may do"
_NO_INT8 = "no int8 is left in the model: for this goal all of it is in float"


@dataclass(frozen=True, slots=True)
class Measurement:
    """How what layers add to the noise is measured.

    Attributes:
        state: a file that keeps what is done, for a run that goes on.
        workers: how many processes.
        submit: `submit` of an executor, where the work goes instead.
    """

    state: Path | None = None
    workers: int = 1
    submit: Submit | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """How near a model is to the float one, on samples that verify, or confirm.

    Attributes:
        accuracy: of each output.
        gauge: of the goal's figures.
        score: the user's; None where there is none.
        drop: by how much that is below the float model's on these samples; likewise.
    """

    accuracy: Sequence[OutputAccuracy]
    gauge: Gauge
    score: float | None = None
    drop: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A model that could be written.

    Attributes:
        built: it, as it is written.
        verified: how near it is.
        gates: whether it passes there.
    """

    built: Built
    verified: Verified
    gates: Sequence[GateMeasured]

    @property
    def met(self) -> bool:
        """Whether it passes."""
        return all(gate.met for gate in self.gates)

    @property
    def clear(self) -> bool:
        """Whether it passes, and other samples of the kind cannot say otherwise by chance."""
        return self.met and all(
            gate.kind != "sqnr" or (gate.measured or 0.0) >= gate.goal + CLEAR_DB for gate in self.gates
        )


class _TimeIsUp(Exception):
    """The user's time limit is reached."""


class _Limit:
    """Ends a search when the time is up, where it tells how far it is, inside of `with`.

    Attributes:
        all_measured: whether all sources were.
    """

    def __init__(self, observe: Observer, seconds: float | None) -> None:
        self._told, self._seconds, self._on = observe, seconds, False
        self._end = math.inf  # which is known when it begins
        self.all_measured = False

    def __enter__(self) -> None:
        if self._seconds is not None and self._end == math.inf:
            self._end = time.monotonic() + self._seconds
        self._on = True

    def __exit__(self, *error: object) -> None:
        self._on = False

    def observe(self, step: str, done: int | None, total: int | None) -> None:
        self._told(step, done, total)
        self.all_measured |= step == "sources" and done is not None and done == total
        late = self._on and time.monotonic() > self._end
        if late and done is not None and step in ("sources", "goal"):
            raise _TimeIsUp


class Pursuit:
    """The way to a goal.

    Attributes:
        goal: what is asked for.
        notes: what the user may not expect.
    """

    def __init__(self, goal: Goal, measurement: Measurement) -> None:
        """Loads the user's function, whose code is run, and reads the costs.

        Raises:
            UserError: one of them cannot be used.
        """
        self.goal, self._measurement = goal, measurement
        self._score = None if goal.eval is None else Score.of(goal.eval)
        self._costs = read_costs(goal.costs)
        self.notes: list[str] = []
        self._cut = ""
        self._floats: dict[Part, float] = {}
        self._first: Attempt | None = None
        self._met_where_confirmed = False
        self._found: Searched | None = None
        self._bound: BoundGoal | None = None

    def begin(self, job: Job, prepared: Prepared) -> None:
        """Scores the float model, and looks whether names exist: before the long work begins.

        Raises:
            UserError: a name does not exist, nothing runs, or the user's function fails.
        """
        reference = prepared.floats.reference
        outputs = tuple(info.name for info in reference.graph.output)
        if not outputs:
            if self.goal.is_set or self._score is not None:
                raise UserError("no part of the model runs in onnxruntime: there is no goal to be measured")
            return
        self._bound = BoundGoal.of(self.goal, outputs, job.model.outputs)
        if self.goal.min_sqnr is not None:
            _check_floats(self.goal, outputs, job)
        if isinstance(self._costs, dict):
            self._costs = costs_of_nodes(self._costs, job, prepared)
        if self._score is not None:
            with job.step("score"):
                model = callable_of(ort.load(reference, data_dir=job.model.data_dir), job)
                self._floats["verify"] = self._score(model, "verify")
                same = not self._score.told
                self._floats["choose"] = self._floats["verify"] if same else self._score(model, "choose")

    def asked(self) -> Asked:
        """How the noise is measured."""
        goal, costs = self.goal, self._costs
        return Asked(
            samples=goal.measure,
            weights=goal.weigh,
            unit="bytes" if costs == "bytes" else "macs",
            costs=costs if isinstance(costs, dict) else None,
            max_float=goal.max_float,
            state=self._measurement.state,
            workers=self._measurement.workers,
            submit=self._measurement.submit,
        )

    # -- judging -------------------------------------------------------------------------------

    def verified(
        self,
        sampling: Sampling,
        built: Built,
        expected: Recording | None,
        *,
        confirms: bool = False,
        score: float | None = None,
    ) -> Verified:
        """How near a model is as it is written.

        Args:
            sampling: gives the samples.
            built: the model; of one of which a part runs the ends are others in half precision.
            expected: the float model.
            confirms: whether on the samples that confirm, and not on those that verify; the user's function
                has no more than two kinds, so that what chose confirms.
            score: the user's score, where it is known.
        """
        bound, job = self._bound, built.job
        if expected is None or bound is None:
            return Verified(verify(job, sampling, built.proto, expected, confirms=confirms), _NOTHING)
        emulate = built.emulates
        proto = built.written.proto if emulate else built.proto
        gauge = bound.gauge(job.parts_of(expected.outputs))
        accuracy = verify(
            job, sampling, proto, expected, emulate=emulate, meters=gauge.meters, confirms=confirms
        )
        if self._score is None:
            return Verified(accuracy, gauge)
        part: Part = "choose" if confirms else "verify"
        if score is None:
            with job.step("score"):
                score = self._score(callable_of(runner(job, proto, emulate=emulate), job), part)
        return Verified(accuracy, gauge, score, drop_of(self._floats[part], score, self.goal.max_drop))

    def gates(self, verified: Verified) -> list[GateMeasured]:
        """What is asked for, with what was measured."""
        if self._bound is None:
            return []
        name = "" if self._score is None else self._score.name
        return self._bound.gates(verified.gauge, verified.drop, name)

    # -- searching -----------------------------------------------------------------------------

    def attempt(
        self,
        sampling: Sampling,
        stats: Stats,
        built: Built,
        expected: Recording | None,
        *,
        confirms: bool = False,
    ) -> Attempt:
        """A quantized model as it would be written, and how near it is.

        On the samples that verify; with `confirms` on those that confirm. See `sought`.
        """
        built = decided(built, stats, sampling)
        if built.job.target.explicit:
            built = built.finished()
        found = self.verified(sampling, built, expected, confirms=confirms)
        return Attempt(built, found, self.gates(found))

    def sought(
        self,
        sampling: Sampling,
        stats: Stats,
        built: Built,
        confirming: Recording | None,
        expected: Recording | None,
    ) -> Attempt:
        """The model that meets the goal with the least in float; else the one that is nearest to it.

        Where the planned one meets it as it is, nothing is searched for. What samples that choose propose,
        others confirm; the figures of what is returned are of the samples that verify, which have no say.

        Args:
            sampling: gives the samples; some have to be kept apart to choose, and some to confirm.
            stats: the ranges of tensors.
            built: the quantized model; what stays float32 of the rest is decided here.
            confirming: the float model on the samples that confirm.
            expected: that on those that verify.

        Raises:
            UserError: the noise cannot be measured, or the user's function fails.
        """

        def tried(built: Built) -> Attempt:
            return self.attempt(sampling, stats, built, confirming, confirms=True)

        def verified(of: Attempt) -> Attempt:
            known = self._score is not None and not self._score.told
            score = of.verified.score if known else None
            found = self.verified(sampling, of.built, expected, score=score)
            return replace(of, verified=found, gates=self.gates(found))

        if not self.goal.is_set:
            return self.attempt(sampling, stats, built, expected)
        first = tried(built)
        best = self._decided(sampling, built, first, tried)
        if sampling.few and self._found is None:
            self.notes.append(sampling.few)
        self._met_where_confirmed = best.met
        self._first = verified(first)
        return self._first if best is first else verified(best)

    def _decided(
        self,
        sampling: Sampling,
        built: Built,
        first: Attempt,
        tried: Callable[[Built], Attempt],
    ) -> Attempt:
        """The attempt that is kept, as the samples that choose and confirm say."""
        if first.clear or not first.built.draft.plan.pairs:
            return first
        silent = first.verified.gauge.about_mean
        if silent.sqnr_about_mean_db is None:  # integers, say: what moves them is not seen until they change
            self.notes.append(
                f"nothing was searched for: {not_compared(silent.left_out)}; give a model whose outputs are "
                "floats, the scores in front of an ArgMax"
            )
            return first
        for gate in first.gates:
            if gate.measured is None:
                why = "; ".join(f"{one.output!r}: {one.why}" for one in silent.left_out)
                self.notes.append(
                    f"the goal was not searched for: no output tells the {gate.what}" + (why and f" ({why})")
                )
                return first
        return self._or_note(
            "the goal was not searched for", lambda: self._searched(sampling, built, first, tried), first
        )

    def _or_note(self, what: str, made: Callable[[], T], otherwise: T) -> T:
        """What is made; where that ends in a fault of ours, it is said, and the run goes on.

        Raises:
            UserError: something that is given cannot be used.
        """
        try:
            return made()
        except UserError as error:
            if not isinstance(error.__cause__, ort.RunError):  # on these samples the float model runs
                raise
            why = str(error)
        except Exception as error:
            why = f"that ends in a fault of onnxq ({type(error).__name__}: {error})"
        self.notes.append(f"{what}: {why}")
        return otherwise

    def _searched(
        self,
        sampling: Sampling,
        built: Built,
        first: Attempt,
        tried: Callable[[Built], Attempt],
    ) -> Attempt:
        asked = replace(self.asked(), most=GOAL_SOURCES)
        time_limit = self.goal.time_limit
        job = built.job
        limit = _Limit(job.observe, time_limit)
        limited = replace(built, job=replace(job, observe=limit.observe))
        accuracy = Accuracy(sampling, limited, asked)
        accuracy.measure_body(first.built.draft.body.decision)
        known = {frozenset[str](): first}
        sets: dict[frozenset[str], Met] = {}
        raised: dict[str, float] = {}
        candidate = first
        for _ in range(1 + RAISES):
            try:
                with job.step("goal"), limit:
                    met = self._met(accuracy, raised)
            except _TimeIsUp:
                if not limit.all_measured:
                    self._cut = f"the time limit of {time_limit:g} s {_CUT_SOURCES}"
                    return candidate
                by_db = [*self._aims(0.0, raised)] == ["sqnr"]
                self._cut = f"the time limit of {time_limit:g} s {_CUT_GOAL if by_db else _CUT_HALVES}"
                if by_db:
                    met = self._unconfirmed(accuracy, raised)
                else:  # prediction does not know the score
                    with job.step("goal"):
                        met = self._met(accuracy, raised, retries=0)
            floats = frozenset(met.best.nodes)
            if floats not in known:
                known[floats] = tried(built.in_float(accuracy.reasons(met)))
            candidate, sets[floats] = known[floats], met
            if candidate.met or not met.met or self._cut:
                break
            # of dB there is a margin instead
            higher = self._raised(raised, [gate for gate in candidate.gates if gate.kind != "sqnr"])
            if self._aims(0.0, higher) == self._aims(0.0, raised):  # no aim is above the float model
                break
            raised = higher
        if not candidate.met:  # what confirms has the last word: never what is dearer and no nearer
            by_cost = [frozenset[str](), *sorted(sets, key=lambda one: sets[one].best.cost)]
            floats = by_cost[nearest([known[one].gates for one in by_cost])]
            candidate, met = known[floats], sets.get(floats) or replace(met, best=met.base, prices=())
            if floats not in sets:
                self.notes.append(
                    "what is nearest where it was chosen is no nearer to the goal where it is confirmed: no "
                    "layer is left in float for it"
                )
        if not candidate.built.draft.plan.pairs:
            self.notes.insert(0, _NO_INT8)
        self._found = Searched(accuracy, met, raised)
        return candidate

    def _raised(self, raised: Mapping[str, float], gates: Sequence[GateMeasured]) -> dict[str, float]:
        """By how much each aim is raised where gates are missed; a score's has no unit of ours."""
        found = dict(raised)
        for gate in gates:
            if gate.met:
                continue
            if gate.kind == "drop":
                more = max(_BEYOND * _missing(gate), _LEAST_SHARE * gate.goal)
            else:
                more = max(_missing(gate), _LEAST_RAISE)
            found[gate.kind] = found.get(gate.kind, 0.0) + more
        return found

    def _unconfirmed(self, accuracy: Accuracy, raised: Mapping[str, float]) -> Met:
        """The set by prediction alone, for a goal of dB."""
        best = accuracy.search.cheapest(self._aims(accuracy.margin_db, raised)["sqnr"])
        trial = FloatSetTried(best.floats, best.cost, best.sqnr_db, math.nan)
        base = FloatSetTried((), 0.0, accuracy.model.sqnr_db(), math.nan)
        return Met(math.nan, False, trial, base, (), tuple(prices_of(accuracy, best.floats)))

    def _aims(self, margin: float, raised: Mapping[str, float]) -> dict[str, float]:
        """What is aimed at, by kind of gate, on the samples that choose; `margin`: of dB."""
        bound, goal = self._bound, self.goal
        assert bound is not None
        aims: dict[str, float] = {}
        if goal.min_sqnr is not None:
            aims["sqnr"] = goal.min_sqnr + margin
        if bound.agreement is not None:
            aims["agreement"] = min(100.0, bound.agreement[1] + raised.get("agreement", 0.0))
        if goal.max_drop is not None:
            float_score = self._floats["choose"]
            least = float_score - goal.max_drop + raised.get("drop", 0.0)
            aims["drop"] = min(least, float_score) - rounding(float_score, goal.max_drop)
        return aims

    def _met(self, accuracy: Accuracy, raised: Mapping[str, float], retries: int = 8) -> Met:
        """What the samples that choose say is the cheapest set for the goal, aimed higher by so much.

        `retries`: see `meet_score`.
        """
        bound = self._bound
        assert bound is not None
        aims = self._aims(accuracy.margin_db if self.goal.min_sqnr is not None else 0.0, raised)
        if len(aims) == 1:
            ((kind, aim),) = aims.items()
            if kind == "sqnr":
                return accuracy.for_sqnr(aim)
            if kind == "agreement":
                assert bound.agreement is not None
                return accuracy.for_agreement(bound.agreement[0], aim, retries=retries)
            return accuracy.for_score(self._choosing, aim, retries=retries)

        units = {
            "sqnr": 20.0,
            "agreement": 100.0,
            "drop": self.goal.max_drop or abs(aims.get("drop", 0)) or 1.0,
        }

        def margins(sets: Sequence[Collection[str]]) -> list[float]:
            """By how much the worst of the figures is above what is aimed at."""
            found: list[list[float]] = [[] for _ in sets]

            def add(kind: str, values: Sequence[float]) -> None:
                for margin, value in zip(found, values, strict=True):
                    margin.append((value - aims[kind]) / units[kind])

            if "sqnr" in aims:
                add("sqnr", accuracy.sqnr_db(sets))
            if bound.agreement is not None:
                add("agreement", accuracy.agreement(bound.agreement[0], sets))
            if "drop" in aims:
                add("drop", accuracy.scores(self._choosing, sets))
            return [min(margin) for margin in found]

        return meet_score(accuracy.search, 0.0, margins, retries=retries)

    def score(self, model: CallableModel, part: Part) -> float | None:
        """The user's score of a model; None where there is none."""
        return None if self._score is None else self._score(model, part)

    def scores_of(self, int8: Verified, result: Verified) -> ScoresPart | None:
        """The user's scores, on the samples that verify; None where there is none.

        Args:
            int8: the model as it was planned.
            result: the same with layers in float.
        """
        if self._score is None:
            return None
        exact, name = self._floats, self._score.name
        return ScoresPart(
            name, not self._score.told, exact["verify"], int8.score, result.score, exact["choose"]
        )

    def _choosing(self, model: Any) -> float:
        assert self._score is not None
        return self._score(model, "choose")

    # -- report --------------------------------------------------------------------------------

    def part(self, verified: Verified) -> tuple[AboutMeanPart | None, GoalPart | None]:
        """What the report says: how near outputs are about their means, and of the goal.

        Args:
            verified: of the model that is written.
        """
        if self._bound is None or verified.gauge is _NOTHING:
            return None, None
        gates = self.gates(verified)
        first = self._first
        scores = self.scores_of(verified if first is None else first.verified, verified)
        found, search, missing = self._found, None, list[str]()
        if found is not None:
            what = "the report does not say what the search did"
            search = self._or_note(what, lambda: found.part(self.goal), None)
        if found is not None and not all(gate.met for gate in gates):
            missing = self._or_note("what is missing is not known", lambda: found.missing(self.goal), missing)
        if not all(gate.met for gate in gates):
            missing = [*self._by_chance(first, gates), *missing]
        goal = goal_part(
            gates, scores, default=() if first is None else tuple(first.gates), search=search,
            missing=tuple(missing), cut=self._cut or None, notes=tuple(self.notes),
        )  # fmt: skip
        return verified.gauge.about_mean, goal

    def _by_chance(self, first: Attempt | None, gates: Sequence[GateMeasured]) -> Iterator[str]:
        """What other samples say otherwise than those that decided."""
        met = None if self._found is None else self._found.met
        if self._met_where_confirmed:
            yield (
                "it is met on the samples that decided, and is not on those that verify, which decided "
                "nothing: more samples make them more alike"
            )
        elif met is not None and met.met:
            yield (
                "it was met on the samples that chose, and is not on those that confirm and verify: more "
                "samples make them more alike"
            )
        if first is not None and met is not None and met.best.nodes and not nearest([first.gates, gates]):
            yield "on the samples that verify it is no nearer to the goal with these layers in float"


def nearest(candidates: Sequence[Sequence[GateMeasured]]) -> int:
    """The place of the one that misses least, the first of equals.

    Misses of several gates are added, each as a share of the greatest.

    Args:
        candidates: the same gates of each.
    """
    missing = np.array([[_missing(gate) for gate in gates] for gates in candidates])
    worst = missing.max(0)
    with np.errstate(invalid="ignore"):
        shares = np.nan_to_num(missing[:, worst > 0] / worst[worst > 0], nan=1.0)
    return int(np.argmin(shares.sum(1).round(9)))


def _missing(gate: GateMeasured) -> float:
    """By how much a gate is missed; infinite where nothing was measured."""
    return math.inf if gate.missing is None else gate.missing


def _check_floats(goal: Goal, outputs: Collection[str], job: Job) -> None:
    """Refuses a goal of dB where every output that counts is known to be no float.

    Raises:
        UserError: that is so.
    """
    weights = goal.weigh or {}
    counting = [
        (name, dtype)
        for name, dtype, _ in job.model.outputs
        if name in outputs and weights.get(name, 1.0) > 0
    ]
    if counting and all(dtype is not None and dtype.kind in "iub" for _, dtype in counting):
        named = ", ".join(f"{name!r} is {dtype}" for name, dtype in counting[:5])
        raise UserError(
            f"--min-sqnr: no output that counts is a float ({named}): how near it is has no SQNR",
            hint="give a model whose outputs are floats, the scores in front of an ArgMax",
        )


def tell_cut(report: Report, state: Path) -> Report:
    """The report; where the time limit cut the search for a goal, it says where what is measured is kept."""
    goal = report.goal
    if goal is None or not goal.cut or not state.exists():
        return report
    return replace(report, goal=replace(goal, kept=str(state)))


def forget(state: Path) -> None:
    """Removes what was kept of a measurement that is done."""
    for path in (state, *(state.with_name(f"{state.name}.{stage}") for stage in STAGES)):
        path.unlink(missing_ok=True)


_NOTHING = BoundGoal(Goal(), (), None).gauge()
