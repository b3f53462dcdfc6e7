"""What causes the error of a quantized model, and what to leave in float for a goal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.executors import Submit
from onnxq.base.reason import reason, say
from onnxq.body.decide import Decision as BodyDecision
from onnxq.body.emulate import Emulated
from onnxq.documents.accuracy import NoiseMeasured
from onnxq.judge.about_mean import AboutMeanGroups, AboutMeanMeter, AboutMeanPart
from onnxq.judge.acceptance import GROUPS, Levels
from onnxq.judge.comparable import STILL, not_compared
from onnxq.judge.paired import SampleScores
from onnxq.judge.sqnr import limited_db, nsr_of
from onnxq.noise.breakdown import breakdown
from onnxq.noise.decisions import Costs, FloatDecision, Unit, decisions_of
from onnxq.noise.goal import FloatSetTried, Measured, Met, meet_score, meet_sqnr
from onnxq.noise.gram import NoiseModel
from onnxq.noise.measure import measure_noise
from onnxq.noise.ranking import DecisionRanked, ranked
from onnxq.noise.search import Search
from onnxq.noise.sources import Sources
from onnxq.options.settings import CallableModel
from onnxq.pipeline.building import Built
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.scoring import callable_of
from onnxq.quant.measuring import MeasuringCopy
from onnxq.quant.wants import Wants
from onnxq.run import ort
from onnxq.run.ort import Feeds
from onnxq.run.piecewise import Setting
from onnxq.task.counted import counted
from onnxq.task.known import NO_TASK, KnownTask
from onnxq.task.meter import TaskMeter

SAMPLES = 64
"""How many samples measure the sources, at most."""

MOST = 384
"""How many sources are all measured; of more, blocks of layers are, then what is inside the loudest."""

STAGES = "blocks", "parts"
"""What is measured before the sources where there are more: blocks, then parts of the loudest."""

_GROUPS = 16  # of the samples that choose: their spread is the standard error
_OF_BODY = 8  # samples that measure the body in half precision
_REST = 2  # blocks of what is quiet, beside one that is opened
_WIDE = 8  # sources in a block: those of wider ones are looked at in parts first

Scoring = Callable[[CallableModel], SampleScores]
"""Scores a model by the user's function."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How the noise is measured, and what decisions cost.

    Attributes:
        samples: how many samples at most.
        weights: what outputs weigh; None: all the same.
        unit: what a decision costs, where `costs` says nothing.
        costs: what nodes cost, in any unit.
        max_float: which share of the int8 MACs may go to float, 0 to 1.
        state: a file that keeps what is done.
        workers: how many processes.
        submit: where the work goes instead.
        most: how many sources are all measured; of more, two thirds of that, in all stages together.
        loud: where no block makes so great a share of the noise, blocks are all that is measured; 0: never.
        task: what the model is for, whose answers levels count.
    """

    samples: int = SAMPLES
    weights: Mapping[str, float] | None = None
    unit: Unit = "macs"
    costs: Mapping[str, float] | None = None
    max_float: float | None = None
    state: Path | None = None
    workers: int = 1
    submit: Submit | None = None
    most: int = MOST
    loud: float = 0.0
    task: KnownTask = NO_TASK


class Accuracy:
    """The noise of a model whose scales are known; its sources are measured when they are asked for.

    Attributes:
        built: the model.
        plan: its plan.
    """

    def __init__(self, sampling: Sampling, built: Built, asked: Asked) -> None:
        """What there is when the scales are.

        Raises:
            UserError: there are no data, nothing is quantized, or nothing runs; or costs make no sense.
        """
        self._job, self._sampling, self.built, self._asked = built.job, sampling, built, asked
        self.plan = built.draft.plan
        if sampling.parts is None:
            raise UserError("there are no samples to measure noise with", hint="give --calib DATA")
        if not built.floats.runs:
            raise UserError("no part of the model runs in onnxruntime: there is nothing to measure")
        if not self.plan.pairs:
            raise UserError(
                "nothing is quantized: there is no noise to measure",
                hint="onnxq quantize says why each layer stays in float; a larger batch (--batch) may help",
            )
        self.copy = built.copy(by_layer=True)
        self._parts = self._job.parts_of(self.copy.outputs)
        self._wants = Wants(self.plan)
        self.trials = 0
        self._body: dict[str, float] = {}
        self._scored: dict[frozenset[str], SampleScores] = {}
        self.costs = (
            Costs.of(self.plan, built.floats.model, asked.unit)
            if asked.costs is None
            else Costs.given(self.plan, asked.costs)
        )

    # -- the model -----------------------------------------------------------------------------

    @cached_property
    def _measured(self) -> NoiseModel:
        sources, most, least = Sources.of(self.plan), self._asked.most, self._asked.loud
        if len(sources) <= most:
            return self._measure(sources)
        few, runs = max(1, most // 6), 0.0
        sources, left = sources.blocks(few), 4 * few
        for stage in STAGES:
            look = self._measure(sources, stage)
            left -= len(sources)
            runs += look.effort.runs
            loud, widest = look.loudness() if least else look.shares(), max(map(len, sources.parts.values()))
            if loud.max() < least:
                return replace(look, effort=replace(look.effort, runs=runs))
            if widest <= _WIDE or stage == STAGES[-1]:
                sources = sources.opened(loud, left, 1, least)
                break
            size, room = math.isqrt(widest), few
            if least:  # to open one of them
                room = max(few, -(-widest // size) + _REST)
            sources = sources.opened(loud, room, size, least)
        model = self._measure(sources)
        return replace(model, effort=replace(model.effort, runs=runs + model.effort.runs))

    def _measure(self, sources: Sources, stage: str = "") -> NoiseModel:
        """What is done of a stage is kept in a file of its own."""
        asked = self._asked
        state = asked.state
        if state is not None and stage:
            state = state.with_name(f"{state.name}.{stage}")
        with self._job.step("sources"), self._sampling.named():
            return measure_noise(
                self.copy,
                sources,
                self.samples(),
                parts=self._parts,
                weights=asked.weights,
                seed=0,
                state=state,
                workers=asked.workers,
                submit=asked.submit,
                progress=lambda done, total: self._job.observe("sources", done, total),
                total=self._count(),
            )

    @property
    def model(self) -> NoiseModel:
        """The noise model, measured when it is first asked for, with the body's noise where that is measured.

        Raises:
            UserError: there is nothing to measure with, or no output can be compared.
        """
        return self._measured.with_body(self._body)

    @property
    def is_measured(self) -> bool:
        """Whether all sources are."""
        return "_measured" in self.__dict__

    def samples(self) -> Iterator[Feeds]:
        """The samples that measure the sources and choose."""
        return itertools.islice(self._sampling.feeds(self._sampling.proposing()), self._asked.samples)

    def _count(self) -> int | None:
        parts = self._sampling.parts
        count = parts.proposing_with if parts is not None else None
        return min(count, self._asked.samples) if count else None

    def measure_body(self, decision: BodyDecision | None) -> None:
        """Measures the body in half precision apart: its noise is added to all predictions from now on.

        Args:
            decision: the body of the float model; None: there is none.
        """
        floats, self._body = self.built.floats, {}
        self._search_again()
        if decision is None or not floats.whole or self._job.in_float32:
            return
        settled = decision.settled  # None where a plan states the body
        half = decision.convert(floats.model) if settled is None else settled.body
        proto = decision.reference(floats.model).to_proto() if decision.refitted else floats.reference
        exact = ort.load(proto, data_dir=floats.model.data_dir)
        body = Emulated(half.model.to_proto(), data_dir=floats.model.data_dir)
        names = [name for name in self.copy.outputs if name in body.outputs]
        meter = AboutMeanMeter(self._parts.only(names))
        for feeds in itertools.islice(self.samples(), _OF_BODY):
            want, got = (one.run({name: feeds[name] for name in one.inputs}, names) for one in (exact, body))
            meter.add(want, [got])
        levels = meter.result().levels
        self._body = {name: nsr_of(level) for name, level in levels.items()}

    # -- answers -------------------------------------------------------------------------------

    @cached_property
    def decisions(self) -> list[FloatDecision]:
        """What can be left in float."""
        return decisions_of(self.plan, self._measured.sources)

    @cached_property
    def search(self) -> Search:
        """Searches them."""
        return Search(self.model, self.decisions, self.costs, self._asked.max_float)

    def bounded(self, max_float: float | None) -> None:
        """From now on so much of the int8 MACs may go to float, 0 to 1; None: any."""
        self._asked = replace(self._asked, max_float=max_float)
        self._search_again()

    def asking(self, asked: Asked) -> None:
        """From now on the noise is measured as this asks; decisions cost what they did."""
        self._asked = asked
        self.__dict__.pop("_measured", None)
        self.__dict__.pop("decisions", None)
        self._search_again()

    def _search_again(self) -> None:
        self.__dict__.pop("search", None)

    def ranked(self, verify: int = 5) -> list[DecisionRanked]:
        """All decisions by gain; the gains of the first are measured."""
        decisions = ranked(self.model, self.decisions, self.costs)
        top = decisions[:verify]
        base, *levels = self.sqnr_db([(), *(one.nodes for one in top)])
        top = [replace(one, measured_gain_db=level - base) for one, level in zip(top, levels, strict=True)]
        return [*top, *decisions[verify:]]

    def for_sqnr(self, goal_db: float) -> Met:
        """The cheapest set for an SQNR about the mean, dB."""
        return self._met(goal_db, self.sqnr_db, lambda known: meet_sqnr(self.search, goal_db, known))

    def for_score(self, score: Scoring, goal: float, *, retries: int = 8) -> Met:
        """The cheapest set for a score of the user's function.

        Args:
            score: the function, which has samples of its own; higher is better.
            goal: the least score.
            retries: see `meet_score`.
        """
        return self._met(
            goal,
            lambda sets: [one.value for one in self.scores(score, sets)],
            lambda known: meet_score(self.search, goal, known, retries=retries),
        )

    def for_kept(self, task: KnownTask, goal: float, *, retries: int = 8) -> Met:
        """The cheapest set that keeps the float model's answers.

        Args:
            task: what they are.
            goal: how many of them at least, percent.
            retries: see `meet_score`.

        Raises:
            UserError: the outputs are not as the task says.
        """
        return self._met(
            goal,
            lambda sets: [one.value for one in self.kept(task, sets)],
            lambda known: meet_score(self.search, goal, known, retries=retries),
        )

    def _met(self, goal: float, measured: Measured, meet: Callable[[Measured], Met]) -> Met:
        """Meets a goal; where nothing has to be in float for it, the sources are not measured."""
        (base,) = measured([()])
        if base >= goal:
            trial = FloatSetTried((), 0.0, None, base)
            return Met(goal, True, trial, trial, (trial,), ())

        def known(sets: Sequence[Collection[str]]) -> list[float]:
            return [base if not floats else measured([floats])[0] for floats in sets]

        return meet(known)

    # -- measuring sets ------------------------------------------------------------------------

    def setting(self, floats: Collection[str]) -> Setting:
        """What a measuring copy is set to with some nodes in float."""
        kept = {(edge.node, edge.input) for edge in self._wants.kept(floats)}
        return Setting(self.copy.piecewise.edges - kept)

    def about_mean(
        self, sets: Sequence[Collection[str]], samples: Iterable[Feeds] | None = None
    ) -> list[AboutMeanPart]:
        """How near the outputs are with each set of nodes in float, on samples that choose or on others."""
        meter = AboutMeanMeter(self._parts, len(sets), self._asked.weights)
        for _, exact, outputs in self._outputs(sets, samples, self.copy.outputs):
            meter.add(exact, outputs)
        return [meter.result(place) for place in range(len(sets))]

    def levels(
        self,
        sets: Sequence[Collection[str]],
        samples: Iterable[Feeds] | None = None,
        weights: Mapping[str, float] | None = None,
        groups: int = GROUPS,
    ) -> list[Levels]:
        """Likewise by groups of samples, so that what sets differ by can be told from chance.

        Args:
            sets: sets of nodes in float.
            samples: others than those that choose.
            weights: what outputs weigh; None: what was asked for.
            groups: how many groups there are at most.
        """
        weights = self._asked.weights if weights is None else weights
        counter = counted(self._asked.task, self.copy.outputs)
        dealt = AboutMeanGroups(self._parts, weights, groups, len(sets), counter)
        for feeds, exact, outputs in self._outputs(sets, samples, self.copy.outputs):
            dealt.add(exact, outputs, feeds)
        return Levels.of_each(dealt.groups)

    def sqnr_db(self, sets: Sequence[Collection[str]]) -> list[float]:
        """The SQNR about the mean with each set of nodes in float, measured on the samples that choose.

        The body's noise is added.
        """
        levels = []
        for part in self.about_mean(sets):
            self._tell()
            if part.sqnr_about_mean_db is None:
                still = any(output.why == STILL for output in part.left_out)
                raise UserError(
                    not_compared(part.left_out),
                    hint="give samples that differ, as many as there are"
                    if still
                    else "give a model whose outputs are floats, and weigh those that matter",
                )
            of_outputs = self._parts.weights(self._asked.weights)
            weights = {name: of_outputs[name] for name in part.levels}
            body = sum(weight * self._body.get(name, 0.0) for name, weight in weights.items())
            levels.append(limited_db(nsr_of(part.sqnr_about_mean_db) + body / sum(weights.values())))
        return levels

    def scores(self, score: Scoring, sets: Sequence[Collection[str]]) -> list[SampleScores]:
        """What the user's function says of each set of nodes in float; it is asked once."""
        for floats in map(frozenset, sets):
            if floats not in self._scored:
                self._tell()
                self._scored[floats] = score(self.callable_of(floats))
        return [self._scored[frozenset(floats)] for floats in sets]

    @cached_property
    def margin_db(self) -> float:
        """By how much the SQNR of those that verify may differ, dB: one standard error, of int8 as it is.

        Both are random: it is that of the difference.
        """
        (levels,), parts = self.levels([()], groups=_GROUPS), self._sampling.parts
        chosen = levels.of_all.samples
        held = (parts is not None and parts.held) or chosen
        return levels.error_db * math.sqrt(1 + chosen / held)

    def kept(self, task: KnownTask, sets: Sequence[Collection[str]]) -> list[SampleScores]:
        """How many percent of the float model's answers are kept, for each set; see `TaskMeter.scores`."""
        layout = task.layout
        assert layout is not None
        meters = [TaskMeter(self.copy.outputs, layout) for _ in sets]
        for feeds, exact, outputs in self._outputs(sets, None, self.copy.outputs):
            for meter, values in zip(meters, outputs, strict=True):
                meter.add(exact, [values], feeds)
        for _ in sets:
            self._tell()
        return [meter.scores for meter in meters]

    def _outputs(
        self, sets: Sequence[Collection[str]], samples: Iterable[Feeds] | None, names: Sequence[str]
    ) -> Iterator[tuple[Feeds, list[Any], list[list[Any]]]]:
        """What is fed, outputs of the float model, and with each set, by sample."""
        settings = [Setting(self.copy.piecewise.edges), *map(self.setting, sets)]
        with self._sampling.named():
            for feeds in self.samples() if samples is None else samples:
                fed = {name: feeds[name] for name in self.copy.inputs}
                exact, *outputs = self.copy.piecewise.run_each(fed, settings, names)
                yield feeds, exact, outputs

    def _tell(self) -> None:
        self.trials += 1
        self._job.observe("goal", self.trials, None)

    def callable_of(self, floats: Collection[str]) -> CallableModel:
        """The quantized model with some nodes in float, for a function of the user's."""
        return callable_of(_SetRunner(self.copy, self.setting(floats)), self._job)

    def float_model(self) -> CallableModel:
        """The float model likewise."""
        return callable_of(_SetRunner(self.copy, Setting(self.copy.piecewise.edges)), self._job)

    # -- the result ----------------------------------------------------------------------------

    def reasons(self, met: Met) -> dict[str, str]:
        """Why each node of the best set is in float, and its price."""
        reasons: dict[str, str] = {}
        for price in met.prices:
            (name,) = price.nodes
            cost = f"{price.cost:,.0f} {say(f'costs.{self.costs.unit}')}"
            reasons[name] = reason("goal", gain=price.gain_db, cost=cost, why=price.why)
        return reasons

    def part(self) -> NoiseMeasured:
        """The part of the report: what was measured, and what it took."""
        model = self.model
        return NoiseMeasured(
            samples=model.effort.samples,
            apart=self._sampling.chose_apart,
            few=self._sampling.few,
            sources=len(model.sources),
            runs_per_source=round(model.effort.runs_per_source, 3),
            unit=self.costs.unit,
            weights=dict(model.weights),
            left_out=model.left_out,
            predicted_sqnr_db=model.sqnr_db(),
            body_noise_db=limited_db(model.body_noise) if model.body_noise else None,
            reliable=model.reliable(),
            noise=breakdown(model),
        )


class _SetRunner:
    """Runs a measuring copy with one setting."""

    def __init__(self, copy: MeasuringCopy, setting: Setting) -> None:
        self._copy, self._setting = copy, setting
        self.inputs, self.outputs = tuple(copy.inputs), tuple(copy.outputs)

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """The outputs wanted, or all."""
        (found,) = self._copy.piecewise.run_each(feeds, [self._setting], outputs)
        return list(found)
