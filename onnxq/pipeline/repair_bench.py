"""What the steps of repair are measured and fitted with, on a run's samples."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property

import numpy as np
import onnx

from onnxq.base.heap import collected
from onnxq.base.reason import reason
from onnxq.data.kept_feeds import KeptFeeds
from onnxq.data.samples import Sample
from onnxq.graph.cut import extract_between
from onnxq.graph.logits import at_logits, logits_of
from onnxq.graph.model import Model
from onnxq.graph.spool import weight_bytes
from onnxq.judge.about_mean import AboutMeanGroups, AboutMeanMeter
from onnxq.judge.acceptance import GROUPS, Levels
from onnxq.judge.sqnr import nsr_of
from onnxq.pipeline.run import Run
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import loading, recording
from onnxq.quant.choice import refined_ranges
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.fits import fits_of
from onnxq.quant.insert import insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import Edge
from onnxq.quant.ranges import Range
from onnxq.repair.fit import ROWS, Fitted, Fitter
from onnxq.repair.statistics import Channels, channel_axes
from onnxq.repair.step_search import Refused, Tools, Version
from onnxq.repair.waves import Waves
from onnxq.repair.workload import EDITED
from onnxq.rewrite.whole import Differs
from onnxq.run import ort
from onnxq.run.candidates import heard
from onnxq.run.compare import Recording
from onnxq.run.ort import Feeds
from onnxq.task.counted import counted

_PIECES = 4  # as for choosing scales
_NOW = reason("repair")
_LOOKS = 8
"""Samples that say how much of the noise some edges make: alone, as what is left without them varies more."""

_LEAST_SHARE = 1e-3

_ROWS_OF_TRIAL = ROWS // 2  # with which a candidate is fitted

_HEAVY = 1 << 27
"""Bytes of weights from which on pairs are not switched off: a measuring copy holds them several times.

