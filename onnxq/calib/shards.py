"""One calibration pass in pieces: over worker processes, over machines, over interruptions.

Statistics merge to the same bits in any order, so that a pass that goes on after an interruption, one
by several processes and the merged shards of a scheduler are the same as one run.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import pickle
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Protocol

import onnx

from onnxq.base import children, interrupts
from onnxq.base.errors import Fault, OnnxqError, UserError
from onnxq.base.executors import Parcel, Submit, submitted
from onnxq.calib.collect import NoSamples, Request, Watch, collect
from onnxq.calib.stats import Stats
from onnxq.calib.stats_file import Digests, Origin, StatsFile, is_statistics, merge_files, read, write
from onnxq.data.samples import InputSpec, Sample, as_float32
from onnxq.data.sources import Source, open_source
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.external import externalize
from onnxq.graph.load import tensors
from onnxq.options.settings import ImageOptions, Runtime
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
        indices: the samples.
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
    source: Telling,
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
        return StatsFile(
            stats, work.origin, digests.of(stats.indices), (*source.lines, *source.assumed), skipped
        )

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
        stats = Stats()
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
        indices: the samples.
        workers: how many processes.
        checkpoints: where each process keeps what it does.
        progress: hears how many samples are done.

    Raises:
        UserError: as `collect`, in any of them; or one of them does not begin, or is killed.
    """
    shares = [share for number in range(workers) if (share := indices[number::workers])]
    with interrupts.Folder() as name, _Workers() as started:
        _hand_over(work, Path(name))
        Path(name, "shares").write_bytes(pickle.dumps(_Shares(data, shares, checkpoints)))
        for number in range(len(shares)):
            started.start(Path(name), number)
        started.follow(progress)
    return [read(checkpoints.path(number + 1)) for number in range(len(shares))]


def gather_with_executor(
    work: Work,
    source: Source,
    indices: Sequence[int],
    submit: Submit,
    keep: Path,
    progress: Callable[[int], None],
) -> StatsFile:
    """The statistics of some samples, which are read here and run elsewhere.

    Args:
        work: the pass.
        source: the data.
        indices: the samples.
        submit: gives tasks away, each of a few samples, with the model.
        keep: a file for what is done so far.
        progress: hears how many samples are done.

    Raises:
        UserError: as `collect`, in any of them; or the executor loses a task time and again.
    """
    done, taken, kept_at = gather(work, source, ()), 0, time.monotonic()

    def told() -> StatsFile:
        """With what the source tells here."""
        return replace(done, lines=(*source.lines, *source.assumed), skipped=tuple(sorted(source.skipped)))

    with interrupts.Folder() as name:
        _hand_over(work, Path(name), travels=True)
        parcel = Parcel.of(Path(name))
        samples = source.good(indices)
        blocks = iter(lambda: list(itertools.islice(samples, _BLOCK)), [])
        tasks = ((len(some), (parcel, some)) for some in blocks)
        try:
            for count, part in submitted(submit, _gather_elsewhere, tasks, StatsFile):
                for where, why in part.skipped:
                    source.skip(where, why)
                done, taken = merge_files([done, part]), taken + count
                progress(taken)
                if time.monotonic() - kept_at > _KEPT_EACH:
                    write(told(), keep)
                    kept_at = time.monotonic()
        except BaseException:  # as of a run without: what is done is kept
            if done.stats.samples:
                write(told(), keep)
            raise
    return told()


def _gather_elsewhere(parcel: Parcel, samples: Sequence[Sample]) -> StatsFile:
    """The statistics of samples that came along with the pass."""
    with parcel.opened() as folder:
        work, runs_as = _taken_over(folder)
        with ort.running(runs_as):
            return gather_from(work, _Told([], [], []), samples)


class Telling(Protocol):
    """What samples are told to, and tells of them: a source."""

    @property
    def lines(self) -> Sequence[str]:
        """As `Source.lines`."""

    @property
    def assumed(self) -> Sequence[str]:
        """As `Source.assumed`."""

    @property
    def skipped(self) -> Sequence[tuple[str, str]]:
        """As `Source.skipped`."""

    def skip(self, where: str, why: str) -> None:
        """As `Source.skip`."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What is told where the source is not."""

    lines: list[str]
    assumed: list[str]
    skipped: list[tuple[str, str]]

    def skip(self, where: str, why: str) -> None:
        self.skipped.append((where, why))


_BLOCK = 8
"""Samples of a task: to load the model takes as long as to run some."""

