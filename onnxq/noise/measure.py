"""Measuring G: each source runs alone, sample by sample, block by block of the samples.

What a block adds to G is added in the order of the blocks, whoever measured it: the same bits by any number
of workers, and after an interruption. In memory are the numbers of one sample's errors; never those of all.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import multiprocessing
import os
import pickle
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base import children, interrupts
from onnxq.base.errors import OnnxqError, UserError
from onnxq.base.executors import Parcel, Submit, submitted
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.external import externalize
from onnxq.graph.load import tensors
from onnxq.judge.comparable import OutputLeftOut, as_tensor, not_compared
from onnxq.judge.output_parts import OutputParts
from onnxq.judge.sqnr import LOUDEST, Signal
from onnxq.noise.gram import Effort, NoiseModel, bend_of, noises
from onnxq.noise.sources import Sources
from onnxq.options.settings import Runtime
from onnxq.quant.measuring import MeasuringCopy
from onnxq.run import ort
from onnxq.run.ort import Feeds
from onnxq.run.piecewise import Edge, PiecewiseModel, Recipe, Setting

BLOCK = 4
"""Samples that are measured together: what a worker is given, and what is kept when a run is interrupted."""

BUDGET = 1 << 15
"""Numbers that are kept of a source's errors in a sample, of all outputs together."""

_SETS = 6  # that are measured as well, at most
_EACH = 6  # of so many sources one


def measure_noise(
    copy: MeasuringCopy,
    sources: Sources,
    samples: Iterable[Feeds],
    *,
    parts: OutputParts | None = None,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    budget: int = BUDGET,
    state: Path | None = None,
    workers: int = 1,
    submit: Submit | None = None,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
    total: int | None = None,
) -> NoiseModel:
    """Runs each source alone on each sample.

    Args:
        copy: the quantized model.
        sources: its sources.
        samples: feeds that calibrated nothing, read once.
        parts: in which the outputs are judged; None: each as a whole.
        weights: what outputs weigh, 1 by default; those of weight 0 are left out.
        seed: of the projections.
        budget: how many numbers are kept of a source's errors in a sample; where outputs are no longer, they
            are exact.
        state: a file that keeps what is done, for a run that goes on; one of other content is replaced.
        workers: how many processes.
        submit: of an executor, where the work goes instead, with all that it needs.
        progress: hears how many runs of a source on a sample are done, and of how many.
        total: how many samples there are, where that is known.

    Raises:
        UserError: there is no sample, an output that is weighed does not exist, no output counts, or the file
            is in the way.
        RunError: the model does not run on a sample.
    """
    heard = OutputParts.of(parts or copy.outputs)
    weighed = heard.weights(weights)
    sets, shares = sources.settings()
    some = _some_sets(sources, seed)
    sets += [
        frozenset().union(*(sources.entries[place].edges for place in np.flatnonzero(on))) for on in some
    ]
    edges = tuple(frozenset((edge.node, edge.input) for edge in some) for some in sets)
    task = Task(edges, heard, budget, seed)
    count = None if total is None else total * len(edges)
    kept = State.open(state, _digest(copy.recipe, task))
    sums = kept.sums or Sums.none(len(edges), len(heard.parts))
    blocks = kept.rest(_blocks(samples))
    progress(sums.samples * len(edges), count)
    for block, added in _measured(copy, task, blocks, workers, submit):
        sums.add(added)
        kept.store(sums, block)
        progress(sums.samples * len(edges), count)
    if not sums.samples:
        raise UserError("there are no samples to measure noise with", hint="give more data")
    return _model(sources, shares, some, task, sums, weighed)


Block = list[Feeds]


def _blocks(samples: Iterable[Feeds]) -> Iterator[Block]:
    rest = iter(samples)
    while block := list(itertools.islice(rest, BLOCK)):
        yield block


