"""From samples, or what the user gives in their place, to the ranges of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import noted, reason
from onnxq.calib.stats import Stats, TensorStats, merge
from onnxq.data.samples import Sample
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.pipeline.calibration import (
    Calibrating,
    Given,
    Prepared,
    activations,
    measure,
    stated_by,
)
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range, Ranges, bounded

_OF_IMAGES = reason("fixed.images", "user")


class Ranging:
    """Statistics and ranges, for one prepared model.

    Attributes:
        prepared: the plan and the model without pairs.
    """

    def __init__(
        self,
        job: Job,
        options: Calibrating,
        sampling: Sampling,
        given: Given | None,
        prepared: Prepared,
        bounded: Sequence[str] = (),
        *,
        halved: bool = False,
        halves: tuple[Stats, ...] = (),
    ) -> None:
        """What there is to take them from: samples, statistics or a cache that is given, or both.

        `bounded` are further tensors of which the ends are enough, and nothing if there are no samples;
        `halved`: whether halves of the samples are taken apart, where each is to judge the other's ranges;
        `halves`: what is known of them.
        """
        self._job, self._options, self._sampling, self._given = job, options, sampling, given
        self.prepared, self._bounded = prepared, bounded
        self._halved, self._halves = halved, halves

    def statistics(self, *, cache: bool) -> Stats:
        """The statistics of what the plan names: given, else measured.

        Args:
            cache: whether those of all activations are wanted, for a calibration cache.

        Raises:
            UserError: they are neither given nor can they be measured.
        """
        given, prepared, plan = self._given, self.prepared, self.prepared.draft.plan
        held = Stats({}, np.zeros(0, np.int64))
        if given is not None and given.stats is not None:
            held = given.stats.stats
        wanted = prepared.measured
        if cache:
            wanted = tuple(dict.fromkeys((*wanted, *activations(plan, prepared.floats))))
        stated = {*self._stated(plan), *(n for n, rule in prepared.layers.items() if rule.amax is not None)}
        missing = [name for name in wanted if name not in held.tensors and name not in stated]
        if self._sampling.source is None:
            fixed = self._fixed(prepared.measured)
            self._refuse([name for name in missing if name in prepared.measured and name not in fixed])
            return held
        parts = self._sampling.parts
        again = parts is not None and parts.used is not None  # not an iterator
        ends = [name for name in self._bounded if name not in held.tensors and name not in missing]
        if not missing and not ends and (held.tensors or (stated and again)):
            return held
        measured = self._measured(missing, ends)
        return replace(measured, tensors={**held.tensors, **measured.tensors}) if held.tensors else measured

    def without(self, empty: Sequence[str], samples: int) -> Ranging:
        """The same with what reads tensors without values in float, which is noted.

        Raises:
            UserError: nothing is left to be quantized.
        """
        before, prepared = self.prepared.draft, self.prepared.without(empty)
        if not empty or prepared.draft.plan == before.plan:
            return self
        more = f" (and {len(empty) - 1} more)" if empty[1:] else ""
        if before.plan.planned and not prepared.draft.plan.planned:
            hint = "give samples that exercise this part of the model, or keep it in float"
            raise UserError(noted("empty-tensor", tensor=empty[0], more=more, samples=samples), hint=hint)
        self._job.notes.append(noted("empty-tensor.float", tensor=empty[0], more=more, samples=samples))
        return Ranging(
            self._job, self._options, self._sampling, self._given, prepared, self._bounded,
            halved=self._halved, halves=self._halves,
        )  # fmt: skip

    def ranges(self, stats: Stats) -> Ranges:
        """The range of each tensor, by any method."""
        plan = self.prepared.draft.plan
        fixed = self._fixed({*plan.measured, *stats.tensors})

        def of(tensors: Mapping[str, TensorStats], halves: tuple[Ranges, ...] = ()) -> Ranges:
            stated, layers = self._stated(plan), self.prepared.layers
            return Ranges(plan, tensors, stated, fixed, layers, self._options.parameters, halves)

        met = ({name: one for name, one in half.tensors.items() if one.size} for half in self._halves)
        return of(stats.tensors, tuple(of({**stats.tensors, **half}) for half in met))

    def _refuse(self, missing: Sequence[str]) -> None:
        """Refuses to go on without data, if tensors are missing."""
        if missing and self._given is None:
            who, where = "the plan has no amax", ", or write an amax into the plan"
            if self._job.repairs.pairs == "adopt":
                who, where = "the file has no pair", ""
            raise UserError(
                f"{who} of tensor {missing[0]!r} ({len(missing)} of those that are quantized "
                "have none), and there is no data to measure it with",
                hint=f"give --calib DATA or --stats FILE{where}",
            )
        if missing:
            assert self._given is not None
            kind = "scale" if self._given.cache is not None else "statistics"
            raise UserError(
                f"{str(self._given.path)!r} has no {kind} of tensor {missing[0]!r} "
                f"({len(missing)} of those that the plan quantizes are missing)",
                hint="give the data as well, --calib DATA: what is missing is measured, and nothing else",
            )

    def of_half(self) -> Stats:
        """The statistics of what the plan names over half of the samples that calibrated."""
        if self._halves:
            return self._halves[0]
        assert self._sampling.parts is not None
        half = len(self._sampling.parts.calibrating) // 2
        return self._taken(self.prepared.measured, (), self._sampling.fitting(half))

    def _measured(self, tensors: Sequence[str], bounded: Sequence[str]) -> Stats:
        """The statistics of tensors over the samples that calibrate; of others, the ends."""
        sampling, options = self._sampling, self._options
        assert sampling.parts is not None
        large = weight_bytes(self.prepared.floats.reference) >= LARGE  # it takes long to load it twice
        by_halves = self._halved and options.chooses and self._given is None and not large
        if not by_halves or not sampling.parts.halves:
            return self._taken(tensors, bounded, sampling.calibrating())
        one = self._taken(tensors, bounded, sampling.calibrating_half(0))
        other = self._taken(tensors, bounded, sampling.calibrating_half(1), done=one.samples)
        self._halves = one, other
        sampling.halve()
        return merge(self._halves)

    def _taken(
        self, tensors: Sequence[str], bounded: Sequence[str], samples: Iterator[Sample], *, done: int = 0
    ) -> Stats:
        sampling = self._sampling
        assert sampling.parts is not None
        assert sampling.first is not None
        return measure(
            self._job,
            self.prepared,
            tensors,
            bounded,
            self._options.counting,
            samples,
            sampling.first,
            sampling.parts.used,
            sampling.skip if self._options.skip_bad else None,
            done=done,
        )

    def _stated(self, plan: QuantPlan) -> dict[str, Range]:
        of_cache = stated_by(self._given.cache if self._given is not None else None, plan)
        return {**of_cache, **self.prepared.draft.ranges}

    def _fixed(self, tensors: Iterable[str]) -> dict[str, Range]:
        """The ranges that are known without data."""
        names = set(tensors)
        fixed = bounded(self.prepared.floats.model, names)
        for image in self._sampling.images:
            low, high = image.range
            if image.input in names:
                fixed[image.input] = Range(max(-low, high), _OF_IMAGES)
        return fixed