_KEPT_EACH = 10.0
"""Seconds after which what is done is kept."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """What the processes do: each has a share of the samples."""

    data: DataArguments
    shares: Sequence[Sequence[int]]
    checkpoints: Checkpoints


_INLINE = 1 << 28  # bytes of weights from which they go into a file of their own: protobuf's limit is 2 GiB


def _hand_over(work: Work, folder: Path, *, travels: bool = False) -> None:
    """Writes a pass to a folder. A pipe waits for its reader, and a worker may be gone before it reads.

    Args:
        work: the pass.
        folder: where to.
        travels: whether the folder goes to another machine: with it go the weights beside the model.
    """
    model, data_dir = work.model, work.data_dir
    inline = (tensor for tensor in tensors(model.graph) if tensor.data_location != onnx.TensorProto.EXTERNAL)
    if sum(map(tensor_bytes, inline)) > _INLINE or (travels and data_dir is not None):
        model, data_dir = externalize(model, folder / "weights", data_dir), None
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    bare = replace(work, model=onnx.ModelProto(), data_dir=data_dir)
    (folder / "work").write_bytes(pickle.dumps((bare, ort.runs_as())))


def _taken_over(folder: Path) -> tuple[Work, Runtime]:
    """The pass, and what is said of its runs."""
    bare, runs_as = pickle.loads((folder / "work").read_bytes())
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    return replace(bare, model=model, data_dir=bare.data_dir or folder), runs_as


class _Workers:
    """Worker processes; none is left at the end."""

    def __init__(self) -> None:
        self._running: dict[Connection, Any] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Workers:
        return self

    def start(self, folder: Path, number: int) -> None:
        """Starts one of them, on its share of the task in a folder."""
        with interrupts.held_back():
            ours, theirs = multiprocessing.Pipe(duplex=False)
            process = children.spawned(str(folder), _work, folder, number, theirs)
            theirs.close()
            self._running[ours] = process
            self._stack.enter_context(interrupts.child(process))

    def follow(self, progress: Callable[[int], None]) -> None:
        """Waits until all are done, and passes on how many samples are.

        Raises:
            UserError: one of them met it, did not begin, or was killed.
        """
        waiting, done = set(self._running), dict.fromkeys(self._running, _NOT_BEGUN)
        while waiting:
            for connection in wait_for(list(waiting)):
                assert isinstance(connection, Connection)
                try:
                    news = connection.recv()
                except (EOFError, OSError):
                    raise _gone(self._running[connection], begun=done[connection] != _NOT_BEGUN) from None
                if isinstance(news, OnnxqError):
                    raise news
                if news is None:
                    waiting.remove(connection)
                    continue
                done[connection] = news
                progress(sum(count for count in done.values() if count != _NOT_BEGUN))

    def __exit__(self, *error: object) -> None:
        with interrupts.held_back(), self._stack:
            children.end(self._running.values())


_NOT_BEGUN = -1


def _gone(process: Any, *, begun: bool) -> OnnxqError:
    """The error for a worker that ended before it was done."""
    process.join()
    if not begun:
        return UserError(
            f"a calibration worker ended before it began (exit code {process.exitcode}); {_GUARD}",
            hint="put it there; else what the worker wrote to standard error says what is wrong",
        )
    if process.exitcode == -signal.SIGKILL:
        return UserError(
            "a calibration worker was killed by the system",
            hint="it may have run out of memory: take fewer workers; what was done is kept",
        )
    return Fault(
        f"a calibration worker ended with code {process.exitcode}",
        hint="it may have run out of memory: take fewer workers; what was done is kept",
    )


_GUARD = (
    "each worker imports the script that calibrates: what the script runs belongs under "
    "`if __name__ == '__main__':`"
)


def check_main(workers: int) -> None:
    """Refuses to start workers in a worker, which runs a script anew that is not guarded against it.

    Raises:
        UserError: this is one.
    """
    if workers > 1 and getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UserError(
            f"a calibration worker was about to calibrate with workers of its own: {_GUARD}",
            hint="put it there",
        )


def _work(folder: Path, number: int, pipe: Connection) -> None:
    """A worker process."""
    with contextlib.suppress(KeyboardInterrupt), pipe:  # what was done is kept
        pipe.send(0)
        try:
            _do_share(folder, number, pipe)
            pipe.send(None)
        except OnnxqError as error:
            pipe.send(error)


def _do_share(folder: Path, number: int, pipe: Connection) -> None:
    work, runs_as = _taken_over(folder)
    given: _Shares = pickle.loads((folder / "shares").read_bytes())
    share, data, last = given.shares[number], given.data, 0.0

    def progress(done: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1 or done == len(share):
            pipe.send(done)
            last = time.monotonic()

    with ort.running(runs_as):
        source = open_source(data.data, data.inputs, options=data.images, skip_bad=data.skip_bad)
        gather(work, source, share, keep=given.checkpoints.path(number + 1), progress=progress)


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
    """The samples of shard `number` of `count`, from 1; none where there are more shards than samples."""
    return list(indices[number - 1 :: count])
