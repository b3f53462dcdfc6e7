"""What the steps of repair are measured and fitted with, on a run's samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import onnx

from onnxq.base.heap import collected
from onnxq.base.reason import Reason
from onnxq.data.samples import Sample
from onnxq.draft.affine import ChannelMap
from onnxq.draft.draft import Draft
from onnxq.graph.cut import extract_between
from onnxq.graph.model import Model
from onnxq.graph.spool import weight_bytes
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import GROUPS, Levels
from onnxq.judge.sqnr import nsr_of
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.pipeline.verifying import loading, recording
from onnxq.quant.choice import refined_ranges
from onnxq.quant.fits import fits_of
from onnxq.quant.insert import insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import Edge
from onnxq.quant.ranges import Range
from onnxq.repair.fit import Fitted, Fitter
from onnxq.repair.spill import Spill
from onnxq.repair.statistics import Channels, channel_axes
from onnxq.repair.step_search import Refused, Tools, Version
from onnxq.repair.workload import EDITED
from onnxq.rewrite.whole import Differs
from onnxq.run import noise, ort
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


def bench_of(
    request: RunRequest, state: RunState, fitting: Kept, judging: Kept
) -> AbstractContextManager[Tools]:
    """What measures and fits for a run.

    Args:
        request: what the run is asked for.
        state: what repair starts from.
        fitting: the samples that fit.
        judging: those that judge.
    """
    return _Bench(request, state, fitting, judging)


class _Bench:
    """What the steps are measured and fitted with."""

    def __init__(self, request: RunRequest, state: RunState, fitting: Kept, judging: Kept) -> None:
        built, sampling, floats = state.built, request.sampling, state.references.choosing
        job, plan, reference = built.job, built.draft.plan, built.floats.reference
        self._job, self._built, self._weights = job, built, request.weights
        self._ranges = state.ranges
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
            self._job.limit.check()
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
        levels = Levels.of(chosen)
        if others is not None:
            fitted = self._met(session, others, self._fitting.feeds())
            both = [one.joined([other]) for one, other in zip(chosen, fitted, strict=True)]
            levels = replace(levels, wider=Levels.of(both))
        del session
        collected()
        return levels

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
        fitted = self._fitter.fit(model, maps, draft, steps_of)
        collected()
        return fitted

    def values(self, model: Model, tensor: str) -> Iterator[np.ndarray]:
        if tensor in {info.name for info in model.graph.inputs}:
            yield from (np.asarray(feeds[tensor]) for feeds in self._fitting.feeds())
            return
        part = extract_between(model, (), (tensor,)).model
        with loading():
            session = ort.load(self._job.runnable(part), data_dir=model.data_dir)
        for feeds in self._fitting.feeds():
            (values,) = session.run({name: feeds[name] for name in session.inputs}, [tensor])
            yield np.asarray(values)

    def channels(self) -> Channels:
        greatest = {name: ends.amax for name, ends in self._fitter.channels.items()}
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
        draft, levels = state.draft, list[float | None]()
        alone = ((draft.plan.reading(some), NONE) for some in edges.values())  # fits go off with the weights
        for plan, patches in ((draft.plan, state.fitted.patches), *alone):
            proto = insert(state.model, plan, draft.scales, patches).model.to_proto(handover=True)
            levels.append(Levels.of(self._compared(self._runnable(proto), _LOOKS)).sqnr_db)
            del proto
            collected()
        return levels

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

        refined = refined_ranges(ranges, current, samples, measure, self._judged)
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
            self._runnable(inserted.model.to_proto(handover=True)),
            self._runnable(state.model.to_proto()),
            data_dir=self._job.model.data_dir,
            in_float32=self._job.in_float32,
            pieces=pieces,
            fits=fits_of(patches, state.model),
        )


class Kept:
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

    def __enter__(self) -> Kept:
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
        kept: list[tuple[Sample, tuple[str, ...]]] = []
        size = 0
        for sample in self._read():
            size += sum(array.nbytes for array in sample.feeds.values())
            if size > _KEPT and not self._too_large:
                self._too_large = True
                self._spill.close()
            if not self._too_large:
                for name, array in sample.feeds.items():
                    self._spill.put((sample.index, name), array)
                kept.append((replace(sample, feeds={}), tuple(sample.feeds)))
            yield sample
        if not self._too_large:
            self._kept = kept