def _measured(
    copy: MeasuringCopy,
    task: Task,
    blocks: Iterator[tuple[int, Block]],
    workers: int,
    submit: Submit | None,
) -> Iterator[tuple[Block, Sums]]:
    """What each block adds, in their order."""
    if submit is None and workers <= 1:
        yield from ((block, measure_block(copy.piecewise, task, block, first)) for first, block in blocks)
        return
    with interrupts.Folder() as name:
        hand_over(copy.recipe, task, Path(name))
        if submit is not None:
            parcel = Parcel.of(Path(name))
            yield from submitted(submit, measure_of_parcel, _tasks(parcel, blocks), Sums)
            return
        with Workers(workers, name) as processes:
            yield from submitted(processes.submit, measure_elsewhere, _tasks(name, blocks), Sums, workers + 1)


def _tasks(where: object, blocks: Iterator[tuple[int, Block]]) -> Iterator[tuple[Block, tuple[Any, ...]]]:
    return ((block, (where, block, first)) for first, block in blocks)


def _model(
    sources: Sources,
    parts: np.ndarray,
    some: np.ndarray,
    task: Task,
    sums: Sums,
    weighed: Mapping[str, float],
) -> NoiseModel:
    left_out: list[OutputLeftOut] = []
    by_output: dict[str, np.ndarray] = {}
    measured: dict[str, np.ndarray] = {}
    for place, name in enumerate(task.parts.names):
        why = sums.signals[place].why_not(weighed[name])
        if why:
            left_out.append(OutputLeftOut(name, why))
        else:
            gram = sums.in_parts_of_power(place)
            alone = gram[: parts.shape[1], : parts.shape[1]]
            by_output[name] = parts @ alone @ parts.T
            measured[name] = np.diag(gram)[parts.shape[1] :]
    if not by_output:
        raise UserError(not_compared(left_out), hint="give samples that differ, as many as there are")
    whole = sum(weighed[name] for name in by_output)
    weights = {name: weighed[name] / whole for name in by_output}
    effort = Effort(sums.samples, sums.runs, len(sources))
    model = NoiseModel(sources, by_output, weights, tuple(left_out), effort)
    if not len(some):
        return model
    together = sum((weights[name] * measured[name] for name in weights), np.zeros(len(some)))
    return replace(model, bend=bend_of(noises(model.gram, some), together))


