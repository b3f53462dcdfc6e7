"""Repair: steps are tried that bring the outputs nearer to the float model's, the scales being chosen."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from onnxq.base.heap import collected, settled
from onnxq.base.reason import Reason, by_of, code_of, noted, reason
from onnxq.data.samples import Sample
from onnxq.documents.repair import EditMade, RepairPart, TensorMapped
from onnxq.graph.model import Model
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.judge.policies import STEP
from onnxq.options.settings import AccuracyRepair
from onnxq.options.step import steps as all_steps
from onnxq.pipeline.building import Built
from onnxq.pipeline.repair_bench import Kept, bench_of
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap, edited
from onnxq.quant.fits import fits_of
from onnxq.quant.ranges import Range
from onnxq.repair.fit import Fitted
from onnxq.repair.ledger import RepairStep, Verdict
from onnxq.repair.moved import moved
from onnxq.repair.statistics import channel_axis
from onnxq.repair.step_search import Crossed, StepSearch, Tools, Version
from onnxq.repair.waves import Waves
from onnxq.repair.workload import LEAST, beside_runs, workload_of
from onnxq.run import ort

_SHARE = 0.75
"""Of the runs of the model that all else takes: so many repair takes at most, as fits are more work."""

_GIVEN = 16  # samples: of these an eighth verifies, and enough are left to fit and judge with


def _repaired(run: Run) -> Run:
    """The model as the steps that are kept leave it."""
    options, built = run.request.repair, run.built
    why = _why_not(built, options, run.sampling)
    if why:
        return replace(run, repair=untried(options, why))
    with built.job.step("repair"):
        return replace(_Repairing(run).run(), unrepaired=run)


def _left_out(run: Run, why: Reason) -> Run:
    """No step: those that were kept before are undone as well."""
    verdict: Verdict = "left-out" if why.code == "late" else "failed"
    steps = tuple(RepairStep(step, verdict, why) for step in run.request.repair.steps)
    part = replace(
        _nothing_done(run.request.repair), why_not=f"not tried: {why}" if why.code == "late" else None
    )
    return replace(run, repair=replace(part, steps=steps))


def enough(samples: int) -> bool:
    """Whether so many samples are enough for repair that nobody asks for."""
    return samples >= _GIVEN


def untried(options: AccuracyRepair, why: str) -> RepairPart:
    """What the report says where no step can be tried."""
    steps = tuple(RepairStep(step, "not-applicable", why) for step in options.steps)
    return replace(_nothing_done(options), why_not=f"not tried: {why}", steps=steps)


def stated_part(built: Built) -> RepairPart:
    """What the report says where a plan states what repair makes of the model."""
    part = _with_changes(_nothing_done(AccuracyRepair("none")), built)
    kinds = Counter(edit.kind for edit in built.draft.edits)
    counts = {**kinds, "biases": part.biases, "weights by codes": part.codes}
    text = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return replace(part, why_not=reason("plan-states-repair", edits=text))


Refit = Callable[[Mapping[str, str]], Built]
"""Makes a model with some nodes in float, each with its reason, and fits the others anew."""


@contextlib.contextmanager
def refitting(run: Run) -> Iterator[Refit | None]:
    """What fits a repaired model anew with layers in float, as a candidate is fitted: to few samples.

    The steps and edits that were kept stay, and nothing is searched for. Samples are read once they are
    needed. None where nothing is fitted.
    """
    before, part, built = run.unrepaired, run.repair, run.built
    if before is None or part is None or not run.crossed or not built.draft.fitted:
        yield None
        return
    candidate = run.crossed[0].patches
    start = replace(before.built.draft.patches, amax=built.draft.patches.amax)
    with contextlib.ExitStack() as stack:

        @functools.cache
        def tools() -> tuple[Tools, Model, Mapping[str, ChannelMap]]:
            samples = stack.enter_context(Kept(run.sampling, _Repairing(before)._samples))
            waves = Waves.of(samples.count)
            bench = stack.enter_context(bench_of(before, samples, waves, part.fitted_on))
            return bench, *edited(before.built.floats.model, built.draft.edits)

        def refit(why: Mapping[str, str]) -> Built:
            if not why:
                return Built.of(built.job, replace(built.draft, patches=candidate), built.floats)
            bench, model, maps = tools()
            draft = replace(built.draft, patches=start).in_float(why, model)
            fitted = bench.fit(model, maps, draft, 0)
            return Built.of(built.job, replace(draft, patches=fitted.patches), built.floats)

        yield refit


def _nothing_done(options: AccuracyRepair) -> RepairPart:
    """What the report says before anything is tried."""
    asked = options.repair or "auto"
    return RepairPart(
        asked=asked if isinstance(asked, str) else tuple(asked), why_not=None,
        method=noted("repair-method", most=STEP.may_lose_db, price=STEP.price),
        margin_db=STEP.may_lose_db, fitted_on=0, judged_on=0,
        apart=None, runs=0.0, runs_before=None, before_db=None, after_db=None, edits=(), maps=(), biases=0,
        codes=0, steps=(),
    )  # fmt: skip


def _with_changes(part: RepairPart, built: Built) -> RepairPart:
    """The same, with what the model is changed by."""
    edits, patches = cast(Sequence[EditMade], built.draft.edits), built.draft.patches
    biases = len(fits_of(patches, built.floats.model))
    return replace(part, edits=tuple(edits), biases=biases, codes=len(patches.codes))


def _why_not(built: Built, options: AccuracyRepair, sampling: Sampling) -> str:
    """Why nothing can be tried at all; "" where something can."""
    job = built.job
    if not job.target.explicit:
        return reason("quantizes-by-itself", target=job.target.title)
    if not built.draft.plan.pairs:
        return "nothing is quantized"
    if sampling.parts is None:
        return noted("no-samples-to-repair")
    if not built.floats.runs:
        return reason("nothing-runs")
    if options.is_auto and weight_bytes(built.floats.proto) >= LARGE:
        return reason("large-model.tried", steps=",".join(options.steps))
    return ""


class _Repairing:
    """One run of all steps.

    Attributes:
        part: what the report says, as far as it is known; but for the steps.
        ledger: what was tried.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._built, self._options, self._sampling = run.built, run.request.repair, run.sampling
        self.part = _nothing_done(run.request.repair)
        if run.task.layout is not None:
            self.part = replace(self.part, method=self.part.method + noted("repair-method.by-answers"))
        self.ledger: list[RepairStep] = []
        self._crossed: list[Crossed] = []

    def run(self) -> Run:
        """The state with what is kept."""
        with settled(), Kept(self._sampling, self._samples) as samples:
            found = self._found(samples)
        collected()
        ort.give_back()
        run = self._run if found is None else self._taken(*found)
        return replace(run, crossed=tuple(self._crossed), repair=replace(self.part, steps=tuple(self.ledger)))

    def _samples(self) -> Iterator[Sample]:
        """Those that chose, and so many of those that calibrated, each once."""
        most, seen = self._options.repair_samples, set[int]()
        for sample in self._sampling.choosing():
            seen.add(sample.index)
            yield sample
        most += len(seen)
        for sample in self._sampling.fitting(most):
            if sample.index not in seen and len(seen) < most:
                seen.add(sample.index)
                yield sample

    def _found(self, samples: Kept) -> tuple[Version, Fitted] | None:
        """What all steps come to; None where nothing is kept."""
        built, options = self._built, self._options
        editing = [step.name for step in all_steps().values() if step.edit]
        steps = [step for step in options.steps if self._run.request.edits or step not in editing]
        steps = [step for step in steps if step not in self._run.request.without]
        most = _SHARE * self._before() if options.is_auto else None
        if options.is_auto and samples.count < LEAST:
            why = reason("few-to-repair", samples=samples.count, least=LEAST)
            self.ledger = [RepairStep(step, "left-out", why) for step in options.steps]
            self.part = replace(self.part, why_not=f"not tried: {why}")
            return None
        draft, model = built.draft, built.floats.model
        waves = Waves.of(samples.count, all_of_them=most is None)
        effort = workload_of(samples.count, waves, most)
        with bench_of(self._run, samples, waves, effort.fitting) as bench:
            limit, allowed = built.job.limit, self._run.prepared.steps
            bytes_bound = 1.0 - self._run.request.bytes_over if self._run.request.bounds_bytes else math.inf
            search = StepSearch(model, draft, bench, steps, effort, allowed, limit, bytes_bound)
            self.ledger = search.ledger
            version, fitted = search.run()
            self._crossed = [
                one._replace(samples=tuple(samples.index(place) for place in one.samples))
                for one in version.crossed(waves)
            ]
            self.part = replace(
                self.part, fitted_on=effort.fitting, runs_before=effort.most,
                judged_on=waves.judging(len(version.heard)),
                apart=len(waves.folds) > 1, few=self._sampling.few,
            )  # fmt: skip
            if not self._run.request.edits:
                why = reason("cache-as-it-is")
                search.ledger += [RepairStep(s, "left-out", why) for s in options.steps if s in editing]
            first = search.before(version)
            self.part = replace(
                self.part, runs=round(search.spent, 1), before_db=first,
                after_db=version.levels().sqnr_db,
            )  # fmt: skip
        return (version, fitted) if any(entry.verdict == "kept" for entry in search.ledger) else None

    def _before(self) -> float:
        """How many runs of the model all before repair takes, and what verifies it."""
        parts = self._sampling.parts
        assert parts is not None
        held = (parts.held or 0) - parts.left_over  # which verify whatever that costs
        macs = [layer.macs for layer in self._built.draft.plan.layers]
        before = 0.0 if self._run.choice is None else self._run.choice.runs
        return self._run.stats.samples + before + 2 * held + beside_runs(macs)

    def _taken(self, version: Version, fitted: Fitted) -> Run:
        """The repaired model in the place of the other one."""
        was, part = self._built, self.part
        assert part.before_db is not None
        assert part.after_db is not None
        floats = was.floats.edited(was.job, version.model) if version.draft.edits else was.floats
        body = replace(was.draft.body, gained_db=part.after_db - part.before_db)
        ranges = _followed(was.draft.ranges, version.draft)
        draft = replace(version.draft, ranges=ranges, patches=fitted.patches, body=body)
        built = Built.of(was.job, draft, floats)
        self.part = replace(_with_changes(part, built), maps=_maps(version))
        return replace(self._run.of(built), stats=moved(self._run.stats, version.maps, version.model))


