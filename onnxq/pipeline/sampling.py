"""The samples of a run: which calibrate, choose, confirm and verify; bad ones are left out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from onnxq.base.errors import Fault, UserError
from onnxq.base.reason import Reason, noted, reason
from onnxq.data.fed_sample import FedSample
from onnxq.data.samples import Sample, watched
from onnxq.data.sources import Source
from onnxq.data.split import BLOCKS, CHOOSING, HELD_OUT, Split
from onnxq.data.understood import ImagesRead
from onnxq.documents.data import CalibrationData
from onnxq.graph.deciders import or_freeze
from onnxq.pipeline.calibration import Calibrating, Given, divide
from onnxq.pipeline.deploying import Deployed, deploy, that_runs
from onnxq.pipeline.job import Job
from onnxq.run import ort
from onnxq.run.deployment import Deployment
from onnxq.run.deployments import main_of
from onnxq.run.in_parts import Runs, run_all


class Sampling:
    """Who gets which samples.

    Attributes:
        source: where they are from; None where there are statistics only.
        first: the first sample that calibrates; None without data.
        parts: which are for what; None without data.
        deployed: the sizes that are decided for.
        confirms: whether some say whether what others propose is kept.
        uses: which were read for what.
        halved: whether each half of those that calibrate chooses with the ranges of the other half.
    """

    def __init__(
        self,
        job: Job,
        options: Calibrating,
        source: Source | None,
        given: Given | None,
        *,
        chooses: bool = False,
        confirms: bool = False,
        keeps: int = 0,
    ) -> None:
        """Reads the first sample.

        `chooses`: whether some are kept apart to choose even where the method chooses nothing; `confirms`:
        whether some of them propose, and others confirm; `keeps`: how many of those that calibrate are kept
        where they can be read only once.

        Raises:
            UserError: there are no samples, or they or the model are not those of the given statistics.
        """
        self._job, self._options, self._given = job, options, given
        self._chooses, self.confirms = chooses or options.chooses, confirms
        self.source = source
        self.first: Sample | None = None
        self.parts: Split | None = None
        self.halved = False
        self.uses = SampleUses()
        self._rest: Iterator[Sample] = iter(())
        self._keeps, self._kept = keeps, list[Sample]()
        self._bad: set[int] = set()  # indices of samples on which the model does not run
        self._running = ""  # where the sample is from that is run
        if given is not None:
            given.check_model(job)
        if source is not None:
            self.parts, self._rest = divide(source, options, given, choose=self._chooses, confirm=confirms)
            self.uses.indices["calibrate"] = set(self.parts.calibrating)
            self.first = next(self._rest, None)
            if self.first is None:
                raise UserError("there are zero samples to calibrate with", hint="check the data")
            if given is not None:
                given.check_data(source)
        none = job.deployments()
        self.deployed = Deployed(none, (self.first,) * len(none))
        if source is not None and self.parts is not None and self.first is not None:
            self.deployed = deploy(job, source, self.parts, self.first)
        elif given is not None and given.stats is not None:
            origin = given.stats.origin
            found = job.deployments(origin.seen, every=origin.tells_sizes)
            self.deployed = replace(self.deployed, deployments=found, usual=(self.first,) * len(found))

    def check_sizes(self, session: Runs) -> None:
        """Refuses stated sizes at which the model does not run, and leaves out those that nobody stated.

        Those of samples that turned out to be bad are left out before.

        Raises:
            UserError: the model does not run at what is stated.
        """
        deployed = self.deployed.without_bad(self._bad)
        runnable, notes = list[Deployment](), deployed.notes
        for one, sample in zip(deployed.deployments, deployed.usual, strict=True):
            if sample is None:
                return
            (usual,) = self._job.feeds([sample])
            runs, of_sizes = that_runs(one, session, usual, self._job.model)
            runnable.append(runs)
            notes += of_sizes
        self.deployed = replace(deployed, deployments=tuple(runnable), notes=notes)

    @property
    def deployment(self) -> Deployment:
        """That of the deployments which has most of the work."""
        return main_of(self.deployments)

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """What is decided for, in the sizes of all samples that were read.

        Unless the model does not run at all of them, or there are several: these have those of their samples.
        """
        found = self.deployed.deployments
        if self.deployed.notes or (self.deployed.seen and found[0].name):
            return found
        shapes = self._job.sizes(self._bad)
        try:
            again = self._job.deployments(shapes, every=False) if shapes else ()
        except UserError:  # what later samples of an iterator contradict; those that it was decided for stay
            return found
        by_name = {one.name: one for one in again}
        return tuple(one.ranging(by_name[one.name], shapes) if one.name in by_name else one for one in found)

    # -- samples -------------------------------------------------------------------------------

    def calibrating(self) -> Iterator[Sample]:
        """Those that calibrate; only once."""
        found = self._rest if self.first is None else itertools.chain([self.first], self._rest)
        found = self._noted("calibrate", found)
        once = self.parts is not None and self.parts.used is None
        return self._keeping(found) if once and self._keeps else found

    def calibrating_half(self, half: int) -> Iterator[Sample]:
        """Half of those that calibrate, where there are halves."""
        assert self.source is not None
        assert self.parts is not None
        return self._noted("calibrate", self.source.good(self.parts.halves[half]))

    def halve(self) -> None:
        """From now on each half of those that calibrated chooses with the ranges of the other half."""
        self.halved = True

    def half_of(self, sample: Sample) -> int | None:
        """In which half of those that calibrate a sample is, where halves choose; None: in none."""
        halves = self.parts.halves if self.halved and self.parts is not None else ()
        return next((place for place, half in enumerate(halves) if sample.index in half), None)

    def _keeping(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if len(self._kept) < self._keeps:
                self._kept.append(sample)
            yield sample

    def fitting(self, most: int) -> Iterator[Sample]:
        """The first of those that calibrated, as often as it is called."""
        assert self.parts is not None
        again = self._kept if self.parts.used is None else self.parts.calibration()
        return self._noted("fit", itertools.islice(self._good(again), most))

    def looking(self, most: int) -> Iterator[Sample]:
        """The first of those that calibrated, then of all others, for a look that decides nothing."""
        assert self.parts is not None
        calibrating = frozenset(self.parts.calibrating)
        rest = [index for index in self.parts.indices if index not in calibrating]
        others = self.source.good(rest) if self.source is not None and rest else ()  # of an iterator: none
        return itertools.islice(itertools.chain(self.fitting(most), self._good(others)), most)

    def choosing(self) -> Iterator[Sample]:
        """Those that choose."""
        assert self.parts is not None
        apart = self._good(self.parts.choice())
        first = next(apart, None)
        self.uses.own["choose"] = first is not None
        if first is None:
            return self._noted("choose", itertools.islice(self._good(self.parts.calibration()), CHOOSING))
        return self._noted("choose", itertools.chain([first], apart))

    def comparing(self) -> Iterator[Sample]:
        """Those that choose; where they are fewer than tell, all that calibrated as well, as often."""
        assert self.parts is not None
        seen = set[int]()
        for sample in self.choosing():
            seen.add(sample.index)
            yield sample
        if self.apart and len(seen) < self._telling and self.parts.used is not None:
            others = (one for one in self._good(self.parts.calibration()) if one.index not in seen)
            yield from self._noted("choose", itertools.islice(others, max(0, BLOCKS[-1] - len(seen))))

    def compared_with(self) -> int | None:
        """How many `comparing` gives; None where that is not known."""
        chosen = self.parts.chosen_with if self.parts is not None and self.apart else None
        if chosen is None or chosen >= self._telling or self.parts is None or self.parts.used is None:
            return chosen
        return max(chosen, min(self.parts.either or 0, BLOCKS[-1]))

    @property
    def _telling(self) -> int:
        """So many that choose tell; more where each half that calibrated is judged by the other."""
        return BLOCKS[-1] if self.halved else BLOCKS[0]

    def proposing(self) -> Iterator[Sample]:
        """Those that choose what others confirm: of those that choose all but these."""
        assert self.parts is not None
        apart = self._good(self.parts.proposal())
        first = next(apart, None)
        if first is None:
            self.uses.own["confirm"] = self.confirmed_apart and not self.confirms
            return self.choosing()
        self.uses.own["choose"] = True
        return self._noted("choose", itertools.chain([first], apart))

    def confirming(self) -> Iterator[Sample]:
        """Those that say whether what others propose is kept; where there are too few, those that choose.

        The observer is told of each.
        """
        assert self.parts is not None
        apart = self._good(self.parts.confirmation())
        first = next(apart, None)
        self.uses.own["confirm"] = self.confirmed_apart and first is not None
        found = self.choosing() if first is None else itertools.chain([first], apart)
        return self.watched("confirm", self._noted("confirm", found), len(self.parts.confirming) or None)

    def held_out(self, *, silent: bool = False) -> Iterator[Sample]:
        """Those that verify; the observer is told of each, unless `silent`."""
        assert self.parts is not None
        apart = self._good(self.parts.held_out())
        first = next(apart, None)
        if first is None:  # the model runs on none of them
            self.parts.shared = True
            apart = itertools.islice(self._good(self.parts.calibration()), HELD_OUT)
        found = self._noted("verify", apart if first is None else itertools.chain([first], apart))
        return found if silent else self.watched("verify", found, self.parts.held)

    def crossing(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Samples that judge what others fitted: by their indices, where they can be read again."""
        again = self.source is not None and self.parts is not None and self.parts.used is not None
        found = self.source.good(sorted(indices)) if again and self.source is not None else ()
        return self._noted("cross", self._good(found))

    def _noted(self, use: Use, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Samples that are read for a use; what verifies and decides is refused."""
        return self.uses.noted(use, samples, lambda: self.parts is not None and self.parts.shared)

    def watched(self, step: str, samples: Iterable[Sample], total: int | None) -> Iterator[Sample]:
        """Samples; the observer is told."""
        return watched(samples, lambda done: self._job.observe(step, done, total))

    def feeds(self, samples: Iterable[Sample]) -> Iterator[Mapping[str, np.ndarray]]:
        """What the model is fed, in the type that it runs in."""
        for sample in self._job.feeds(samples):
            self._running = sample.where
            yield FedSample(sample.feeds, sample.where, () if self.source is None else self.source.images)

    # -- bad ones ------------------------------------------------------------------------------

    def skip(self, sample: Sample, error: UserError | ort.RunError) -> None:
        """Leaves out a sample on which the model does not run."""
        assert self.source is not None
        self._bad.add(sample.index)
        self.source.skip(sample.where, str(error))

    def leave_out_bad(self, session: Runs) -> None:
        """Leaves out samples on which the float model does not run, of those that do not calibrate."""
        choosing = self.choosing() if self._chooses else iter(())
        confirming = self.confirming() if self.confirms else iter(())
        fed: list[Sample] = []

        def feeds() -> Iterator[Mapping[str, np.ndarray]]:
            for sample in self._job.feeds(itertools.chain(choosing, confirming, self.held_out())):
                fed.append(replace(sample, feeds={}))
                yield sample.feeds

        for place, found in enumerate(run_all(session, feeds())):
            if isinstance(found, ort.RunError) and fed[place].index not in self._bad:
                self.skip(fed[place], found)

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

    @property
    def images(self) -> tuple[ImagesRead, ...]:
        """How images become inputs: now, or when the statistics were taken."""
        if self.source is not None:
            return tuple(image.told() for image in self.source.images)
        read = self._given.stats if self._given is not None else None
        return () if read is None else read.origin.images

    def data(self) -> CalibrationData:
        """The data, for the report: how they were understood, now or when the statistics were taken."""
        seen, place = self._job.doubts(), self._job.place
        if place is not None and self.parts is not None and self.parts.held_indices is not None:
            place = replace(place, held_out=tuple(self.parts.held_indices))
        if self.source is not None:
            read = self.source.told()
            lines = (*read.lines, *(self.source.assumed if place is None else ()))
            return CalibrationData(
                lines, read.images, read.notes, seen.doubts, seen.looked_at, place, read.batch,
                read.skipped,
            )  # fmt: skip
        given = self._given.stats if self._given is not None else None
        lines = () if given is None else given.lines
        return CalibrationData(lines, self.images, (), seen.doubts, seen.looked_at, place)

    @property
    def few(self) -> str | None:
        """Which samples did two things, as there are too few; None where none did.

        Known when some chose, and where some are to confirm when these did.
        """
        if self.parts is None or (self.chose_apart and self.confirmed_apart):
            return None
        least = 8 if self.confirmed_apart else 16
        if not self.chose_apart and self.parts.shared:
            return noted("samples-shared.all", least=least)
        if self.chose_apart:
            return noted("samples-shared.confirmed", least=least)
        confirmed = "" if self.confirmed_apart else ", and confirmed it"
        return noted("samples-shared", confirmed=confirmed, least=least)

    @property
    def apart(self) -> bool:
        """Whether the samples that chose are others than those that calibrated; False until that is asked."""
        return self.uses.own.get("choose", False)

    @property
    def confirmed_apart(self) -> bool:
        """Whether those that confirmed are others than those that chose; True until that is asked."""
        return self.uses.own.get("confirm", True)

    @property
    def chose_apart(self) -> bool:
        """Whether the samples that chose did nothing else before; known when they did."""
        one = self.parts is not None and self.parts.shared and self.parts.chosen_with == 1
        return self.apart and not one

    def held_text(self, judged: int = 0) -> Reason:
        """What verified; `judged`: how many did, with those that judged what others fitted."""
        if self.parts is None:
            return reason("none")
        if self.parts.shared:
            return reason("shared")
        if (crossed := judged - (self.parts.held or 0)) > 0:
            return reason("crossed", held=self.parts.held, crossed=crossed)
        return reason("apart")


Use = Literal["calibrate", "fit", "choose", "confirm", "cross", "verify"]


@dataclass(frozen=True, slots=True)
class SampleUses:
    """What samples were read for, so far.

    Attributes:
        indices: those of the samples that were read for each use, of one that was read at all.
        own: whether there were samples for a use that nothing else has, of one that was asked for.
    """

    indices: dict[Use, set[int]] = field(default_factory=dict)
    own: dict[Use, bool] = field(default_factory=dict)

    def noted(self, use: Use, samples: Iterable[Sample], shared: Callable[[], bool]) -> Iterator[Sample]:
        """Samples that are read for a use, each noted as it is.

        Args:
            use: what they are read for.
            samples: they.
            shared: whether samples may both verify and decide, as there are too few.

        Raises:
            Fault: one of them does both all the same.
        """
        for sample in samples:
            self.indices.setdefault(use, set()).add(sample.index)
            uses = [known for known, indices in self.indices.items() if sample.index in indices]
            if "verify" in uses and len(uses) > 1 and not shared():
                both = " and to ".join(sorted(uses))
                raise Fault(f"{sample.where} was read to {both}: its figures would be too good")
            yield sample
