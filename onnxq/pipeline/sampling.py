"""The samples of a run: which calibrate, choose and verify; those on which the model fails are left out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from onnxq.data.samples import Sample, watched
from onnxq.data.sources import Source
from onnxq.data.split import CHOOSING, HELD_OUT, Split
from onnxq.errors import UserError
from onnxq.graph.deciders import or_freeze
from onnxq.pipeline.calibration import Calibrating, Given, divide
from onnxq.pipeline.job import Job
from onnxq.reason import Reason
from onnxq.run import ort


class Sampling:
    """Who gets which samples.

    Attributes:
        source: where they are from; None where there are statistics only.
        first: the first sample that calibrates; None without data.
        parts: which are for what; None without data.
        shapes: the shape of each input in a typical sample, as far as it is known.
        apart: whether the samples that chose are others than those that calibrated.
    """

    def __init__(
        self,
        job: Job,
        options: Calibrating,
        source: Source | None,
        given: Given | None,
        *,
        chooses: bool = False,
        keeps: int = 0,
    ) -> None:
        """Reads the first sample.

        `chooses`: whether some are kept apart to choose even where the method chooses nothing; `keeps`: how
        many of those that calibrate are kept where they can be read only once.

        Raises:
            UserError: there are no samples, or they or the model are not those of the given statistics.
        """
        self._job, self._options, self._given = job, options, given
        self._chooses = chooses or options.chooses
        self.source = source
        self.first: Sample | None = None
        self.parts: Split | None = None
        self.apart = False
        self._rest: Iterator[Sample] = iter(())
        self._keeps, self._kept = keeps, list[Sample]()
        self._bad: set[int] = set()  # indices of samples on which the model does not run
        self._running = ""  # where the sample is from that is run
        if given is not None:
            given.check_model(job)
        if source is not None:
            self.parts, self._rest = divide(source, options, given, choose=self._chooses)
            self.first = next(self._rest, None)
            if self.first is None:
                raise UserError("there are zero samples to calibrate with", hint="check the data")
            if given is not None:
                given.check_data(source)
        self.shapes = {name: array.shape for name, array in self.first.feeds.items()} if self.first else {}
        if given is not None and given.stats is not None:
            self.shapes = self.shapes or dict(given.stats.origin.shapes)

    # -- samples -------------------------------------------------------------------------------

    def calibrating(self) -> Iterator[Sample]:
        """Those that calibrate; only once."""
        found = self._rest if self.first is None else itertools.chain([self.first], self._rest)
        once = self.parts is not None and self.parts.used is None
        return self._keeping(found) if once and self._keeps else found

    def _keeping(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if len(self._kept) < self._keeps:
                self._kept.append(sample)
            yield sample

    def fitting(self, most: int) -> Iterator[Sample]:
        """The first of those that calibrated, as often as it is called."""
        assert self.parts is not None
        again = self._kept if self.parts.used is None else self.parts.calibration()
        return itertools.islice(self._good(again), most)

    def choosing(self) -> Iterator[Sample]:
        """Those that choose."""
        assert self.parts is not None
        apart = self._good(self.parts.choice())
        first = next(apart, None)
        self.apart = first is not None
        if first is None:
            return itertools.islice(self._good(self.parts.calibration()), CHOOSING)
        return itertools.chain([first], apart)

    def held_out(self, *, silent: bool = False) -> Iterator[Sample]:
        """Those that verify; the observer is told of each, unless `silent`."""
        assert self.parts is not None
        apart = self._good(self.parts.held_out())
        first = next(apart, None)
        if first is None:  # the model runs on none of them
            self.parts.shared = True
            apart = itertools.islice(self._good(self.parts.calibration()), HELD_OUT)
        found = apart if first is None else itertools.chain([first], apart)
        return found if silent else self.watched("verify", found, self.parts.held)

    def watched(self, step: str, samples: Iterable[Sample], total: int | None) -> Iterator[Sample]:
        """Samples; the observer is told."""
        return watched(samples, lambda done: self._job.observe(step, done, total))

    def feeds(self, samples: Iterable[Sample]) -> Iterator[Mapping[str, np.ndarray]]:
        """What the model is fed, in the type that it runs in."""
        for sample in self._job.feeds(samples):
            self._running = sample.where
            yield sample.feeds

    # -- bad ones ------------------------------------------------------------------------------

    def skip(self, sample: Sample, error: UserError | ort.RunError) -> None:
        """Leaves out a sample on which the model does not run."""
        assert self.source is not None
        self._bad.add(sample.index)
        self.source.skip(sample.where, str(error))

    def leave_out_bad(self, session: ort.Session) -> None:
        """Leaves out samples on which the float model does not run, of those that choose and verify."""
        choosing = self.choosing() if self._chooses else iter(())
        for sample in self._job.feeds(itertools.chain(choosing, self.held_out())):
            try:
                session.run(sample.feeds)
            except ort.RunError as error:
                self.skip(sample, error)

    def _good(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        return (sample for sample in samples if sample.index not in self._bad)

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Names the sample on which a model does not run."""
        try:
            yield
        except ort.RunError as error:
            raise UserError(
                f"the model does not run on {self._running}: {error}",
                hint=or_freeze(
                    "check the sample's sizes and values against what the model expects, or --skip-bad",
                    self._job.model.to_proto(weights=False),
                ),
            ) from error

    # -- report --------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """How the data were understood: now, or when the statistics were taken."""
        if self.source is not None:
            return self.source.to_json()
        read = self._given.stats if self._given is not None else None
        if read is None:
            return {"lines": [], "images": [], "notes": []}
        return {"lines": list(read.lines), "images": list(read.origin.images), "notes": []}

    def placed(self, place: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Where the data are, and which samples verify, for who opens them again; None for no path."""
        held = None if self.parts is None else self.parts.held_indices
        return None if place is None else {**place, "held_out": None if held is None else list(held)}

    @property
    def few(self) -> str | None:
        """Which samples did two things, as there are too few; None where none did. Known when some chose."""
        if self.parts is None:
            return None
        if self.parts.shared and (not self.apart or self.parts.chosen_with == 1):  # there is one
            return "the same samples calibrated, chose and judged: give more, 8 at least"
        return None if self.apart else "the samples that calibrated chose as well: give more, 8 at least"

    @property
    def held_text(self) -> Reason:
        """What verified."""
        if self.parts is None:
            return Reason("none", "no samples: there was no data")
        if self.parts.shared:
            return Reason("shared", "samples that calibrated: there are no others")
        return Reason("apart", "other samples")
