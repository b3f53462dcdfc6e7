"""Statistics for a file: one pass, in this process or several, that goes on after an interruption."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from onnxq.base.errors import UserError
from onnxq.base.executors import Submit
from onnxq.base.process import cores
from onnxq.base.reason import noted
from onnxq.calib.collect import Request
from onnxq.calib.shards import (
    Checkpoints,
    DataArguments,
    Work,
    check_division,
    gather,
    gather_from,
    gather_with_executor,
    gather_with_workers,
    shard_of,
)
from onnxq.calib.stats_file import (
    Origin,
    StatsFile,
    is_statistics,
    merge_files,
    read,
    sizes_of,
    write,
)
from onnxq.calib.trt_cache import is_cache
from onnxq.data.samples import Sample, digest
from onnxq.data.sources import DataSource, Source
from onnxq.data.split import Split, split
from onnxq.emit import files
from onnxq.options.flag_words import tells_keywords
from onnxq.options.settings import Division, Format, ImageOptions
from onnxq.pipeline.body import body_of, bounded
from onnxq.pipeline.calibration import Calibrating, activations, prepare, unloadable
from onnxq.pipeline.deploying import deploy
from onnxq.pipeline.job import Job
from onnxq.run import ort
from onnxq.run.deployments import main_of


def take_statistics(
    job: Job,
    options: Calibrating,
    source: Source,
    data: DataSource,
    images: ImageOptions | None,
    output: str | os.PathLike[str],
    division: Division,
    submit: Submit | None = None,
) -> StatsFile:
    """Takes statistics of a sanitized model and writes them; see `onnxq.calibrate`.

    Raises:
        UserError: the data or an argument cannot be used.
    """
    path = Path(output)
    shard, workers = division.shard, division.workers
    check_division(shard, workers)
    if source.count is None:
        _check_undivided(shard, workers)
        if submit is not None:
            raise UserError(
                "an executor cannot take data that can be read only once",
                hint="give a path, or a list of arrays",
            )
        done = _of_stream(job, options, source)
    else:
        if submit is None and workers > 1 and not isinstance(data, str | os.PathLike):
            raise UserError(
                f"{workers} workers cannot read the data", hint="each has to open it itself: give a path"
            )
        parts = split(source, options.samples, options.seed, choose=True)
        indices = shard_of(parts.calibrating, *shard)
        work = _work(job, options, source, parts, next(source.read(parts.calibrating)), workers)
        arguments = DataArguments(data, job.input_specs(), images, options.skip_bad)
        done = _gathered(job, work, source, arguments, indices, workers, path, submit)
        left_out = sorted({*indices}.difference(done.stats.indices.tolist()))
        done = replace(done, left_out=tuple(left_out))
    if done.skipped and not done.stats.samples:
        Checkpoints(path).clear()
        where, why = done.skipped[0]
        reason = why if where in why else f"{where}: {why}"
        raise UserError(f"there is no good sample; the first bad one: {reason}", hint="check the data")
    write(done, path)
    Checkpoints(path).clear()
    return replace(done, doubts=job.doubts(source.count))


def _check_undivided(shard: tuple[int, int], workers: int) -> None:
    """Refuses to divide data that can be read only once.

    Raises:
        UserError: they were to be divided.
    """
    for flag, value, divides in (
        ("--shard", f"{shard[0]}/{shard[1]}", shard[1] > 1),
        ("--workers", str(workers), workers > 1),
    ):
        if divides:
            raise UserError(
                f"{flag} {value} cannot divide the data: a script or an iterator can be read only once, from "
                "its start to its end",
                hint=f"leave {flag} out, or give a path or a list of arrays",
            )


def _of_stream(job: Job, options: Calibrating, source: Source) -> StatsFile:
    """Statistics of data that can be read only once, in one go."""
    parts = split(source, options.samples, options.seed, choose=True)
    samples = parts.calibration()
    first = next(samples)
    work = _work(job, options, source, parts, first, 1)
    taken = 0

    def counted(samples: Iterable[Sample]) -> Iterator[Sample]:
        nonlocal taken
        for sample in samples:
            taken += 1
            yield sample

    def progress(done: int) -> None:
        job.observe("calibrate", done, None)

    try:
        with job.step("calibrate"):
            done = gather_from(work, source, counted(itertools.chain([first], samples)), progress=progress)
    except ort.RunError as error:
        raise unloadable(error, job.model) from error
    return replace(done, origin=replace(done.origin, samples=taken))


def _work(job: Job, options: Calibrating, source: Source, parts: Split, first: Sample, workers: int) -> Work:
    """The pass.

    Args:
        job: of a sanitized model.
        options: how it is calibrated.
        source: the data.
        parts: which samples are for what, those of all shards.
        first: the first of those that calibrate.
        workers: how many processes take part.

    Raises:
        UserError: there is nothing to calibrate.
    """
    deployed = deploy(job, source, parts, first)
    shapes = main_of(deployed.deployments).usual
    prepared = prepare(job, deployed.deployments, Format(), (), body_of(job, Format(), None))
    tensors, floats = prepared.draft.plan.measured, prepared.floats
    computed = floats.computed
    ends = [name for name in bounded(prepared) if name in computed]
    if not job.target.explicit:
        tensors = tuple(dict.fromkeys((*tensors, *activations(prepared.draft.plan, floats))))
    if not floats.runs or not tensors:
        raise UserError(
            "there is nothing to calibrate: no tensor would be quantized, or no part of the model runs",
            hint="onnxq inspect MODEL says why its layers stay in float",
        )
    described = tuple(image.told() for image in source.images)
    every = tuple(sorted(parts.calibrating))
    origin = Origin(
        job.fingerprint(), options.counting, len(every), source.count, options.seed, shapes, described, every,
        sizes_of(deployed.seen.values()),
    )  # fmt: skip
    (ready,) = job.feeds([first])
    request = Request(
        tensors,
        options.counting,
        ends,
        samples=len(every) or None,
        shapes=job.model.typical_shapes,
        first=ready,
    )
    return Work(
        floats.reference, job.model.data_dir, request, origin, job.in_float32, options.skip_bad,
        threads=max(1, cores() // workers) if workers > 1 else 0,
    )  # fmt: skip


@tells_keywords
def merge_stats(
    parts: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str], *, force: bool = False
) -> StatsFile:
    """Merges the statistics of shards; in any order, they are those of one run.

    Args:
        parts: the files that `calibrate` wrote.
        output: the file to write.
        force: replace a file that holds no statistics.

    Returns:
        What was written; its `missing` are the samples of shards that are still to come.

    Raises:
        UserError: a file cannot be read or written, or they are of different models or data, or share
            a sample.
    """
    if not parts:
        raise UserError("there are no statistics to merge", hint="give the files of the shards")
    path, inputs = Path(output), [Path(part) for part in parts]
    for part in inputs:
        if os.path.exists(path) and os.path.exists(part) and path.samefile(part):
            raise UserError(
                f"the output {str(path)!r} is one of the files to merge", hint="give another path with -o"
            )
        if is_cache(part):
            raise UserError(
                f"{str(part)!r} is a calibration cache: it holds scales, which cannot be merged", hint=_MERGED
            )
    _check_file(path, None, force=force)
    done = merge_files([read(part, hint=_MERGED) for part in inputs])
    write(done, path)
    return done


_MERGED = "give files that `onnxq calibrate` wrote"


def check_output(path: Path, model: Path | None, *, force: bool) -> None:
    """Refuses a path for statistics before any work is done; earlier ones are replaced.

    Raises:
        UserError: see `onnxq.emit.files.check_output`; or files of the user's are where an interrupted run
            keeps what it did.
    """
    _check_file(path, model, force=force)
    Checkpoints(path).check()


def _check_file(path: Path, model: Path | None, *, force: bool) -> None:
    files.check_output(path, model, force=force or is_statistics(path), record=path)


def _is_of(before: StatsFile, source: Source) -> bool:
    """Whether statistics are of these data, as far as their first sample tells."""
    if not before.stats.samples:
        return False
    first = next(source.good([int(before.stats.indices[0])]), None)
    return first is not None and digest(first) == before.digests[0].tobytes()


def _gathered(
    job: Job,
    work: Work,
    source: Source,
    data: DataArguments,
    indices: Sequence[int],
    workers: int,
    output: Path,
    submit: Submit | None,
) -> StatsFile:
    """The statistics of all samples of a shard: of those that were done before, and of the others."""
    checkpoints = Checkpoints(output)
    before = checkpoints.resume(work.origin, indices)
    if before is not None and not _is_of(before, source):
        checkpoints.clear()
        before = None
    if before is not None:
        job.observe(noted("going-on", samples=before.stats.samples), None, None)
    held = set(before.stats.indices.tolist()) if before is not None else set()
    rest = [index for index in indices if index not in held]
    parts = [before] if before is not None else []

    def progress(done: int) -> None:
        job.observe("calibrate", len(held) + done, len(indices))

    if not indices:  # there are more shards than samples
        return gather(work, source, indices)
    if not rest:
        return merge_files(parts)
    try:
        with job.step("calibrate"):
            if submit is not None:
                parts.append(gather_with_executor(work, source, rest, submit, checkpoints.path(1), progress))
            elif workers == 1:
                parts.append(gather(work, source, rest, keep=checkpoints.path(1), progress=progress))
            else:
                parts += gather_with_workers(work, data, rest, workers, checkpoints, progress)
    except ort.RunError as error:
        raise unloadable(error, job.model) from error
    return merge_files(parts)
