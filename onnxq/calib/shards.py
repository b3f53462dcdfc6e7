"""One calibration pass in pieces: over worker processes, over machines, over interruptions.

Statistics merge to the same bits in any order, so that a pass that goes on after an interruption, one
by several processes and the merged shards of a scheduler are the same as one run.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq import interrupts
from onnxq.calib.collect import NoSamples, Request, Watch, collect
from onnxq.calib.image_options import ImageOptions
from onnxq.calib.samples import InputSpec, Sample, as_float32
from onnxq.calib.sources import Source, open_source
from onnxq.calib.stats import Stats
from onnxq.calib.stats_file import Digests, Origin, StatsFile, is_statistics, merge_files, read, write
from onnxq.errors import Fault, OnnxqError, UserError
from onnxq.heap import steady_heap
from onnxq.run import ort


@dataclass(frozen=True, slots=True)
class Work:
    """A calibration pass, as every process that takes part in it knows it.

    Attributes:
        model: the float model, as onnxruntime runs it.
        data_dir: the folder of its external data.
        request: which statistics.
        origin: what they are taken of.
        in_float32: whether samples are converted to float32.
        skip_bad: whether bad samples are left out.
        threads: onnxruntime's threads inside an operator, 0 for all cores.
    """

    model: onnx.ModelProto
    data_dir: Path | None
    request: Request
    origin: Origin
    in_float32: bool = False
    skip_bad: bool = False
    threads: int = 0


@dataclass(frozen=True, slots=True)
class DataArguments:
    """What a worker opens the data with, see `open_source`."""

    data: Any
    inputs: Sequence[InputSpec]
    images: ImageOptions | None
    skip_bad: bool


class Checkpoints:
    """Statistics of a pass that is not at its end, in files beside its output."""

    def __init__(self, output: Path) -> None:
        """Those of the pass that writes this file."""
        self._output = output

    def path(self, worker: int) -> Path:
        """The file of a worker; 0: of what was done before."""
        return self._output.with_name(f"{self._output.name}.part-{worker}")

    def check(self) -> None:
        """Refuses files of the user's in their place.

        Raises:
            UserError: there is one.
        """
        for path in self._paths():
            if not is_statistics(path):
                raise UserError(
                    f"{str(path)!r} is in the way, and onnxq did not write it: what is done of a run that is "
                    "interrupted goes there",
                    hint="give it another name, or write the statistics to another path with -o",
                )

    def samples(self) -> int:
        """How many samples they hold."""
        return len({index for path in self._paths() for index in read(path).stats.indices.tolist()})

    def resume(self, origin: Origin, indices: Collection[int]) -> StatsFile | None:
        """What was done of these samples before an interruption; parts of anything else are removed.

        Raises:
            UserError: one of the files holds no statistics.
        """
        parts: list[StatsFile] = []
        rest = set(indices)
        for path in self._paths():
            part = read(path)
            done = set(part.stats.indices.tolist())
            if part.origin == origin and done <= rest:  # not those that are in file 0 already
                parts.append(part)
                rest -= done
        before = merge_files(parts) if parts else None
        if before is not None:
            write(before, self.path(0))
        for path in self._paths():
            if before is None or path != self.path(0):
                path.unlink()
        return before

    def clear(self) -> None:
        """Removes them, when the pass is done."""
        for path in self._paths():
            path.unlink()

    def _paths(self) -> list[Path]:
        name = re.compile(re.escape(self._output.name) + r"\.part-[0-9]+")
        return sorted(path for path in self._output.parent.iterdir() if name.fullmatch(path.name))


def gather(
    work: Work,
    source: Source,
    indices: Sequence[int],
    *,
    keep: Path | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> StatsFile:
    """The statistics of some samples, in this process.

    Args:
        work: the pass.
        source: the data.
        indices: the samples, ascending.
        keep: a file for what is done so far.
        progress: hears how many samples are done.

    Returns:
        The statistics; of no samples where all are bad and left out.

    Raises:
        UserError: as `collect`.
    """
    done = gather_from(work, source, source.good(indices), keep=keep, progress=progress)
    if keep is not None:
        write(done, keep)
    return done


def gather_from(
    work: Work,
    source: Source,
    samples: Iterable[Sample],
    *,
    keep: Path | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> StatsFile:
    """As `gather`, of samples of a source that may be had only once."""
    digests = Digests()

    def skip(sample: Sample, error: UserError) -> None:
        source.skip(sample.where, str(error))

    def file_of(stats: Stats) -> StatsFile:
        skipped = tuple(sorted(source.skipped))
        return StatsFile(stats, work.origin, digests.of(stats.indices), tuple(source.lines), skipped)

    def store(stats: Stats) -> None:
        if keep is not None:
            write(file_of(stats), keep)

    watch = Watch(progress, skip if work.skip_bad else None, store if keep is not None else None)
    samples = digests.watch(samples)
    if work.in_float32:
        samples = as_float32(samples)
    try:
        stats = collect(
            work.model, work.request, samples, data_dir=work.data_dir, threads=work.threads, watch=watch
        )
    except NoSamples:
        stats = Stats({}, np.zeros(0, np.int64))
    return file_of(stats)


def gather_with_workers(
    work: Work,
    data: DataArguments,
    indices: Sequence[int],
    workers: int,
    checkpoints: Checkpoints,
    progress: Callable[[int], None],
) -> list[StatsFile]:
    """The statistics of some samples, in several processes.

    Args:
        work: the pass.
        data: what each process opens the data with: a path.
        indices: the samples, ascending.
        workers: how many processes.
        checkpoints: where each process keeps what it does.
        progress: hears how many samples are done.

    Raises:
        UserError: as `collect`, in any of them.
    """
    context = multiprocessing.get_context("spawn")
    running: dict[Connection, Any] = {}
    done = dict.fromkeys(range(workers), 0)
    try:
        for number in range(workers):
            share = indices[number::workers]
            if not share:
                continue
            ours, theirs = context.Pipe(duplex=False)
            keep = checkpoints.path(number + 1)
            arguments = (theirs, work, data, share, keep, ort.custom_libraries(), number)
            process = context.Process(target=_work, args=arguments)
            with interrupts.kept_from_children():  # from their start: they import for a second
                process.start()
            theirs.close()
            running[ours] = process
        paths = [checkpoints.path(number + 1) for number in range(len(running))]
        _follow(running, done, progress)
    finally:
        with interrupts.held_back():
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.join(10)
    return [read(path) for path in paths]


def _follow(running: dict[Connection, Any], done: dict[int, int], progress: Callable[[int], None]) -> None:
    """Waits for the workers, and passes on what they say.

    Raises:
        UserError: one of them met it.
    """
    while running:
        for connection in wait_for(list(running)):
            assert isinstance(connection, Connection)
            try:
                number, news = connection.recv()
            except EOFError:
                process = running.pop(connection)
                process.join()
                if process.exitcode:
                    raise Fault(
                        f"a calibration worker ended with code {process.exitcode}",
                        hint="it may have run out of memory: take fewer --workers; what was done is kept",
                    ) from None
                continue
            if isinstance(news, OnnxqError):
                raise news
            done[number] = news
            progress(sum(done.values()))


def _work(
    pipe: Connection,
    work: Work,
    data: DataArguments,
    indices: Sequence[int],
    keep: Path,
    libraries: Sequence[str],
    number: int,
) -> None:
    """A worker process."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is done is being kept
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    signal.signal(signal.SIGTERM, stop)
    steady_heap()
    last = 0.0

    def progress(done: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1 or done == len(indices):
            pipe.send((number, done))
            last = time.monotonic()

    with contextlib.suppress(KeyboardInterrupt):
        try:
            with ort.custom_ops(libraries):
                source = open_source(data.data, data.inputs, options=data.images, skip_bad=data.skip_bad)
                gather(work, source, indices, keep=keep, progress=progress)
        except OnnxqError as error:
            pipe.send((number, error))
    pipe.close()


def check_division(shard: tuple[int, int], workers: int) -> None:
    """Refuses numbers of shards and workers that make no sense.

    Raises:
        UserError: there is no such shard, or no worker.
    """
    number, count = shard
    if count < 1:
        raise UserError(f"there is no shard {number}/{count}", hint="the form is I/N, as in 1/4")
    if not 1 <= number <= count:
        raise UserError(f"there is no shard {number}/{count}", hint=f"they are 1/{count} to {count}/{count}")
    if workers < 1:
        raise UserError(f"{workers} workers are too few", hint="give at least 1")


def shard_of(indices: Sequence[int], number: int, count: int) -> list[int]:
    """The samples of shard `number` of `count`, from 1.

    Raises:
        UserError: it has no samples.
    """
    found = list(indices[number - 1 :: count])
    if not found:
        raise UserError(
            f"shard {number}/{count} has no samples: there are {len(indices)}", hint="take fewer shards"
        )
    return found