Below, that takes half of the time of models of their own, and no more memory than choosing scales did."""


def bench_of(run: Run, samples: Kept, waves: Waves, fitting: int) -> AbstractContextManager[Tools]:
    """What measures and fits for a run.

    Args:
        run: what repair starts from.
        samples: those that fit and judge.
        waves: which of them do what, for candidates.
        fitting: how many of them fit what is written.
    """
    return _Bench(run, samples, waves, fitting)


class _Bench:
    """What the steps are measured and fitted with.

    Attributes:
        waves: which samples fit, and which judge.
    """

    def __init__(self, run: Run, samples: Kept, waves: Waves, fitting: int) -> None:
        built = run.built
        self._job, self._built, self._weights = built.job, built, run.request.weights
        self._ranges = run.ranges
        self._sampling, self._samples, self.waves = run.sampling, samples, waves
        self._ran = 0.0
        self._reference = at_logits(built.floats.reference, copy=True)
        self._exact: dict[Sequence[int], Recording] = {}
        self._outputs = [info.name for info in built.floats.reference.graph.output]
        self._parts = self._job.parts_of(self._outputs)
        self._counter = counted(run.task, self._outputs, frozenset(logits_of(built.floats.reference)))
        self._fitters: dict[int | None, Fitter] = {}
        self._heard: list[tuple[tuple[Model, Draft, Patches], ort.Session]] = []  # those of the last two
        every = range(samples.count)
        self._folds: dict[int | None, Sequence[int]] = dict(enumerate(waves.folds))
        self._folds[None] = every[:: max(1, samples.count // fitting)][:fitting]
        self._looked = waves.waves[0].places
        more = [wave.places for wave in waves.waves if wave.fold == waves.waves[0].fold]
        self._refining = tuple(sorted(place for places in more for place in places))

    def __enter__(self) -> _Bench:
        return self

    def __exit__(self, *error: object) -> None:
        for fitter in self._fitters.values():
            fitter.close()

    def _fitter(self, fold: int | None) -> Fitter:
        """That of a fold; None: of all samples that fit what is written."""
        if fold not in self._fitters:
            model, plan = self._built.floats.model, self._built.draft.plan
            self._fitters[fold] = Fitter(
                model,
                plan,
                lambda: self._samples.feeds(self._folds[fold]),
                reference=self._built.floats.reference,
                ends=channel_axes(model, plan) if fold is None else None,
                runnable=self._runnable,
                rows=ROWS if fold is None else _ROWS_OF_TRIAL,
                progress=lambda done, total: self._job.observe("repair: fit", int(done), total),
            )
        return self._fitters[fold]

    def _runnable(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        return self._job.runnable(self._job.part(proto)[0])

    @property
    def runs(self) -> float:
        return self._ran + sum(fitter.runs for fitter in self._fitters.values())

    def begin(self, step: str) -> None:
        self._job.observe(f"repair: {step}", None, None)

    # -- judging -------------------------------------------------------------------------------

    def _floats(self, places: Sequence[int]) -> Recording:
        """What the float model without edits gives for some samples."""
        if places not in self._exact:
            self._exact[places] = recording(self._job, self._reference)
            with self._sampling.named():
                self._exact[places].record(self._samples.feeds(places))
            self._ran += len(places)
        self._exact[places].rewind()
        return self._exact[places]

    def _loaded(self, proto: onnx.ModelProto) -> ort.Session:
        with loading():
            return ort.load(at_logits(proto), data_dir=self._job.model.data_dir, part=True)

    def _compared(
        self, session: ort.Session, places: Sequence[int], most: int | None = None
    ) -> list[AboutMeanMeter]:
        """What groups of some samples, and so many of them, say of a model."""
        floats = self._floats(places)
        groups = AboutMeanGroups(self._parts, self._weights, GROUPS, counter=self._counter)
        for feeds in self._samples.feeds(places[:most]):
            self._job.limit.check()
            exact = floats.run(feeds)
            taken = {name: array for name, array in feeds.items() if name in session.inputs}
            groups.add(exact, [session.run(taken, floats.outputs)], feeds)
            self._ran += 1
        return groups.meters

    def heard(self, model: Model, draft: Draft, patches: Patches, wave: int) -> list[AboutMeanMeter]:
        groups = self._compared(self._quantized(model, draft, patches), self.waves.waves[wave].places)
        collected()
        return groups

    def _quantized(self, model: Model, draft: Draft, patches: Patches) -> ort.Session:
        """A quantized model, to be run; the two that were heard last, which waves judge, are there."""
        key = model, draft, patches
        for known, session in self._heard:
            if all(map(operator.is_, known, key)):
                return session
        proto = insert(model, draft.plan, draft.scales, patches).model.to_proto(handover=True)
        session = self._loaded(self._runnable(proto))
        if weight_bytes(proto) < _HEAVY:
            self._heard = [*self._heard[-1:], (key, session)]
        return session

    def nearness(self, model: Model) -> float:
        job = self._job
        if job.whole is not None:
            try:
                job.whole.compare(model, "repair", exact=False)
            except Differs as error:
                raise Refused(reason("other-float-model", error=error)) from error
        session = self._loaded(self._runnable(model.to_proto()))
        groups = self._compared(session, self._looked, EDITED)
        level = Levels.of(groups).sqnr_db
        if level is None:
            raise Refused(reason("other-float-model.no-outputs"))
        return level

    # -- what steps ask for --------------------------------------------------------------------

    def fit(
        self,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
        fold: int | None,
    ) -> Fitted:
        fitted = self._fitter(fold).fit(model, maps, draft)
        collected()
        return fitted

    def values(self, model: Model, tensor: str) -> Iterator[np.ndarray]:
        if tensor in {one.name for one in model.inputs}:
            yield from (np.asarray(feeds[tensor]) for feeds in self._samples.feeds(self._folds[None]))
            return
        part = extract_between(model, (), (tensor,)).model
        with loading():
            session = ort.load(self._job.runnable(part), data_dir=model.data_dir)
        for feeds in self._samples.feeds(self._folds[None]):
            (values,) = session.run({name: feeds[name] for name in session.inputs}, [tensor])
            yield np.asarray(values)

    def channels(self) -> Channels:
        greatest = {name: ends.amax for name, ends in self._fitter(None).channels.items()}
        collected()
        return greatest

    def shares(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        if not edges:
            return {}
        if weight_bytes(self._built.floats.proto) < _HEAVY:
            levels = self._with_pairs_off(state, edges)
        else:
            levels = self._one_by_one(state, edges)
        if levels[0] is None:
            return {}
        shares = {name: nsr_of(db - levels[0]) for name, db in zip(edges, levels[1:], strict=True) if db}
        return {name: share for name, share in shares.items() if share > _LEAST_SHARE}

    def _with_pairs_off(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> list[float | None]:
        """How near the outputs are with all pairs, and with some edges in int8 alone, dB."""
        copy, floats = self._copy(state), self._floats(self._looked)
        every = {(edge.node, edge.input) for pair in state.draft.plan.pairs for edge in pair.readers}
        alone = [every - {(edge.node, edge.input) for edge in some} for some in edges.values()]
        candidates = [Candidate(), *(Candidate(float_edges=others) for others in alone)]
        meter = AboutMeanMeter(self._parts, len(candidates), self._weights)
        for feeds in self._samples.feeds(self._looked[:_LOOKS]):
            taken = {name: feeds[name] for name in copy.inputs}
            meter.add(floats.run(feeds), copy.run_each(taken, candidates, floats.outputs))
        self._ran += copy.piecewise.runs
        return [meter.result(place).sqnr_about_mean_db for place in range(len(candidates))]

    def _one_by_one(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> list[float | None]:
        """The same of models of their own: more runs, and the weights are in memory once."""
        draft, levels = state.draft, list[float | None]()
        alone = ((draft.plan.reading(some), NONE) for some in edges.values())  # fits go off with the weights
        for plan, patches in ((draft.plan, state.fitted.patches), *alone):
            proto = insert(state.model, plan, draft.scales, patches).model.to_proto(handover=True)
            groups = self._compared(self._loaded(self._runnable(proto)), self._looked, _LOOKS)
            levels.append(Levels.of(groups).sqnr_db)
            del proto
            collected()
        return levels

    def refined(self, state: Version) -> Mapping[str, float]:
        draft = state.draft
        current = {name: Range(entry.amax, _NOW) for name, entry in draft.ranges.items()}
        fixed = {name: entry for name, entry in current.items() if not self._is_known(name, draft)}
        ranges = replace(self._ranges, plan=draft.plan, stated={**self._ranges.stated, **fixed})
        copy = self._copy(state, pieces=_PIECES)

        exact = self._floats(self._refining)

        def samples() -> Iterator[Feeds]:
            exact.rewind()  # from the first sample on
            return self._samples.feeds(self._refining)

        def measure(
            feeds: Iterable[Feeds], scales: Sequence[Mapping[int, np.float32]]
        ) -> Sequence[AboutMeanMeter]:
            settings = [Candidate(scales=one) for one in scales]
            return heard(exact, copy, feeds, settings, self._parts, self._counter, self._weights)

        refined = refined_ranges(ranges, current, samples, measure, len(self._refining))
        self._ran += copy.piecewise.runs
        return {name: entry.amax for name, entry in refined.items() if entry is not current[name]}

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
            at_logits(self._runnable(inserted.model.to_proto(handover=True))),
            at_logits(self._runnable(state.model.to_proto())),
            data_dir=self._job.model.data_dir,
            in_float32=self._job.in_float32,
            pieces=pieces,
            fits=fits_of(patches, state.model),
        )


class Kept:
    """Samples that are read once and kept; where they are too large for that, they are read each time."""

    def __init__(self, sampling: Sampling, read: Callable[[], Iterator[Sample]]) -> None:
        """Nothing is read yet; `read`: gives them, the same ones each time."""
        self._sampling, self._read = sampling, read
        self._kept = KeptFeeds()
        self._samples: list[Sample] = []  # without what they feed

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *error: object) -> None:
        self._kept.close()

    @cached_property
    def count(self) -> int:
        """How many there are; they are read.

        Raises:
            UserError: one of them cannot be used.
        """
        for sample in self._read():
            self._kept.put(sample.index, sample.feeds)
            self._samples.append(replace(sample, feeds={}))
        if self._kept.is_full:
            self._kept.close()
        return len(self._samples)

    def index(self, place: int) -> int:
        """The index of the sample at a place, in the source."""
        return self._samples[place].index if self.count else -1

    def feeds(self, places: Sequence[int]) -> Iterator[Feeds]:
        """What those at some places feed the model; `places`: ascending."""
        return self._sampling.feeds(self._at(places))

    def _at(self, places: Sequence[int]) -> Iterator[Sample]:
        if self.count and not self._kept.is_full:
            for sample in map(self._samples.__getitem__, places):
                yield replace(sample, feeds=self._kept.get(sample.index) or {})
            return
        wanted = frozenset(places)
        for place, sample in enumerate(self._read()):
            if place in wanted:
                yield sample
            if places and place == places[-1]:
                return