def _some_sets(sources: Sources, seed: int) -> np.ndarray:
    """Sets that are measured as well, bool [sets, sources]: all sources, and random halves of them."""
    count = min(_SETS, len(sources) // _EACH)
    on = np.random.default_rng((seed, len(sources))).random((count, len(sources))) < 0.5
    on[:1] = True
    return sources.closed(on)


def _digest(recipe: Recipe, task: Task) -> str:
    """What sums are of: the models with their scales, the sources, how errors are kept."""
    digest = hashlib.sha256()
    for model in (recipe.model, recipe.floats):
        digest.update(model.SerializeToString(deterministic=True))
    for edges in task.sets:
        digest.update(repr(sorted(edges)).encode())
    digest.update(repr((task.parts, task.budget, task.seed, BLOCK, recipe.optimize, recipe.pieces)).encode())
    digest.update(_stamp(recipe))
    return digest.hexdigest()


def _stamp(recipe: Recipe) -> bytes:
    """External data, by size and time: it may be too large to read again."""
    if recipe.data_dir is None:
        return b""
    names = {
        entry.value
        for model in (recipe.model, recipe.floats)
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    stamps = []
    for name in sorted(names):
        path = recipe.data_dir / name
        stat = os.stat(path) if path.exists() else None
        stamps.append((name, stat and (stat.st_size, stat.st_mtime_ns)))
    return repr(stamps).encode()


class Workers:
    """So many processes, with the `submit` of an executor."""

    def __init__(self, count: int, folder: str) -> None:
        """Nothing is started yet.

        Args:
            count: how many.
            folder: where their temporary files are; it goes with the parent.
        """
        self._count, self._folder = count, folder
        self._idle: queue.Queue[Connection] = queue.Queue()
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        self._threads = ThreadPoolExecutor(count)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        for _ in range(self._count):
            with interrupts.held_back():
                ours, theirs = multiprocessing.Pipe()
                process = children.spawned(self._folder, _serve, theirs)
                theirs.close()
                self._processes.append(process)
                self._connections.append(ours)
                self._stack.enter_context(interrupts.child(process))
            self._idle.put(ours)
        return self

    def submit(self, work: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Has a function of a module run by the next of them that is idle."""
        return self._threads.submit(self._ask, work, args)

    def _ask(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        connection = self._idle.get()
        try:
            connection.send((work, args))
            done, answer = connection.recv()
        except (EOFError, OSError):
            raise UserError(
                "a worker ended before it was done",
                hint="it may have run out of memory: take fewer workers; what was done is kept. Each worker "
                "imports the script that starts it: what that runs belongs under "
                "`if __name__ == '__main__':`",
            ) from None
        finally:
            self._idle.put(connection)
        if not done:
            raise answer
        return answer

    def __exit__(self, *error: object) -> None:
        with interrupts.held_back(), self._stack:
            self._threads.shutdown(wait=False, cancel_futures=True)
            children.end(self._processes)
            self._threads.shutdown()
            for connection in self._connections:
                connection.close()


def _serve(connection: Connection) -> None:
    """A worker process."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError), connection:
        while True:
            work, args = connection.recv()
            try:
                answer = True, work(*args)
            except OnnxqError as error:
                answer = False, error
            connection.send(answer)


_KIND = "onnxq noise 1"


class State:
    """The sums of the first blocks, and of which samples they are.

    Attributes:
        sums: they; None where nothing is done.
    """

    def __init__(self, path: Path | None, digest: str) -> None:
        """Of no block."""
        self._path, self._digest = path, digest
        self._blocks: list[str] = []
        self.sums: Sums | None = None

    @staticmethod
    def open(path: Path | None, digest: str) -> State:
        """What a file keeps of this measurement; nothing, where it is of another one.

        Args:
            path: the file; None: nothing is kept.
            digest: what is measured.

        Raises:
            UserError: the file is none of onnxq's.
        """
        state = State(path, digest)
        if path is None or not os.path.exists(path):
            return state
        content = _read(path)
        if content is None:
            raise UserError(
                f"{str(path)!r} is in the way, and onnxq did not write it: what is done of a measurement "
                "goes there",
                hint="give another path",
            )
        header, arrays = content
        if header["digest"] == digest:
            state._blocks = list(header["blocks"])
            state.sums = _sums(header, arrays)
        return state

    def rest(self, blocks: Iterable[list[Feeds]]) -> Iterator[tuple[int, list[Feeds]]]:
        """The blocks that are still to be done, each with the number of its first sample.

        Raises:
            UserError: the data are others than those of what is done.
        """
        first = 0
        for place, block in enumerate(blocks):
            if place < len(self._blocks) and _digest_of(block) != self._blocks[place]:
                raise UserError(
                    f"{str(self._path)!r} keeps what was done of other samples",
                    hint="give the same data again, or remove the file",
                )
            if place >= len(self._blocks):
                yield first, block
            first += len(block)

    def store(self, sums: Sums, block: list[Feeds]) -> None:
        """Keeps the sums after one more block."""
        if self._path is None:
            return
        self._blocks.append(_digest_of(block))
        header = {
            "kind": _KIND,
            "digest": self._digest,
            "blocks": self._blocks,
            "samples": sums.samples,
            "runs": sums.runs,
            "signals": [
                [s.count, s.power, s.values, s.level, s.spread, s.peak, s.comparable] for s in sums.signals
            ],
        }
        arrays: dict[str, Any] = {"header": np.array(json.dumps(header))}
        for place, signal in enumerate(sums.signals):
            arrays[f"gram-{place}"] = sums.grams[place]
            arrays[f"broken-{place}"] = sums.broken[place]
            if signal.mean is not None:
                arrays[f"mean-{place}"] = signal.mean
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            np.savez(file, **arrays)
        os.replace(new, self._path)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        return (header, arrays) if header["kind"] == _KIND else None
    except Exception:  # whatever it is, it is none of ours
        return None


def _sums(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Sums:
    signals = [
        Signal(count, arrays.get(f"mean-{place}"), power, values, level, spread, peak, comparable)
        for place, (count, power, values, level, spread, peak, comparable) in enumerate(header["signals"])
    ]
    return Sums(
        header["samples"],
        header["runs"],
        [arrays[f"gram-{place}"] for place in range(len(signals))],
        signals,
        [arrays[f"broken-{place}"] for place in range(len(signals))],
    )


def _digest_of(block: list[Feeds]) -> str:
    digest = hashlib.sha256()
    for feeds in block:
        for name, array in sorted(feeds.items()):
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# One block of samples: every source alone on each of them, and what that adds to G.

_INLINE = 1 << 28  # bytes of weights from which they go into a file of their own


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured of each sample.

    Attributes:
        sets: the edges that are on, for each run.
        parts: the outputs that are compared, in their parts.
        budget: how many numbers are kept of a source's errors in a sample, of all outputs together.
        seed: of the projections.
    """

    sets: tuple[frozenset[Edge], ...]
    parts: OutputParts
    budget: int
    seed: int


@dataclass(slots=True)
class Sums:
    """What blocks add up to.

    Attributes:
        samples: how many samples.
        runs: how many runs of the model with a source on.
        grams: of each output, float64 [outputs][sets, sets].
        signals: of each output.
        broken: how often a set makes an output that is not finite, int [outputs][sets].
    """

    samples: int
    runs: float
    grams: list[np.ndarray]
    signals: list[Signal]
    broken: list[np.ndarray]

    @staticmethod
    def none(sets: int, outputs: int) -> Sums:
        """Those of no sample."""
        return Sums(
            0,
            0.0,
            [np.zeros((sets, sets)) for _ in range(outputs)],
            [Signal() for _ in range(outputs)],
            [np.zeros(sets, int) for _ in range(outputs)],
        )

    def add(self, later: Sums) -> None:
        """Adds those of later samples; the order counts, to the last bit."""
        self.samples += later.samples
        self.runs += later.runs
        for ours, theirs in zip(self.grams, later.grams, strict=True):
            ours += theirs
        self.signals = [a.joined(b) for a, b in zip(self.signals, later.signals, strict=True)]
        for ours, theirs in zip(self.broken, later.broken, strict=True):
            ours += theirs

    def in_parts_of_power(self, place: int) -> np.ndarray:
        """G of an output in parts of its power, [sets, sets]."""
        signal = self.signals[place]
        gram: np.ndarray = self.grams[place] / signal.about_mean
        gram[np.diag_indices(len(gram))] += LOUDEST * self.broken[place]
        return gram


def measure_block(
    model: PiecewiseModel, task: Task, feeds: Sequence[Mapping[str, np.ndarray]], first: int
) -> Sums:
    """The sums of some samples, of which the first has a number.

    Raises:
        RunError: the model does not run on one of them.
    """
    total = Sums.none(len(task.sets), len(task.parts.parts))
    before = model.runs
    for number, one in enumerate(feeds, first):
        total.add(_of_sample(model, task, one, number))
    total.runs = model.runs - before - len(feeds)  # the float model is not what is counted
    return total


def _of_sample(model: PiecewiseModel, task: Task, feeds: Mapping[str, np.ndarray], number: int) -> Sums:
    off = model.edges
    settings = [Setting(off), *(Setting(off - edges) for edges in task.sets)]
    taken = {name: feeds[name] for name in model.inputs}
    sums = Sums.none(len(task.sets), len(task.parts.parts))
    sums.samples = 1
    most = max(1, task.budget // max(1, len(task.parts.parts)))
    exact: list[np.ndarray] = []
    projections: list[Projection] = []
    errors: list[np.ndarray] = []
    for index, whole in model.run_one_by_one(taken, settings, task.parts.outputs):
        outputs = task.parts.split(whole)
        if not projections:  # the float model is the first
            assert index == 0
            sums.signals = [Signal.of(value) for value in outputs]
            exact = [as_tensor(value) for value in outputs]
            for place, (value, signal) in enumerate(zip(exact, sums.signals, strict=True)):
                size = value.size if signal.comparable else 0
                projections.append(Projection(size, most, task.seed, number, place))
                errors.append(np.zeros((len(task.sets), projections[-1].length)))
            exact = [
                value.astype(np.float64) if signal.comparable else value
                for value, signal in zip(exact, sums.signals, strict=True)
            ]
            continue
        for place, value in enumerate(outputs):
            signal = sums.signals[place]
            array = as_tensor(value)
            if signal.comparable and array.shape != exact[place].shape:
                signal.comparable = False
            if not signal.comparable:
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                error = (array - exact[place]).ravel()
            if not np.isfinite(error).all():
                sums.broken[place][index - 1] += 1
                error = np.zeros(error.size)
            errors[place][index - 1] = projections[place](error)
    for place, rows in enumerate(errors):
        if sums.signals[place].comparable:
            sums.grams[place] = rows @ rows.T
    return sums


# -- elsewhere --------------------------------------------------------------------------------


def hand_over(recipe: Recipe, task: Task, folder: Path) -> None:
    """Writes a task to a folder, for processes that read it."""
    plain = []
    for name, model in (("model", recipe.model), ("floats", recipe.floats)):
        inline = (t for t in tensors(model.graph) if t.data_location != onnx.TensorProto.EXTERNAL)
        outside = recipe.data_dir is not None
        if outside or sum(map(tensor_bytes, inline)) > _INLINE:
            model, outside = externalize(model, folder / f"{name}.weights", recipe.data_dir), True
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        plain.append(outside)
    bare = replace(
        recipe, model=onnx.ModelProto(), floats=onnx.ModelProto(), data_dir=folder if any(plain) else None
    )
    (folder / "task").write_bytes(pickle.dumps((bare, task, ort.runs_as())))


def measure_elsewhere(folder: str, feeds: Sequence[Mapping[str, np.ndarray]], first: int) -> Sums:
    """As `measure_block`, of a task that was written to a folder."""
    model, task, runs_as = _taken_over(folder)
    with ort.running(runs_as):
        return measure_block(model, task, feeds, first)


def measure_of_parcel(parcel: Parcel, feeds: Sequence[Mapping[str, np.ndarray]], first: int) -> Sums:
    """As `measure_elsewhere`, of a task whose folder came along."""
    with parcel.opened() as folder:
        return measure_elsewhere(str(folder), feeds, first)


@lru_cache(maxsize=1)
def _taken_over(folder: str) -> tuple[PiecewiseModel, Task, Runtime]:
    place = Path(folder)
    recipe, task, runs_as = pickle.loads((place / "task").read_bytes())
    model, floats = (
        onnx.load(place / f"{name}.onnx", load_external_data=False) for name in ("model", "floats")
    )
    data_dir = None if recipe.data_dir is None else place
    return replace(recipe, model=model, floats=floats, data_dir=data_dir).made(), task, runs_as


class Projection:
    """The projection of one output in one sample."""

    def __init__(self, size: int, most: int, *draw: int) -> None:
        """For errors of a size.

        Args:
            size: how many values they have.
            most: how many numbers are kept; errors that have no more are kept as they are.
            draw: what the signs are drawn from: the seed, the sample, the output.
        """
        self.exact = size <= most
        self.length = size if self.exact else _prime(most)
        self._size = size
        if not self.exact:
            bits = np.random.default_rng(draw).integers(0, 256, -(-size // 8), np.uint8)
            self._signs = 1.0 - 2.0 * np.unpackbits(bits)[:size]

    def __call__(self, error: np.ndarray) -> np.ndarray:
        """The numbers of an error, float64 [size] to float64 [length]."""
        if self.exact:
            return error
        rows = -(-self._size // self.length)
        padded = np.zeros(rows * self.length)
        np.multiply(error, self._signs, out=padded[: self._size])
        numbers: np.ndarray = padded.reshape(rows, self.length).sum(0)
        return numbers


def _prime(most: int) -> int:
    """The greatest prime that is no more than a number, 2 at least."""
    number = max(2, most)
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
