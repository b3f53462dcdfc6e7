"""Statistics for a file: one pass, in this process or several, that goes on after an interruption."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from onnxq.calib.collect import Request
from onnxq.calib.image_options import ImageOptions
from onnxq.calib.shards import Checkpoints, DataArguments, Work, gather, gather_with_workers, shard_of
from onnxq.calib.sources import Source
from onnxq.calib.split import chosen_indices
from onnxq.calib.stats_file import Origin, StatsFile, digest, is_statistics, merge_files, read, write
from onnxq.emit import files
from onnxq.errors import UserError
from onnxq.pipeline.calibration import Calibration, activations, prepare, unloadable
from onnxq.pipeline.job import DataSource, Job
from onnxq.run import ort


def take_statistics(
    job: Job,
    options: Calibration,
    source: Source,
    data: DataSource,
    images: ImageOptions | None,
    output: str | os.PathLike[str],
    shard: tuple[int, int],
    workers: int,
) -> StatsFile:
    """Takes statistics of a sanitized model and writes them; see `onnxq.calibrate`.

    Raises:
        UserError: the data or an argument cannot be used.
    """
    path = Path(output)
    is_path = isinstance(data, str | os.PathLike)
    if workers < 1:
        raise UserError(f"{workers} workers are too few", hint="give at least 1")
    if workers > 1 and not is_path:
        raise UserError(
            f"{workers} workers cannot read the data", hint="each has to open it itself: give a path"
        )
    every = chosen_indices(source, options.samples, options.seed)
    indices = shard_of(every, *shard)
    first = next(source.read(every))
    prepared = prepare(job, {name: array.shape for name, array in first.feeds.items()}, (), ())
    tensors = prepared.plan.measured
    if not job.target.explicit:
        tensors = tuple(dict.fromkeys((*tensors, *activations(job, prepared.plan))))
    if not prepared.reference.graph.output or not tensors:
        raise UserError(
            "there is nothing to calibrate: no tensor would be quantized, or no part of the model runs",
            hint="onnxq inspect MODEL says why its layers stay in float",
        )
    shapes = {name: array.shape for name, array in first.feeds.items()}
    described = source.to_json()["images"]
    origin = Origin(job.fingerprint(), options.counting, len(every), options.seed, shapes, described)
    (ready,) = job.feeds([first])
    request = Request(
        tensors, options.counting, samples=len(every), shapes=job.model.typical_shapes, first=ready
    )
    work = Work(
        prepared.reference, job.model.data_dir, request, origin, job.in_float32, options.skip_bad,
        threads=max(1, (os.cpu_count() or 1) // workers) if workers > 1 else 0,
    )  # fmt: skip
    with job.step("calibrate"):
        arguments = DataArguments(data, job.input_specs(), images, options.skip_bad)
        done = _gathered(job, work, source, arguments, indices, workers, path)
        write(done, path)
        Checkpoints(path).clear()
    return done


def merge_stats(
    parts: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str], *, force: bool = False
) -> StatsFile:
    """Merges the statistics of shards; in any order, they are those of one run.

    Args:
        parts: the files that `calibrate` wrote.
        output: the file to write.
        force: replace a file that holds no statistics.

    Returns:
        What was written.

    Raises:
        UserError: a file cannot be read or written, or they are of different models or data, or share
            a sample.
    """
    if not parts:
        raise UserError("there are no statistics to merge", hint="give the files of the shards")
    path = Path(output)
    check_output(path, None, force=force)
    done = merge_files([read(Path(part)) for part in parts])
    write(done, path)
    return done


def check_output(path: Path, model: Path | None, *, force: bool) -> None:
    """Refuses a path for statistics before any work is done; earlier ones are replaced.

    Raises:
        UserError: see `onnxq.emit.files.check_output`.
    """
    files.check_output(path, model, force=force or is_statistics(path), record=path)


def _is_of(before: StatsFile, source: Source) -> bool:
    """Whether statistics are of these data, as far as their first sample tells."""
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
) -> StatsFile:
    """The statistics of all samples of a shard: of those that were done before, and of the others."""
    checkpoints = Checkpoints(output)
    before = checkpoints.resume(work.origin, indices)
    if before is not None and not _is_of(before, source):
        checkpoints.clear()
        before = None
    known = set(before.stats.indices.tolist()) if before is not None else set()
    rest = [index for index in indices if index not in known]
    parts = [before] if before is not None else []

    def progress(done: int) -> None:
        job.observe("calibrate", len(known) + done, len(indices))

    if not rest:
        return merge_files(parts)
    try:
        if workers == 1:
            parts.append(gather(work, source, rest, keep=checkpoints.path(1), progress=progress))
        else:
            parts += gather_with_workers(work, data, rest, workers, checkpoints, progress)
    except ort.RunError as error:
        raise unloadable(error) from error
    return merge_files(parts)
