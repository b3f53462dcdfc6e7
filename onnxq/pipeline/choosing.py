"""Inserting the pairs: with the scales of the method, or with those that the outputs choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.errors import Fault
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.pipeline.calibration import Calibrating, Prepared
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.choice import AUTO, SEARCH, Choice, choose
from onnxq.quant.insert import Inserted, insert, set_scales
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.patches import Patches
from onnxq.quant.ranges import Range, Ranges, scales_of
from onnxq.run import noise
from onnxq.run.compare import Recording, Reference

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
    """

    model: Model
    proto: onnx.ModelProto
    ranges: dict[str, Range]
    scales: dict[int, np.float32]
    choice: Choice | None = None


def quantized(
    job: Job,
    options: Calibrating,
    sampling: Sampling,
    prepared: Prepared,
    ranges: Ranges,
    floats: Reference | None,
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
        inserted = insert(job.model, plan, scales, Patches(amax=prepared.weights))
        prepared.notes += _widened(inserted)
        proto = inserted.model.to_proto(handover=True)
    free = any(ranges.is_free(name) for name in plan.measured)
    if not options.chooses or not inserted.scales or not free:
        return Quantized(inserted.model, proto, found, scales)
    with job.step("choose"):
        choice = _choice(job, options, sampling, prepared, inserted, proto, ranges, floats)
    scales = scales_of(plan, choice.ranges)
    set_scales(proto, inserted.scales, scales)
    return Quantized(inserted.model, proto, choice.ranges, scales, choice)


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
    floats: Reference | None,
) -> Choice:
    """What the outputs choose on samples that calibration did not see."""
    default = options.default
    if floats is None or sampling.parts is None:
        return Choice(default, ranges.all(default), why="there was no data to choose with")
    part = job.runnable(job.part(proto)[0])
    measuring = MeasuringCopy(
        inserted,
        prepared.plan,
        part,
        prepared.reference,
        data_dir=job.model.data_dir,
        in_float32=job.in_float32,
        pieces=1 if speaks_half(part) else _PIECES,
    )

    def samples() -> Iterator[Mapping[str, np.ndarray]]:
        if isinstance(floats, Recording):
            floats.rewind()
        return sampling.feeds(sampling.watched("choose", sampling.choosing(), None))

    def tried(feeds: Iterable[Any], scales: Sequence[Mapping[int, np.float32]]) -> noise.Noise:
        return noise.measure(floats, measuring, feeds, [Candidate(scales=one) for one in scales])

    methods = SEARCH if options.search else AUTO
    try:
        with sampling.named():
            choice = choose(ranges, methods, samples, tried, prior=default, refine=not options.search)
    except Fault as fault:  # the file is tried as a whole when it is verified
        why = f"the candidates could not be measured: {fault}"
        return Choice(default, ranges.all(default), why=why)
    if not choice.why and (sampling.parts.shared or not sampling.apart):
        choice.why = "there are too few samples to keep some apart: those that calibrated chose"
    return choice
