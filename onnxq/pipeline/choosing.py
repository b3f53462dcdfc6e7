"""Inserting the pairs: with the scales of the method, or as the outputs choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxq.base.errors import Fault
from onnxq.draft.draft import Draft
from onnxq.pipeline.building import Built, FloatModel
from onnxq.pipeline.calibration import Calibrating
from onnxq.pipeline.job import Job
from onnxq.pipeline.joints import disagreeing
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.choice import SEARCH, Choice, choose, scale_sets
from onnxq.quant.insert import Inserted
from onnxq.quant.measuring import Candidate
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Ranges
from onnxq.quant.thresholds import Method, automatic
from onnxq.run import noise
from onnxq.run.compare import Recording

NOT_COMPARED = "what attention in int8 costs the outputs was not measured: no samples, or none that compare"


def quantized(
    job: Job,
    options: Calibrating,
    sampling: Sampling,
    draft: Draft,
    float_model: FloatModel,
    ranges: Ranges,
    floats: Recording | None,
    *,
    tries: bool = True,
) -> tuple[Built, Choice | None]:
    """Gives a draft its ranges, and inserts its pairs.

    Args:
        job: of the float model.
        options: the method.
        sampling: gives the samples that choose.
        draft: the plan; its ranges are those that a plan file states.
        float_model: the model without pairs.
        ranges: of the tensors, by any method.
        floats: what that gives, to choose with; None without data.
        tries: whether joint decisions that are to be tried are.

    Returns:
        What is made, and how the outputs chose; None where they did not.

    Raises:
        UserError: weights cannot be quantized, or the model does not run on a sample.
    """
    ranges = replace(ranges, plan=draft.plan)
    with job.step("insert"):
        built = Built.of(job, replace(draft, ranges=ranges.all(options.default)), float_model)
        job.notes.extend(note for note in _widened(built.inserted) if note not in job.notes)
    free = any(ranges.is_free(name) for name in draft.plan.measured)
    choice = None
    if options.chooses and built.inserted.scales and free:
        with job.step("choose"):
            choice = _choice(job, options, sampling, built, ranges, floats)
        built = built.rescaled(replace(draft, ranges=choice.ranges))
    refused = _refused(job, options, sampling, built, ranges, floats) if tries else {}
    if not refused:
        return built, choice
    rest = draft.in_float(refused, float_model.model)
    return quantized(job, options, sampling, rest, float_model, ranges, floats, tries=False)


def _refused(
    job: Job,
    options: Calibrating,
    sampling: Sampling,
    built: Built,
    ranges: Ranges,
    floats: Recording | None,
) -> Mapping[str, str]:
    """The nodes of joint decisions to be tried that the outputs do not bear in int8, and why."""
    if not any(joint.tried for joint in built.draft.plan.together):
        return {}
    if floats is None or sampling.parts is None:
        job.notes.append(NOT_COMPARED)
        return {}
    with job.step("choose"):
        measuring = built.copy()
        try:
            with sampling.named():
                found = disagreeing(
                    built.draft.plan,
                    lambda nodes: built.draft.in_float(nodes, built.floats.model).plan,
                    lambda: _samples(sampling, floats),
                    lambda feeds, candidates: noise.measure(
                        floats, measuring, feeds, candidates, job.parts_of(floats.outputs)
                    ),
                    scale_sets(ranges, _methods(options, built.draft.plan)) if options.chooses else (),
                )
        except Fault as fault:  # the file is tried as a whole when it is verified
            job.notes.append(f"{NOT_COMPARED}: {fault}")
            return {}
    if found is None:
        job.notes.append(NOT_COMPARED)
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
    built: Built,
    ranges: Ranges,
    floats: Recording | None,
) -> Choice:
    """What the outputs choose on samples that calibration did not see."""
    default = options.default
    if floats is None or sampling.parts is None:
        return Choice(default, ranges.all(default), why="there was no data to choose with")
    measuring = built.copy()
    watched = _Watched(job, sampling)

    def samples() -> Iterator[Mapping[str, np.ndarray]]:
        watched.again()
        floats.rewind()
        return sampling.feeds(sampling.choosing())

    def tried(feeds: Iterable[Any], scales: Sequence[Mapping[int, np.float32]]) -> noise.Noise:
        settings = [Candidate(scales=one) for one in scales]
        parts = job.parts_of(floats.outputs)
        return noise.measure(floats, measuring, watched.feeds(feeds, len(settings)), settings, parts)

    methods = _methods(options, built.draft.plan)
    try:
        with sampling.named():
            choice = choose(ranges, methods, samples, tried, prior=default, refine=not options.search)
    except Fault as fault:  # the file is tried as a whole when it is verified
        why = f"the candidates could not be measured: {fault}"
        return Choice(default, ranges.all(default), why=why, runs=measuring.piecewise.runs)
    if not choice.why and (sampling.parts.shared or not sampling.apart):
        choice.why = "there are too few samples to keep some apart: those that calibrated chose"
    choice.runs = choice.samples + measuring.piecewise.runs
    return choice


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