def _maps(version: Version) -> tuple[TensorMapped, ...]:
    """What edits made of the values of tensors, where their channels are known."""
    tensors = version.model.tensors()
    maps = []
    for name, change in version.maps.items():
        axis = change.axis
        if axis is None and name in tensors and not change.wide:
            axis = channel_axis(tensors[name])
        plain = change.wide or (not change.scale.ndim and not change.offset.ndim and change.index is None)
        if axis is not None or plain:
            index = None if change.index is None else tuple(change.index.tolist())
            scale = _numbers(change.scale.reshape(-1) if change.wide else change.scale)
            shape = change.scale.shape if change.wide else None
            offset, was = _numbers(change.offset), change.was or None
            maps.append(TensorMapped(name, axis, scale, offset, index, was, shape=shape))
    return tuple(maps)


def _numbers(values: np.ndarray) -> float | tuple[float, ...]:
    """A number, or one for each channel."""
    return tuple(values.tolist()) if values.ndim else float(values)


def _followed(before: Mapping[str, Range], draft: Draft) -> dict[str, Range]:
    """The ranges of a draft, with their reasons; `before`: those before all steps."""
    kinds = {edit.tensor: edit.kind for edit in draft.edits}
    followed = {}
    for name, entry in draft.ranges.items():
        because = entry.because
        text = f"{because}, then {kinds.get(name, 'repair')}"
        same = name in before and entry.amax == before[name].amax
        followed[name] = (
            entry if same else replace(entry, because=Reason(code_of(because), text, by_of(because)))
        )
    return followed


REPAIR = ModelSearch(
    "repair",
    lambda run: bool(run.request.repair.steps) and not run.request.states_repair,
    _repaired,
    _left_out,
)
