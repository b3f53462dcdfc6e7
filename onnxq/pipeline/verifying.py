"""The float model beside the quantized one: what it gives, and how near the other is to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import onnx

from onnxq.base.errors import Fault
from onnxq.body.emulate import Emulated
from onnxq.data.samples import Sample
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.pipeline.calibration import Calibrating, unloadable
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.run import ort
from onnxq.run.compare import Meter, OutputAccuracy, Recording, Runner, compare_models, record_all
from onnxq.run.finding_parts import LOOKS, find_parts
from onnxq.run.in_parts import Runs, load


@dataclass(frozen=True, slots=True)
class References:
    """What the float model gives for samples.

    Attributes:
        choosing: for those that choose; None: they did not run on any yet.
        confirming: for those that confirm; None: none do.
        verifying: for those that verify; None: there are none.
    """

    choosing: Recording | None = None
    confirming: Recording | None = None
    verifying: Recording | None = None


def references(
    job: Job, options: Calibrating, sampling: Sampling, reference: onnx.ModelProto, *, confirms: bool
) -> tuple[Job, References]:
    """The job that knows the parts of outputs, and the float model for three kinds of samples.

    It confirms where `confirms` is set. It is run once on
    each sample, those of a large one now: it is not in memory beside the quantized one. What they give says
    in which parts outputs are judged.

    Raises:
        UserError: it does not load, or does not run on a sample.
    """
    if not reference.graph.output or sampling.parts is None:
        return job, References()

    try:
        session = load(reference, data_dir=job.model.data_dir)
    except ort.RunError as error:
        raise unloadable(error, job.model) from error
    if options.skip_bad:
        sampling.leave_out_bad(session)
    sampling.check_sizes(session)
    expected, choosing = recording(job, reference), recording(job, reference, session)
    confirming = recording(job, reference) if confirms else None
    del session
    if weight_bytes(reference) >= LARGE:
        kinds = [
            (choosing, sampling.comparing if options.chooses else lambda: islice(sampling.choosing(), LOOKS))
        ]
        kinds += [(confirming, sampling.confirming)] if confirming is not None else []
        _record(job, sampling, reference, [*kinds, (expected, sampling.held_out)])
    with sampling.named():
        parts = find_parts(job.model, choosing, sampling.feeds(sampling.choosing()), job.runnable)
    job = replace(job, parts=parts)
    choosing.rewind()
    large = weight_bytes(reference) >= LARGE
    return job, References(choosing if options.chooses or not large else None, confirming, expected)


def _record(
    job: Job,
    sampling: Sampling,
    reference: onnx.ModelProto,
    kinds: Sequence[tuple[Recording, Callable[[], Iterable[Sample]]]],
) -> None:
    """Runs a large model for several kinds of samples, all in one go.

    Raises:
        UserError: it does not run on a sample.
    """
    session = load(reference, data_dir=job.model.data_dir)
    with sampling.named():
        try:
            record_all(session, [(one, sampling.feeds(samples())) for one, samples in kinds])
        except ort.RunError:
            for _, samples in kinds:  # one by one: which it is
                for feeds in sampling.feeds(samples()):
                    session.run(feeds)
            raise


def recording(job: Job, reference: onnx.ModelProto, session: Runs | None = None) -> Recording:
    """What a float model is to be run for, once a sample; `session`: the same, open."""
    outputs = [info.name for info in reference.graph.output]
    return Recording(lambda: load(reference, data_dir=job.model.data_dir), outputs, session)


BODY_SAMPLES = 8
"""On how many samples the body alone is compared."""


def recorded(job: Job, sampling: Sampling, reference: onnx.ModelProto) -> Recording:
    """What the model gives that the body alone is held against: run now, so not in memory beside that.

    Raises:
        UserError: it does not run on a sample.
    """
    found = recording(job, reference)
    with sampling.named():
        found.record(islice(sampling.feeds(sampling.held_out()), BODY_SAMPLES))
    return found


def verify(
    job: Job,
    sampling: Sampling,
    proto: onnx.ModelProto,
    expected: Recording | None,
    *,
    emulate: bool = False,
    most: int | None = None,
    meters: Sequence[Meter] = (),
    confirms: bool = False,
    crossed: Sequence[Crossing] = (),
) -> list[OutputAccuracy]:
    """Compares the outputs of the quantized model with those of the float one, on samples held out.

    Args:
        job: of the float model.
        sampling: gives the samples.
        proto: the model to compare.
        expected: the float model; None: there is nothing to compare with.
        emulate: whether half precision is rounded after every node, see `onnxq.body.emulate`.
        most: how many samples at most.
        meters: hear the outputs of each sample as well.
        confirms: whether it is compared on the samples that confirm a choice instead.
        crossed: the same model as some samples fitted it, which others judge: these count as well.

    Raises:
        UserError: it does not run on a sample.
        Fault: it does not load.
    """
    if expected is None:
        return []
    with job.step("confirm" if confirms else "verify"):
        expected.rewind()
        candidate = _InTurn(runner(job, proto, emulate=emulate))

        def samples() -> Iterator[Mapping[str, np.ndarray]]:
            held = sampling.confirming() if confirms else sampling.held_out()
            yield from islice(sampling.feeds(held), most)
            for other, indices in crossed:
                candidate.runner = runner(job, other, emulate=emulate)
                yield from sampling.feeds(sampling.crossing(indices))

        with sampling.named():
            parts = job.parts_of(expected.outputs)
            outputs = compare_models(expected, candidate, samples(), meters=meters, parts=parts)
        expected.rewind()
        return outputs


class Crossing(NamedTuple):
    """A model as some samples fitted it.

    Attributes:
        proto: the model.
        indices: samples that did not fit it.
    """

    proto: onnx.ModelProto
    indices: Sequence[int]


class _InTurn:
    """Models of the same inputs and outputs, one after another.

    Attributes:
        inputs: their names.
        outputs: likewise.
        runner: the one whose turn it is.
    """

    def __init__(self, runner: Runner) -> None:
        self.inputs, self.outputs, self.runner = runner.inputs, runner.outputs, runner

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """What that one gives."""
        return self.runner.run(feeds, outputs)


def runner(job: Job, proto: onnx.ModelProto, *, emulate: bool) -> Runner:
    """What runs a quantized model; see `verify`.

    Raises:
        Fault: it does not load.
    """
    part = job.runnable(job.part(proto)[0])
    with loading():
        load = Emulated if emulate else ort.load
        return load(part, data_dir=job.model.data_dir)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Turns a failure to load the quantized model into a fault."""
    try:
        yield
    except ort.RunError as error:
        raise Fault(f"onnxruntime does not load the quantized model: {error}") from error
