"""Inserting the pairs: with the scales of the method, or as the outputs choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import Fault
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.pipeline.calibration import Calibrating, Prepared
from onnxq.pipeline.job import Job
from onnxq.pipeline.joints import disagreeing
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.choice import SEARCH, Choice, choose, scale_sets
from onnxq.quant.fits import within
from onnxq.quant.insert import Inserted, insert, set_scales
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range, Ranges, scales_of
from onnxq.quant.thresholds import Method, automatic
from onnxq.run import noise
from onnxq.run.compare import Recording

NOT_COMPARED = "what attention in int8 costs the outputs was not measured: no samples, or none that compare"

# What candidates have in common is not run again; in more pieces small models lose more than that saves.
_PIECES = 4


@dataclass(frozen=True, slots=True)
class Quantized:
    """A model with Q/DQ pairs, and what is known of its scales.

    Attributes:
        model: the model, open.
        proto: the same, as it is written.
        ranges: the range of each measured tensor.
        scales: the scale of each group of activations.
        choice: how they were chosen, where the outputs chose.
        names: the name of the constant that holds the scale of each group.
        runs: how many runs of the model chose them.
        gained_db: what repair brought the outputs, dB.
    """

    model: Model
    proto: onnx.ModelProto
    ranges: dict[str, Range]
    scales: dict[int, np.float32]
    choice: Choice | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    runs: float = 0.0
    gained_db: float = 0.0


def quantized(
    job: Job,
    options: Calibrating,
    sampling: Sampling,
    prepared: Prepared,
    ranges: Ranges,
    floats: Recording | None,
) -> Quantized:
    """Inserts the pairs of a plan.

    Args:
        job: of the float model.
        options: the method.
        sampling: gives the samples that choose.
        prepared: the plan, and what the user is told of it.
        ranges: of the tensors, by any method.
        floats: the float model to choose with; None without data.

    Raises:
        UserError: weights cannot be quantized, or the model does not run on a sample.
    """
    plan = prepared.plan
    with job.step("insert"):
        found = ranges.all(options.default)
        scales = scales_of(plan, found)
        inserted = insert(job.model, plan, scales, prepared.patches)
        prepared.notes += [note for note in _widened(inserted) if note not in prepared.notes]
        proto = inserted.model.to_proto(handover=True)
    free = any(ranges.is_free(name) for name in plan.measured)
    choice, runs = None, 0.0
    if options.chooses and inserted.scales and free:
        with job.step("choose"):
            choice, runs = _choice(job, options, sampling, prepared, inserted, proto, ranges, floats)
        found = choice.ranges
        scales = scales_of(plan, found)
        set_scales(proto, inserted.scales, scales)
    done = Quantized(inserted.model, proto, found, scales, choice, inserted.scales, runs)
    refused = _refused(job, options, sampling, prepared, ranges, floats, inserted, proto)
    if not refused:
        return done
    assert prepared.replan is not None
    prepared.plan = ranges.plan = prepared.replan(refused)
    prepared.replan = None
    return quantized(job, options, sampling, prepared, ranges, floats)


def _refused(
    job: Job,
    options: Calibrating,
    sampling: Sampling,
    prepared: Prepared,
    ranges: Ranges,
    floats: Recording | None,
    inserted: Inserted,
    proto: onnx.ModelProto,
) -> Mapping[str, str]:
    """The nodes of joint decisions to be tried that the outputs do not bear in int8, and why."""
    replan = prepared.replan
    if replan is None or not any(joint.tried for joint in prepared.plan.together):
        return {}
    if floats is None or sampling.parts is None:
        prepared.notes.append(NOT_COMPARED)
        return {}
    with job.step("choose"):
        measuring = measuring_copy(job, prepared, inserted, proto)
        try:
            with sampling.named():
                found = disagreeing(
                    prepared.plan,
                    replan,
                    lambda: _samples(sampling, floats),
                    lambda feeds, candidates: noise.measure(
                        floats, measuring, feeds, candidates, job.parts_of(floats.outputs)
                    ),
                    scale_sets(ranges, _methods(options, prepared.plan)) if options.chooses else (),
                )
        except Fault as fault:  # the file is tried as a whole when it is verified
            prepared.notes.append(f"{NOT_COMPARED}: {fault}")
            return {}
    if found is None:
        prepared.notes.append(NOT_COMPARED)
    return found or {}


def _methods(options: Calibrating, plan: QuantPlan) -> Sequence[Method]:
    """The methods that the outputs choose from."""
    own = [one for one in SEARCH if one.name == options.default.name]
    return own if options.search else automatic(plan.format)


def _widened(inserted: Inserted) -> Iterator[str]:
    """What the user is told of own scales that have another type now."""
    names = inserted.widened
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield (
            f"the model's own scales of {names[0]!r}{more} are float32 now, of the same values: "
            "NVIDIA's compiler takes one type a layer"
        )


def _choice(
    job: Job,
    options: Calibrating,
    sampling: Sampling,
    prepared: Prepared,
    inserted: Inserted,
    proto: onnx.ModelProto,
    ranges: Ranges,
    floats: Recording | None,
) -> tuple[Choice, float]:
    """What the outputs choose on samples that calibration did not see, and how many runs that takes."""
    default = options.default
    if floats is None or sampling.parts is None:
        return Choice(default, ranges.all(default), why="there was no data to choose with"), 0.0
    measuring = measuring_copy(job, prepared, inserted, proto)

    watched = _Watched(job, sampling)

    def samples() -> Iterator[Mapping[str, np.ndarray]]:
        watched.again()
        floats.rewind()
        return sampling.feeds(sampling.choosing())

    def tried(feeds: Iterable[Any], scales: Sequence[Mapping[int, np.float32]]) -> noise.Noise:
        settings = [Candidate(scales=one) for one in scales]
        parts = job.parts_of(floats.outputs)
        return noise.measure(floats, measuring, watched.feeds(feeds, len(settings)), settings, parts)

    methods = _methods(options, prepared.plan)
    try:
        with sampling.named():
            choice = choose(ranges, methods, samples, tried, prior=default, refine=not options.search)
    except Fault as fault:  # the file is tried as a whole when it is verified
        why = f"the candidates could not be measured: {fault}"
        return Choice(default, ranges.all(default), why=why), measuring.piecewise.runs
    if not choice.why and (sampling.parts.shared or not sampling.apart):
        choice.why = "there are too few samples to keep some apart: those that calibrated chose"
    return choice, choice.samples + measuring.piecewise.runs


def refined(job: Job, prepared: Prepared, done: Quantized, plan: QuantPlan) -> Quantized:
    """The same ranges for a plan of fewer pairs, which is the plan from now on.

    Args:
        job: of the float model.
        prepared: what has the plan that `done` is of.
        done: the quantized model.
        plan: what is left of the plan.

    Raises:
        UserError: weights cannot be quantized.
    """
    with job.step("insert"):
        prepared.plan, prepared.replan = plan, None
        prepared.patches, prepared.fits = within(prepared.patches, prepared.fits, plan)
        ranges = {name: done.ranges[name] for name in plan.measured}
        scales = scales_of(plan, ranges)
        inserted = insert(job.model, plan, scales, prepared.patches)
        proto = inserted.model.to_proto(handover=True)
        return Quantized(
            inserted.model, proto, ranges, scales, done.choice, inserted.scales, gained_db=done.gained_db
        )


def measuring_copy(
    job: Job, prepared: Prepared, inserted: Inserted, proto: onnx.ModelProto, *, by_layer: bool = False
) -> MeasuringCopy:
    """The model with pairs, to be run with other scales and with pairs off.

    Args:
        job: of the float model.
        prepared: the plan, and the float model.
        inserted: the model with pairs.
        proto: the same, as it is written.
        by_layer: whether each layer is a piece, for many candidates with other pairs off.
    """
    part = job.runnable(job.part(proto)[0])
    return MeasuringCopy(
        inserted,
        prepared.plan,
        part,
        prepared.reference,
        data_dir=job.model.data_dir,
        in_float32=job.in_float32,
        pieces=None if by_layer else 1 if speaks_half(part) else _PIECES,
        fits=prepared.fits,
    )


class _Watched:
    """Tells the observer of the runs that choose, as the samples are gone through again and again.

    The first time is that of the methods; then other thresholds of single tensors are tried.
    """

    def __init__(self, job: Job, sampling: Sampling) -> None:
        self._job, self._sampling = job, sampling
        self._passes = self._samples = self._runs = 0

    def again(self) -> None:
        """The samples are gone through once more."""
        self._passes, self._samples, self._runs = self._passes + 1, 0, 0

    def feeds(self, feeds: Iterable[Any], candidates: int) -> Iterator[Any]:
        """What so many candidates are fed."""
        what = f"{candidates} methods" if self._passes == 1 else f"{candidates - 1} thresholds"
        parts = self._sampling.parts
        count = parts.chosen_with if parts is not None and self._sampling.apart else None
        for fed in feeds:
            yield fed
            self._samples, self._runs = self._samples + 1, self._runs + candidates
            rest = None if count is None else max(0, count - self._samples)
            total = None if rest is None else self._runs + rest * candidates
            self._job.observe(f"choose: {what}", self._runs, total)


def _samples(sampling: Sampling, floats: Recording) -> Iterator[Mapping[str, np.ndarray]]:
    """What the samples that choose feed the model."""
    floats.rewind()
    return sampling.feeds(sampling.watched("choose", sampling.choosing(), None))
