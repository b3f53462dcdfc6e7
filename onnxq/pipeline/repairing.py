"""Repair: the scales are chosen, and steps are tried that bring the outputs nearer to the float model's."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.base.heap import collected, settled
from onnxq.base.reason import Reason, by_of, code_of
from onnxq.calib.stats import Stats
from onnxq.data.samples import Sample
from onnxq.data.split import CHOOSE_EVERY
from onnxq.documents.repair import EditMade, RepairPart, TensorMapped
from onnxq.draft.affine import ChannelMap
from onnxq.draft.draft import Draft
from onnxq.graph.cut import extract_between
from onnxq.graph.model import Model
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.view import Tensor
from onnxq.judge.acceptance import GROUPS, Levels
from onnxq.judge.policies import STEP
from onnxq.judge.sqnr import nsr_of
from onnxq.options.settings import AccuracyRepair
from onnxq.options.step import steps as all_steps
from onnxq.pipeline.building import Built
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import loading, recording
from onnxq.quant.choice import refined_ranges
from onnxq.quant.fits import fits_of
from onnxq.quant.insert import insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import Edge
from onnxq.quant.ranges import Range, Ranges
from onnxq.repair.course import Course, Refused, Version, there
from onnxq.repair.fit import Fitted, Fitter
from onnxq.repair.ledger import RepairStep
from onnxq.repair.moved import moved
from onnxq.repair.spill import Spill
from onnxq.repair.statistics import Channels, channel_axes, channel_axis
from onnxq.repair.workload import EDITED, LEAST_FITTING, LEAST_JUDGING, beside_runs, workload_of
from onnxq.rewrite.whole import Differs
from onnxq.run import noise, ort
from onnxq.run.about_mean import AboutMeanMeter
from onnxq.run.compare import Recording
from onnxq.run.ort import Feeds

_IN_MEMORY, _KEPT = 1 << 23, 1 << 28
"""Bytes of samples that are kept in memory, and in files; more of them are read again each time."""

_PIECES = 4  # as for choosing scales
_NOW = Reason("repair", "as it is before thresholds are tried")
_LOOKS = 8
"""Samples that say how much of the noise some edges make: alone, as what is left without them varies more."""

_LEAST_SHARE = 1e-3

_HEAVY = 1 << 25
"""Bytes of weights from which on pairs are not switched off: a measuring copy holds them several times."""

METHOD = (
    "a step is kept where all outputs together are nearer to the float model's on samples that choose (SQNR "
    "about the mean; where runs are left for it, on those that fit, too: of what is fitted with many rows "
    "for each number, where 16 or more choose and do not speak against it), the best of several by more than "
    "half a standard error, or in nearly all groups of samples, and none of them loses more than {0:g} dB; "
    "the samples that verify judge the end alone"
)

NO_SAMPLES = "steps are fitted and judged on samples, and there are none (--calib DATA)"


@dataclass(frozen=True, slots=True)
class Repair:
    """What repair did.

    Attributes:
        built: the quantized model.
        stats: the ranges of tensors, of the edited model.
        part: what the report says; None: nothing was asked for.
    """

    built: Built
    stats: Stats
    part: RepairPart | None = None


def repaired(
    built: Built,
    options: AccuracyRepair,
    sampling: Sampling,
    steps_of: Mapping[str, tuple[str, ...]],
    stats: Stats,
    ranges: Ranges,
    runs: float,
    floats: Recording | None,
    *,
    edits: bool = True,
    weights: Mapping[str, float] | None = None,
) -> Repair:
    """Repairs a quantized model.

    Args:
        built: the quantized model.
        options: which steps, and on how many samples.
        sampling: gives the samples.
        steps_of: those that nodes may have which not all may have.
        stats: what calibration saw.
        ranges: the ranges of tensors, by any method.
        runs: how many runs of the model chose its scales.
        floats: the float model on the samples that choose; None: it did not run on any yet.
        edits: whether the float model may be edited.
        weights: what outputs weigh.
    """
    steps = options.steps
    if not steps:
        return Repair(built, stats)
    why = _why_not(built, options, sampling)
    if why:
        return Repair(built, stats, untried(options, why))
    ledger = _Ledger(_nothing_done(options))
    with built.job.step("repair"):
        try:
            return _Repairing(
                built, options, sampling, steps_of, stats, ranges, runs, floats, edits, weights, ledger
            ).run()
        except UserError:  # a sample that cannot be used: what steps raise ends up in the ledger
            raise
        except Exception as error:  # a fault of ours: the model stays as it was
            what = f"it ends in a fault of onnxq, and is undone ({type(error).__name__}: {error})"
            tried = {entry.step for entry in ledger.steps}
            ledger.steps += [RepairStep(step, "failed", what) for step in steps if step not in tried]
            return Repair(built, stats, ledger.told())


def enough(samples: int) -> bool:
    """Whether so many samples are enough for repair that nobody asks for."""
    return samples // CHOOSE_EVERY >= LEAST_JUDGING


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
    return replace(part, why_not=f"as the plan states: {text}")


def _nothing_done(options: AccuracyRepair) -> RepairPart:
    """What the report says before anything is tried."""
    asked = options.repair or "auto"
    return RepairPart(
        asked=asked if isinstance(asked, str) else tuple(asked), why_not=None,
        method=METHOD.format(STEP.may_lose_db), margin_db=STEP.may_lose_db, fitted_on=0, judged_on=0,
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
        return f"{job.target.title} quantizes by itself, and takes no other weights for it"
    if not built.draft.plan.pairs:
        return "nothing is quantized"
    if sampling.parts is None:
        return NO_SAMPLES
    if not built.floats.runs:
        return "no part of the model runs in onnxruntime"
    if options.is_auto and weight_bytes(built.floats.proto) >= LARGE:
        return f"the model is large; --repair {','.join(options.steps)} tries it"
    return ""


@dataclass(slots=True)
class _Ledger:
    """What the report says, as far as it is known.

    Attributes:
        part: all but the steps.
        steps: what was tried.
    """

    part: RepairPart
    steps: list[RepairStep] = field(default_factory=list)

    def told(self) -> RepairPart:
        """It, for the report."""
        return replace(self.part, steps=tuple(self.steps))


@dataclass
class _Repairing:
    """One run of all steps; what it is made of, see `repaired`."""

    _built: Built
    _options: AccuracyRepair
    _sampling: Sampling
    _steps_of: Mapping[str, tuple[str, ...]]
    _stats: Stats
    _ranges: Ranges
    _runs: float
    _floats: Recording | None
    _edits: bool
    _weights: Mapping[str, float] | None
    _ledger: _Ledger

    def run(self) -> Repair:
        sampling, most = self._sampling, self._options.repair_samples
        to_fit = _Kept(sampling, lambda: sampling.fitting(most))
        to_judge = _Kept(sampling, sampling.choosing)
        with settled(), to_fit, to_judge:
            state = self._state(to_fit, to_judge)
        collected()
        ort.give_back()
        return Repair(self._built, self._stats, self._ledger.told()) if state is None else self._taken(state)

    def _state(self, to_fit: _Kept, to_judge: _Kept) -> Version | None:
        """What all steps come to; None where nothing is kept."""
        built, options = self._built, self._options
        editing = [step.name for step in all_steps().values() if step.edit]
        steps = [step for step in options.steps if self._edits or step not in editing]
        sampling = self._sampling
        fitting, judging = self._counts(to_fit, to_judge)
        most = self._before() if options.is_auto else None
        if options.is_auto and (fitting < LEAST_FITTING or judging < LEAST_JUDGING):
            why = (
                f"{fitting} samples to fit with and {judging} others to judge with are too few: give more "
                f"({LEAST_FITTING} and {LEAST_JUDGING} at least), or --repair bias,shift,gptq"
            )
            self._ledger.steps = [RepairStep(step, "left-out", why) for step in options.steps]
            self._ledger.part = replace(self._ledger.part, why_not=f"not tried: {why}")
            return None
        draft, model = built.draft, built.floats.model
        wanted = there(steps, model, draft)
        apart = sampling.apart
        effort = workload_of(wanted, min(fitting, options.repair_samples), judging, most, apart=apart)
        to_fit.most, to_judge.most = effort.fitting, effort.judging
        with _Bench(built, sampling, self._ranges, self._floats, self._weights, to_fit, to_judge) as bench:
            course = Course(model, draft, bench, steps, effort, self._steps_of)
            self._ledger.steps = course.ledger
            self._ledger.part = replace(
                self._ledger.part, fitted_on=effort.fitting, judged_on=effort.judging, runs_before=most,
                apart=self._sampling.chose_apart, few=self._sampling.few,
            )  # fmt: skip
            state = course.run()
            if not self._edits:
                why = "the calibration cache is of the model as it is: it is not edited"
                course.ledger += [RepairStep(s, "left-out", why) for s in options.steps if s in editing]
            first = next((e.before_db for e in course.ledger if e.before_db is not None), None)
            self._ledger.part = replace(
                self._ledger.part, runs=round(course.spent, 1), before_db=first,
                after_db=state.levels.sqnr_db,
            )  # fmt: skip
        return state if any(entry.verdict == "kept" for entry in course.ledger) else None

    def _counts(self, fitting: _Kept, judging: _Kept) -> tuple[int, int]:
        """How many samples there are to fit with, and to judge with; they are read.

        Raises:
            UserError: one of them cannot be used.
        """
        apart = sum(1 for _ in judging.feeds())
        if self._options.is_auto and not self._sampling.apart:
            apart = 0
        return sum(1 for _ in fitting.feeds()), apart

    def _before(self) -> float:
        """How many runs of the model all before repair takes, and what verifies it."""
        parts = self._sampling.parts
        assert parts is not None
        held = parts.held or 0
        macs = [layer.macs for layer in self._built.draft.plan.layers]
        return self._stats.samples + self._runs + 2 * held + beside_runs(macs)

    def _taken(self, state: Version) -> Repair:
        """The repaired model in the place of the other one."""
        was, part = self._built, self._ledger.part
        assert part.before_db is not None
        assert part.after_db is not None
        floats = was.floats.edited(was.job, state.model) if state.draft.edits else was.floats
        body = replace(was.draft.body, gained_db=part.after_db - part.before_db)
        ranges = _followed(was.draft.ranges, state.draft)
        draft = replace(state.draft, ranges=ranges, patches=state.fitted.patches, body=body)
        built = Built.of(was.job, draft, floats)
        stats = moved(self._stats, state.maps, state.model)
        self._ledger.part = replace(_with_changes(part, built), maps=_maps(state))
        return Repair(built, stats, self._ledger.told())


def _maps(state: Version) -> tuple[TensorMapped, ...]:
    """What edits made of the values of tensors, where their channels are known."""
    tensors = state.model.graph.tensors()
    found = []
    for name, change in state.maps.items():
        axis = change.axis
        if axis is None and name in tensors and not change.wide:
            axis = channel_axis(Tensor(state.model, tensors[name]))
        plain = change.wide or (not change.scale.ndim and not change.offset.ndim and change.index is None)
        if axis is not None or plain:
            index = None if change.index is None else tuple(change.index.tolist())
            scale = _numbers(change.scale.reshape(-1) if change.wide else change.scale)
            shape = change.scale.shape if change.wide else None
            offset, was = _numbers(change.offset), change.was or None
            found.append(TensorMapped(name, axis, scale, offset, index, was, shape=shape))
    return tuple(found)


def _numbers(values: np.ndarray) -> float | tuple[float, ...]:
    """A number, or one for each channel."""
    return tuple(values.tolist()) if values.ndim else float(values)


def _followed(before: Mapping[str, Range], draft: Draft) -> dict[str, Range]:
    """The ranges of a draft, with their reasons; `before`: those before all steps."""
    kinds = {edit.tensor: edit.kind for edit in draft.edits}
    found = {}
    for name, entry in draft.ranges.items():
        because = entry.because
        text = f"{because}, then {kinds.get(name, 'repair')}"
        same = name in before and entry.amax == before[name].amax
        found[name] = (
            entry if same else replace(entry, because=Reason(code_of(because), text, by_of(because)))
        )
    return found


class _Bench:
    """What the steps are measured and fitted with."""

    def __init__(
        self,
        built: Built,
        sampling: Sampling,
        ranges: Ranges,
        floats: Recording | None,
        weights: Mapping[str, float] | None,
        fitting: _Kept,
        judging: _Kept,
    ) -> None:
        job, plan, reference = built.job, built.draft.plan, built.floats.reference
        self._job, self._built, self._weights = job, built, weights
        self._ranges = ranges
        self._sampling, self._fitting, self._judging = sampling, fitting, judging
        self._ran = 0.0
        self._judged = judging.most or 0
        self._exact = recording(job, reference) if floats is None else floats
        self._exact_to_fit = recording(job, reference)
        self._parts = job.parts_of(self._exact.outputs)
        self._seen = self._seen_to_fit = False
        self._fitter = Fitter(
            built.floats.model,
            plan,
            self._fitting.feeds,
            reference=reference,
            ends=channel_axes(built.floats.model, plan),
            runnable=self._runnable,
            progress=lambda done, total: job.observe("repair: fit", int(done), total),
        )

    def __enter__(self) -> _Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self._fitter.close()

    def _runnable(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        return self._job.runnable(self._job.part(proto)[0])

    @property
    def runs(self) -> float:
        return self._ran + self._fitter.runs

    def begin(self, step: str) -> None:
        self._job.observe(f"repair: {step}", None, None)

    # -- judging -------------------------------------------------------------------------------

    @property
    def _floats(self) -> Recording:
        """What the float model without edits gives for the samples that choose."""
        if not self._seen:
            with self._sampling.named():
                self._exact.record(self._judging.feeds())
            self._seen = True
            self._ran += self._judged  # even if they chose: what is tried does not depend on what is kept
        self._exact.rewind()
        return self._exact

    @property
    def _floats_to_fit(self) -> Recording:
        """Likewise for the samples that fit."""
        if not self._seen_to_fit:
            with self._sampling.named():
                self._exact_to_fit.record(self._fitting.feeds())
            self._seen_to_fit = True
            self._ran += self._fitting.most or 0
        self._exact_to_fit.rewind()
        return self._exact_to_fit

    def _compared(self, proto: onnx.ModelProto, most: int | None = None) -> list[AboutMeanMeter]:
        floats = self._floats
        return self._met(self._loaded(proto), floats, itertools.islice(self._judging.feeds(), most))

    def _loaded(self, proto: onnx.ModelProto) -> ort.Session:
        with loading():
            return ort.load(proto, data_dir=self._job.model.data_dir)

    def _met(self, session: ort.Session, floats: Recording, samples: Iterable[Feeds]) -> list[AboutMeanMeter]:
        """What groups of samples say of a quantized model."""
        groups = [AboutMeanMeter(self._parts, 1, self._weights) for _ in range(GROUPS)]
        for number, feeds in enumerate(samples):
            exact = floats.run(feeds)
            taken = {name: array for name, array in feeds.items() if name in session.inputs}
            groups[number % GROUPS].add(exact, [session.run(taken, floats.outputs)])
            self._ran += 1
        return groups

    def levels(self, model: Model, draft: Draft, patches: Patches, *, wide: bool = False) -> Levels:
        floats, others = self._floats, self._floats_to_fit if wide else None  # not open beside the other one
        inserted = insert(model, draft.plan, draft.scales, patches)
        proto = inserted.model.to_proto(handover=True)
        del inserted
        session = self._loaded(self._runnable(proto))
        del proto
        chosen = self._met(session, floats, self._judging.feeds())
        found = Levels.of(chosen)
        if others is not None:
            fitted = self._met(session, others, self._fitting.feeds())
            both = [one.joined([other]) for one, other in zip(chosen, fitted, strict=True)]
            found = replace(found, wider=Levels.of(both))
        del session
        collected()
        return found

    def nearness(self, model: Model) -> float:
        job = self._job
        if job.whole is not None:
            try:
                job.whole.compare(model, "repair", exact=False)
            except Differs as error:
                raise Refused(f"the edited float model is another one: {error}") from error
        groups = self._compared(self._runnable(model.to_proto()), EDITED)
        level = Levels.of(groups).sqnr_db
        if level is None:
            raise Refused("the edited float model gives no outputs that can be compared")
        return level

    # -- what steps ask for --------------------------------------------------------------------

    def fit(
        self,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
        steps_of: Callable[[str], frozenset[str]],
    ) -> Fitted:
        found = self._fitter.fit(model, maps, draft, steps_of)
        collected()
        return found

    def values(self, model: Model, tensor: str) -> Iterator[np.ndarray]:
        if tensor in {info.name for info in model.graph.inputs}:
            yield from (np.asarray(feeds[tensor]) for feeds in self._fitting.feeds())
            return
        part = extract_between(model, (), (tensor,)).model
        with loading():
            session = ort.load(self._job.runnable(part), data_dir=model.data_dir)
        for feeds in self._fitting.feeds():
            (found,) = session.run({name: feeds[name] for name in session.inputs}, [tensor])
            yield np.asarray(found)

    def channels(self) -> Channels:
        found = {name: ends.amax for name, ends in self._fitter.channels.items()}
        collected()
        return found

    def shares(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        if not edges:
            return {}
        if weight_bytes(self._built.floats.proto) < _HEAVY:
            levels = self._with_pairs_off(state, edges)
        else:
            levels = self._one_by_one(state, edges)
        if levels[0] is None:
            return {}
        found = {name: nsr_of(db - levels[0]) for name, db in zip(edges, levels[1:], strict=True) if db}
        return {name: share for name, share in found.items() if share > _LEAST_SHARE}

    def _with_pairs_off(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> list[float | None]:
        """How near the outputs are with all pairs, and with some edges in int8 alone, dB."""
        copy, floats = self._copy(state), self._floats
        every = {(edge.node, edge.input) for pair in state.draft.plan.pairs for edge in pair.readers}
        alone = [every - {(edge.node, edge.input) for edge in some} for some in edges.values()]
        candidates = [Candidate(), *(Candidate(float_edges=others) for others in alone)]
        meter = AboutMeanMeter(self._parts, len(candidates), self._weights)
        for feeds in itertools.islice(self._judging.feeds(), _LOOKS):
            taken = {name: feeds[name] for name in copy.inputs}
            meter.add(floats.run(feeds), copy.run_each(taken, candidates, floats.outputs))
        self._ran += copy.piecewise.runs
        return [meter.result(place).sqnr_about_mean_db for place in range(len(candidates))]

    def _one_by_one(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> list[float | None]:
        """The same of models of their own: more runs, and the weights are in memory once."""
        draft, found = state.draft, list[float | None]()
        alone = ((draft.plan.reading(some), NONE) for some in edges.values())  # fits go off with the weights
        for plan, patches in ((draft.plan, state.fitted.patches), *alone):
            proto = insert(state.model, plan, draft.scales, patches).model.to_proto(handover=True)
            found.append(Levels.of(self._compared(self._runnable(proto), _LOOKS)).sqnr_db)
            del proto
            collected()
        return found

    def refined(self, state: Version) -> Mapping[str, float]:
        draft = state.draft
        current = {name: Range(entry.amax, _NOW) for name, entry in draft.ranges.items()}
        fixed = {name: entry for name, entry in current.items() if not self._is_known(name, draft)}
        ranges = replace(self._ranges, plan=draft.plan, stated={**self._ranges.stated, **fixed})
        copy = self._copy(state, pieces=_PIECES)

        def samples() -> Iterator[Feeds]:
            _ = self._floats  # from the first sample on
            return self._judging.feeds()

        def measure(feeds: Iterable[Feeds], scales: Sequence[Mapping[int, np.float32]]) -> noise.Noise:
            settings = [Candidate(scales=one) for one in scales]
            return noise.measure(self._exact, copy, feeds, settings, self._parts)

        found = refined_ranges(ranges, current, samples, measure, self._judged)
        self._ran += copy.piecewise.runs
        return {name: entry.amax for name, entry in found.items() if entry is not current[name]}

    def _is_known(self, tensor: str, draft: Draft) -> bool:
        """Whether the statistics of a tensor tell other ranges: it is as it was when they were taken."""
        entry = self._ranges.tensors.get(tensor)
        counted = entry is not None and entry.histogram is not None
        return counted and draft.ranges[tensor].amax == self._built.draft.ranges[tensor].amax

    def _copy(self, state: Version, pieces: int | None = None) -> MeasuringCopy:
        """The model of a state, to be run with other scales and with pairs off."""
        plan, patches = state.draft.plan, state.fitted.patches
        inserted = insert(state.model, plan, state.draft.scales, patches)
        return MeasuringCopy(
            inserted,
            plan,
            self._runnable(inserted.model.to_proto(handover=True)),
            self._runnable(state.model.to_proto()),
            data_dir=self._job.model.data_dir,
            in_float32=self._job.in_float32,
            pieces=pieces,
            fits=fits_of(patches, state.model),
        )


class _Kept:
    """Samples that are read once: few of them are kept in memory, the others in files.

    Attributes:
        most: how many of them are given; None: all.
    """

    def __init__(self, sampling: Sampling, read: Callable[[], Iterator[Sample]]) -> None:
        self._sampling, self._read = sampling, read
        self._spill = Spill(_IN_MEMORY)
        self._kept: list[tuple[Sample, tuple[str, ...]]] | None = None  # their arrays are spilled
        self._too_large = False
        self.most: int | None = None

    def __enter__(self) -> _Kept:
        return self

    def __exit__(self, *error: object) -> None:
        self._spill.close()

    def feeds(self) -> Iterator[Feeds]:
        """What they feed the model, in their order."""
        return self._sampling.feeds(itertools.islice(self._all(), self.most))

    def _all(self) -> Iterator[Sample]:
        if self._kept is not None:
            for sample, names in self._kept:
                yield replace(sample, feeds={name: self._spill.get((sample.index, name)) for name in names})
            return
        found: list[tuple[Sample, tuple[str, ...]]] = []
        size = 0
        for sample in self._read():
            size += sum(array.nbytes for array in sample.feeds.values())
            if size > _KEPT and not self._too_large:
                self._too_large = True
                self._spill.close()
            if not self._too_large:
                for name, array in sample.feeds.items():
                    self._spill.put((sample.index, name), array)
                found.append((replace(sample, feeds={}), tuple(sample.feeds)))
            yield sample
        if not self._too_large:
            self._kept = found
