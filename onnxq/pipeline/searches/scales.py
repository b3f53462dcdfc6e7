"""The scales: those of the method, or as the outputs choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from onnxq.base.reason import Reason, noted, reason
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.pipeline.building import Built, FloatModel
from onnxq.pipeline.calibration import Calibrating
from onnxq.pipeline.job import Job
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.choice import SEARCH, Choice, choose
from onnxq.quant.draft.draft import Draft
from onnxq.quant.insert import Inserted
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Ranges, Scales
from onnxq.quant.thresholds import Method, automatic
from onnxq.run.candidates import heard
from onnxq.run.in_parts import Found, blocks, given
from onnxq.task.counted import counted


def with_scales(job: Job, options: Calibrating, draft: Draft, floats: FloatModel, ranges: Ranges) -> Built:
    """Gives a draft the ranges of the method, and inserts its pairs.

    Args:
        job: of the float model.
        options: the method.
        draft: the plan; its ranges are those that a plan file states.
        floats: the model without pairs.
        ranges: of the draft's tensors, by any method.

    Raises:
        UserError: weights cannot be quantized.
    """
    with job.step("insert"):
        built = Built.of(job, replace(draft, ranges=ranges.all(options.default)), floats)
        job.notes.extend(note for note in _widened(built.inserted) if note not in job.notes)
    return built


def _widened(inserted: Inserted) -> Iterator[str]:
    """What the user is told of own scales that have another type now."""
    names = inserted.widened
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield noted("own-scales", tensor=names[0], more=more)


def methods_of(options: Calibrating, plan: QuantPlan, samples: int) -> Sequence[Method]:
    """The methods that the outputs choose from."""
    own = [one for one in SEARCH if one.name == options.default.name]
    return own if options.search else automatic(plan.formats, samples)


def _wanted(run: Run) -> bool:
    built, ranges = run.built, run.ranges
    free = any(map(ranges.is_free, built.draft.plan.measured))
    return run.request.options.chooses and bool(built.inserted.scales) and free


def _chosen(run: Run) -> Run:
    """With the scales that the outputs choose, on samples that calibration did not see."""
    job = run.built.job
    with job.step("choose"), job.limit:
        return _with(_choice(run), run)


def _with(choice: Choice, run: Run) -> Run:
    built = run.built
    return replace(run, built=built.rescaled(replace(built.draft, ranges=choice.ranges)), choice=choice)


def _not_chosen(run: Run, why: Reason) -> Run:
    default = run.request.options.default
    return replace(run, choice=Choice(default, run.ranges.all(default), why=reason("no-choice", why=why)))


def _choice(run: Run) -> Choice:
    options, sampling, built, ranges = run.request.options, run.sampling, run.built, run.ranges
    default, floats, job = options.default, run.references.choosing, run.built.job
    if floats is None or sampling.parts is None:
        return Choice(default, ranges.all(default), why=reason("no-choice.no-data"))
    measuring = _Crossing(built.copy())
    watched, counter = _Watched(job, sampling), counted(run.task, floats.outputs)

    def samples() -> Iterator[Mapping[str, np.ndarray]]:
        watched.again()
        floats.rewind()
        for sample in sampling.comparing():
            measuring.half = sampling.half_of(sample)
            yield from sampling.feeds([sample])

    def tried(feeds: Iterable[Any], scales: Sequence[Mapping[int, np.float32]]) -> Sequence[AboutMeanMeter]:
        parts = job.parts_of(floats.outputs)
        fed = measuring.ahead(watched.feeds(feeds, len(scales)), scales, floats.outputs)
        return heard(floats, measuring, fed, scales, parts, counter, run.request.weights)

    refine = not options.search and not sampling.halved  # those thresholds are fitted to all
    methods = methods_of(options, built.draft.plan, ranges.samples)
    with sampling.named():
        choice = choose(ranges, methods, samples, tried, prior=default, refine=refine)
    if not choice.why and not sampling.halved and (sampling.parts.shared or not sampling.apart):
        choice.why = reason("few-apart")
    choice.runs = choice.samples + measuring.runs
    return choice


class _Crossing:
    """Runs each candidate for the scales as those fitted it that the sample which is run is not among.

    Attributes:
        half: in which half of those that calibrated that sample is; None: in none.
    """

    half: int | None = None

    def __init__(self, copy: MeasuringCopy) -> None:
        self.inputs, self._copy = tuple(copy.inputs), copy
        self._found: Iterator[Found] | None = None
        self._ran = 0

    @property
    def runs(self) -> float:
        """Runs of the model, so far."""
        return self._copy.piecewise.runs + self._ran

    def ahead(
        self,
        samples: Iterable[Mapping[str, np.ndarray]],
        settings: Sequence[Mapping[int, np.float32]],
        outputs: Sequence[str],
    ) -> Iterator[Mapping[str, np.ndarray]]:
        """The samples; a large model has run on many, part by part, before the first of them is given."""
        if not self._copy.is_large:
            yield from samples
            return
        candidates = [Candidate(scales=one) for one in settings]
        for block in blocks(samples, lambda feeds: sum(array.nbytes for array in feeds.values())):
            self._found = self._copy.run_all(block, candidates, outputs)
            yield from block

    def run_each(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[Mapping[int, np.float32]],
        outputs: Sequence[str] | None = None,
    ) -> list[list[Any]]:
        """The outputs wanted, or all, with each scales."""
        if self._found is not None:
            self._ran += len(settings)
            return [given(found) for found in islice(self._found, len(settings))]
        judged = (one.judging(self.half) if isinstance(one, Scales) else one for one in settings)
        return self._copy.run_each(feeds, [Candidate(scales=one) for one in judged], outputs)


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
        count = self._sampling.compared_with()
        for fed in feeds:  # the first of which begins a pass
            yield fed
            what = f"{candidates} methods" if self._passes == 1 else f"{candidates - 1} thresholds"
            self._samples, self._runs = self._samples + 1, self._runs + candidates
            rest = None if count is None else max(0, count - self._samples)
            total = None if rest is None else self._runs + rest * candidates
            self._job.observe(f"choose: {what}", self._runs, total)


SCALES = ModelSearch("scales", _wanted, _chosen, _not_chosen)
