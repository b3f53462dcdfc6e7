"""The calibration pass: every statistic of every tensor from one run of each sample."""

from __future__ import annotations

import itertools
import math
import pickle
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError, unknown_name
from onnxq.base.grouped import fitting
from onnxq.base.reason import noted
from onnxq.calib.histogram import Histogram, HistogramCounter, Scratch
from onnxq.calib.probes import (
    ALL_ROWS,
    SLICE_OPSET,
    Channels,
    OwnRows,
    Probe,
    ProbeGraph,
    Reading,
    Rows,
    has_many,
    makers,
    rows_of,
)
from onnxq.calib.shapes import shapes_of
from onnxq.calib.stats import ChannelStats, Counts, Stats, TensorStats, add_counts, add_exact, exact, merge
from onnxq.data.samples import Sample
from onnxq.graph.deciders import or_freeze
from onnxq.graph.load import opset_of
from onnxq.run import ort
from onnxq.run.blame import at_fault, runs_on_made_up
from onnxq.run.in_parts import Found, InParts, blocks, load_probed, run_all

Counting = Literal["none", "sampled", "exact"]
"""What histograms are made of: nothing, `SAMPLED` values of rotating rows, every value."""

_LEAVING = 1 << 28  # bytes of rows that leave the graph in one run
_BLOCK = 32  # samples that all groups of tensors are taken of before the next ones
_SHARE = 10  # a checkpoint is due after so many times the time that the last one took


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the calibration pass.

    Attributes:
        tensors: names of inputs, constants or outputs of nodes of the main graph, of any numeric type
            (taken as float32).
        counting: what the histograms are made of.
        bounded: further tensors, which have no histogram, and may hold infinities and NaN.
        channels: the channel axis of the tensors whose channels are told apart.
        samples: how many samples there are going to be, in all shards; None: not known.
        shapes: shapes of tensors for the first sample, as far as they are known.
        first: the first sample of all shards; None: that of this pass. While samples are of its sizes, what
            depends on sizes is known before the model runs.
    """

    tensors: Sequence[str]
    counting: Counting = "none"
    bounded: Sequence[str] = ()
    channels: Mapping[str, int] = field(default_factory=dict)
    samples: int | None = None
    shapes: Mapping[str, Sequence[int | str | None]] = field(default_factory=dict)
    first: Sample | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of the pass.

    Attributes:
        progress: hears how many samples are done.
        skip: is given a sample that the model does not run on, and why; None: that is an error.
        checkpoint: is given the statistics of the samples that are done, now and then.
        seconds: how often, at most; where it takes long to keep them, less often.
    """

    progress: Callable[[int], None] = lambda done: None
    skip: Callable[[Sample, UserError], None] | None = None
    checkpoint: Callable[[Stats], None] | None = None
    seconds: float = 20.0


class NoSamples(UserError):
    """There was nothing to run, or all of it was bad."""


def collect(
    model: onnx.ModelProto,
    request: Request,
    samples: Iterable[Sample],
    *,
    data_dir: Path | None = None,
    threads: int = 0,
    watch: Watch = Watch(),
) -> Stats:
    """Runs the samples and takes statistics of tensors.

    Where more values leave the graph in a run than memory should hold, the tensors are taken in groups:
    all of them over a block of samples, then over the next block. What is done is then kept by blocks.

    Args:
        model: the float model; it is not modified.
        request: which statistics, of which tensors.
        samples: what to run.
        data_dir: the folder of the model's external data.
        threads: onnxruntime's threads inside an operator, 0 for all cores.
        watch: who is told how it goes.

    Raises:
        NoSamples: there are no samples, or all are bad.
        UserError: there is no such tensor, a tensor is NaN or infinite in a sample, or the model does
            not run on a sample.
        ort.RunError: onnxruntime does not load the model.
    """
    start = time.perf_counter()
    bounded = [name for name in request.bounded if name not in request.tensors]
    names = list(dict.fromkeys((*request.tensors, *bounded)))
    nodes = makers(model.graph)
    for name in names:
        if name not in nodes:
            raise unknown_name("tensor", name, nodes)
    rest = iter(samples)
    head = next(rest, None)
    if head is None:
        raise NoSamples("there are zero samples to calibrate with", hint="check the data")
    counted = list(dict.fromkeys(request.tensors))
    sizes = _sizes(model, request, counted, request.first or head, data_dir, watch.skip is not None)
    opset = opset_of(model)
    probes = [_probe(name, request, sizes, opset) for name in counted]
    probes += [Probe(name, ends=True) for name in bounded]
    groups = _groups(probes, sizes)
    usual = _Usual(request, request.first or head, sizes, opset)
    # the first pass looks at every tensor, so that a bad sample is left out of all groups
    groups[0] += [replace(probe, rows=None) for group in groups[1:] for probe in group]
    bad: list[UserError] = []
    watch = _counting(watch, bad)

    def pass_over(group: Sequence[Probe], watch: Watch) -> _Pass:
        return _Pass(model, group, usual, data_dir, threads, watch)

    work = pass_over(groups[0], watch) if len(groups) == 1 else _ByBlocks(pass_over, groups, watch)
    run = work.run(itertools.chain([head], rest))
    if not run.samples:
        raise NoSamples(f"there is no good sample: {len(bad)} are left out, the first one: {bad[0]}")
    return Stats({name: run.tensors[name] for name in names}, run.indices, time.perf_counter() - start)


def _counting(watch: Watch, bad: list[UserError]) -> Watch:
    """The watch; samples that are left out are also listed."""
    tell = watch.skip
    if tell is None:
        return watch

    def skip(sample: Sample, error: UserError) -> None:
        bad.append(error)
        tell(sample, error)

    return replace(watch, skip=skip)


def _sizes(
    model: onnx.ModelProto,
    request: Request,
    names: Sequence[str],
    first: Sample,
    data_dir: Path | None,
    may_be_bad: bool,
) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors for a sample, where anything depends on them; none of a sample that is bad."""
    if request.counting == "none":
        names = list(request.channels)
    if not names:
        return {}
    try:
        return shapes_of(model, names, first, request.shapes, data_dir)
    except UserError:
        if not may_be_bad or request.channels:
            raise
        return {}  # so that all rows are counted, in all shards


def _probe(name: str, request: Request, sizes: Mapping[str, tuple[int, ...]], opset: int) -> Probe:
    rows = None
    if request.counting == "exact" or (request.counting == "sampled" and opset < SLICE_OPSET):
        rows = ALL_ROWS
    elif request.counting == "sampled":
        rows = rows_of(sizes[name], request.samples or _UNKNOWN_COUNT) if name in sizes else ALL_ROWS
    channels = None
    if name in request.channels:
        rank = len(sizes[name])
        axis = request.channels[name] % max(rank, 1)
        channels = Channels(axis, rank)
    return Probe(name, rows, channels, has_many(sizes.get(name, request.shapes.get(name, ()))))


_UNKNOWN_COUNT = 64  # samples that an iterator is expected to have at least


class _Usual:
    """The sizes of the first sample, and whether others were met.

    As long as all samples are of its sizes, the rows that are counted are known before the model runs, and
    the graph is the faster for it. From the first sample of other sizes on, each pass chooses them in the
    graph: the same rows for a sample, whichever way it is taken.

    Attributes:
        shapes: of the inputs.
        varied: whether a sample had other sizes, of an input or of a tensor.
    """

    def __init__(
        self, request: Request, first: Sample, sizes: Mapping[str, tuple[int, ...]], opset: int
    ) -> None:
        """Those of `first`; `opset`: of the model, which may lack what chooses rows in the graph."""
        self.shapes = {name: array.shape for name, array in first.feeds.items()}
        self.varied = False
        self._sizes, self._by_size = sizes, opset >= SLICE_OPSET
        self._by_rows = self._by_size and request.counting == "sampled"
        self._samples = request.samples or _UNKNOWN_COUNT

    def has(self, sample: Sample) -> bool:
        """Whether a sample is of these sizes, or nothing depends on them."""
        return not self._sizes or {name: a.shape for name, a in sample.feeds.items()} == self.shapes

    def explains(self, probes: Sequence[Probe], reading: Reading) -> bool:
        """Whether what was computed of a sample is of these sizes: some depend on values."""
        return all(
            math.prod(self._sizes[probe.tensor]) == size
            for probe, size in zip(probes, reading.size.tolist(), strict=True)
            if probe.tensor in self._sizes
        )

    def own(self, probe: Probe) -> Probe:
        """The probe that goes by each sample's own sizes."""
        shape = self._sizes.get(probe.tensor, ())
        if not shape:
            return probe
        rows = OwnRows(len(shape), self._samples) if self._by_rows and probe.rows is not None else probe.rows
        return replace(
            probe, rows=rows, by_lines=None if len(shape) > 1 and self._by_size else probe.by_lines
        )


def _groups(probes: Sequence[Probe], sizes: Mapping[str, tuple[int, ...]]) -> list[list[Probe]]:
    """The probes in groups whose rows fit into memory together."""

    def size(probe: Probe) -> int:
        if not isinstance(probe.rows, Rows) or probe.tensor not in sizes:
            return 0
        return 4 * math.prod(sizes[probe.tensor]) // probe.rows.step

    return fitting(((probe, size(probe)) for probe in probes), _LEAVING)


class _ByBlocks:
    """Several groups of tensors: all of them over a block of samples, then over the next one.

    Args:
        pass_over: makes the pass that takes a group.
        groups: the tensors; the first pass finds the samples that are bad.
        watch: who is told.
    """

    def __init__(
        self,
        pass_over: Callable[[Sequence[Probe], Watch], _Pass],
        groups: Sequence[Sequence[Probe]],
        watch: Watch,
    ) -> None:
        self._pass_over, self._groups, self._watch = pass_over, groups, watch
        self._done: Stats | None = None

    def run(self, samples: Iterator[Sample]) -> Stats:
        """The statistics of the samples."""
        keeper = _Keeper(self._watch)
        try:
            for head in samples:
                part = self._block(itertools.chain([head], itertools.islice(samples, _BLOCK - 1)))
                self._done = part if self._done is None else merge([self._done, part])
                if self._done.samples:
                    keeper.keep_if_due(self._so_far)
        except BaseException:  # as in `_Pass`
            if self._done is not None and self._done.samples:
                keeper.keep(self._so_far)
            raise
        return self._so_far()

    def _so_far(self) -> Stats:
        assert self._done is not None
        return self._done

    def _block(self, samples: Iterator[Sample]) -> Stats:
        """All groups over the samples of a block, which are kept in a file: they may be had only once."""
        tensors: dict[str, TensorStats] = {}
        indices = np.zeros(0, np.int64)
        with tempfile.TemporaryFile(prefix="onnxq-") as file:
            for number, group in enumerate(self._groups):
                watch = replace(self._watch, checkpoint=None, progress=self._progress(number, len(indices)))
                loaded = _loaded(file, set(indices.tolist())) if number else _dumped(file, samples)
                part = self._pass_over(group, watch).run(loaded)
                tensors.update(part.tensors)
                indices = part.indices
        return Stats(tensors, indices)

    def _progress(self, group: int, block: int) -> Callable[[int], None]:
        """Hears how many samples of a block a group is done with, and tells how many that is for all."""
        before = self._done.samples if self._done is not None else 0

        def progress(done: int) -> None:
            self._watch.progress(before + (group * block + done) // len(self._groups))

        return progress


def _dumped(file: BinaryIO, samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples, which are kept in a file."""
    for sample in samples:
        pickle.dump(sample, file, protocol=5)
        yield sample


def _loaded(file: BinaryIO, wanted: Collection[int]) -> Iterator[Sample]:
    """The samples of a file that have these indices."""
    end = file.seek(0, 2)
    file.seek(0)
    while file.tell() < end:
        sample = pickle.load(file)
        if sample.index in wanted:
            yield sample


def _bytes(sample: Sample) -> int:
    return sum(array.nbytes for array in sample.feeds.values())


class _Keeper:
    """Gives the statistics of what is done to who keeps them, now and then."""

    def __init__(self, watch: Watch) -> None:
        self._checkpoint, self._seconds = watch.checkpoint, watch.seconds
        self._last, self._took = time.monotonic(), 0.0

    def keep_if_due(self, stats: Callable[[], Stats]) -> None:
        """Gives them, if the last ones are old."""
        if time.monotonic() - self._last >= max(self._seconds, _SHARE * self._took):
            self.keep(stats)

    def keep(self, stats: Callable[[], Stats]) -> None:
        """Gives them."""
        if self._checkpoint is None:
            return
        start = time.monotonic()
        with interrupts.held_back():
            self._checkpoint(stats())
        self._last = time.monotonic()
        self._took = self._last - start


class _Pass:
    """One pass over the samples, for some of the tensors."""

    def __init__(
        self,
        model: onnx.ModelProto,
        probes: Sequence[Probe],
        usual: _Usual,
        data_dir: Path | None,
        threads: int,
        watch: Watch,
    ) -> None:
        self._model, self._data_dir, self._threads, self._watch = model, data_dir, threads, watch
        self._probes, self._usual = list(probes), usual
        self._tally = Tally(probes)
        self._by_own_sizes = False
        self._ahead: Sequence[Sample] = ()
        self._found: Iterator[Found] | None = None
        if usual.varied:
            self._go_by_own_sizes()
        else:
            self._load()

    def run(self, samples: Iterable[Sample]) -> Stats:
        """The statistics of the samples."""
        keeper = _Keeper(self._watch)
        try:
            for block in blocks(samples, _bytes, many=isinstance(self._session, InParts)):
                for place, sample in enumerate(block):
                    self._ahead = block[place:]
                    self._take(sample)
                    if self._tally.samples:
                        keeper.keep_if_due(self._tally.stats)
                self._found = None  # it holds this pass, whose session would wait for the garbage collector
        except BaseException:  # an interruption, or a bad sample: what was done is kept
            if self._tally.samples and self._tally.whole:
                keeper.keep(self._tally.stats)
            raise
        return self._tally.stats()

    def _take(self, sample: Sample) -> None:
        try:
            reading = self._reading(sample)
        except UserError as error:
            if self._watch.skip is None:
                raise
            self._watch.skip(sample, error)
            return
        with interrupts.held_back():
            self._tally.add(sample.index, reading)
        self._watch.progress(self._tally.samples)

    def _go_by_own_sizes(self) -> None:
        """From now on rows are chosen by the sizes of each sample."""
        self._by_own_sizes = self._usual.varied = True
        self._probes = [self._usual.own(probe) for probe in self._probes]
        self._load()

    def _load(self) -> None:
        opset = opset_of(self._model)
        self._graph = ProbeGraph(self._model, self._probes, opset)
        self._found = None  # what the graph before it gives
        self._session = load_probed(
            self._model,
            [probe.tensor for probe in self._probes],
            lambda floats: ProbeGraph(self._model, self._probes, opset, floats).graph,
            threads=self._threads,
            data_dir=self._data_dir,
        )

    def _reading(self, sample: Sample) -> Reading:
        """What the probes find in a sample.

        Raises:
            UserError: the model does not run on it, or a tensor is not finite.
        """
        if not (self._by_own_sizes or self._usual.has(sample)):
            self._go_by_own_sizes()
        reading = self._run(sample)
        if not (self._by_own_sizes or self._usual.explains(self._probes, reading)):
            self._go_by_own_sizes()
            reading = self._run(sample)
        doubtful = [i for i in np.flatnonzero(reading.finite < 0) if not self._probes[i].ends]
        if doubtful:  # the sums overflowed, or a value is not finite: look at each value from now on
            for i in doubtful:
                self._probes[i] = replace(self._probes[i], overflows=True)
            self._load()
            reading = self._run(sample)
        wrong = {
            self._probes[i].tensor: i for i in np.flatnonzero(reading.finite == 0) if not self._probes[i].ends
        }
        if wrong:
            order = makers(self._model.graph)
            name = next(name for name in order if name in wrong)
            ends = reading.low[wrong[name]], reading.high[wrong[name]]
            raise _not_finite(name, order[name], sample, "infinite" if np.isinf(ends).any() else "NaN")
        return reading

    def _run(self, sample: Sample) -> Reading:
        if self._found is None:  # of this sample, and those behind it in its block
            feeds = ({**one.feeds, **self._graph.feeds(one.index)} for one in self._ahead)
            self._found = run_all(self._session, feeds, self._graph.outputs or None)
        found = next(self._found)
        if isinstance(found, ort.RunError):
            raise UserError(
                f"the model does not run on {sample.where}: {found}", hint=self._advice(sample)
            ) from found
        return self._graph.read(found)

    def _advice(self, sample: Sample) -> str:
        """What may help where the model does not run on a sample."""
        if not self._usual.has(sample) and runs_on_made_up(self._session, self._made_up(sample)):
            sizes = [
                ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in sorted(shapes.items()))
                for shapes in (self._usual.shapes, {name: a.shape for name, a in sample.feeds.items()})
            ]
            return noted("sample-at-fault.others", first=sizes[0], these=sizes[1])
        feeds = {**sample.feeds, **self._graph.feeds(sample.index)}
        return or_freeze(at_fault(self._session, feeds), self._model)

    def _made_up(self, sample: Sample) -> dict[str, np.ndarray]:
        """Zeros of the first sample's sizes."""
        zeros = {
            name: np.zeros(shape, sample.feeds[name].dtype)
            for name, shape in self._usual.shapes.items()
            if name in sample.feeds
        }
        return {**zeros, **self._graph.feeds(sample.index)}


def _not_finite(tensor: str, maker: onnx.NodeProto | None, sample: Sample, what: str) -> UserError:
    if maker is None:
        origin = "a constant or an input of the model"
    else:
        origin = f"output of {maker.op_type} node {maker.name!r}"
    return UserError(
        f"tensor {tensor!r} ({origin}) is {what} for {sample.where}, whose data is finite",
        hint="the float model itself overflows or divides by zero here; run it on this sample "
        "and repair it, or leave the sample out",
    )


_BUFFERS = 1 << 26  # bytes of values that wait to be counted, all tensors together


class Tally:
    """The statistics of the tensors of a pass while they grow.

    Attributes:
        samples: how many samples were added.
        whole: whether each of them was counted to its end: no error came in between.
    """

    def __init__(self, probes: Sequence[Probe]) -> None:
        self.whole = True
        self._probes = tuple(probes)
        count = len(self._probes)
        block = max(1 << 12, min(1 << 16, _BUFFERS // 4 // max(1, count)))
        scratch = Scratch(block)
        self._block, self._scratch = block, scratch
        self._counters: list[dict[int, HistogramCounter]] = [{} for _ in self._probes]  # by step
        self._steps = [0] * count  # of the last sample
        self._indices: list[int] = []
        self._ends: list[np.ndarray] = []  # [2, probes] in each sample
        self._size = np.zeros(count, np.int64)
        self._sums: list[int | None] = [0] * (2 * count)
        self._channels: list[ChannelStats | None] = [None] * count

    @property
    def samples(self) -> int:
        """As above."""
        return len(self._indices)

    def add(self, index: int, reading: Reading) -> None:
        """Adds what was found in the sample of this index."""
        self.whole = False
        self._indices.append(index)
        self._ends.append(np.stack([reading.low, reading.high]))
        self._size += reading.size
        self._sums = add_exact(self._sums, exact(reading.sums.ravel()))
        for i, (rows, step) in enumerate(zip(reading.rows, reading.steps, strict=True)):
            if rows is not None:
                self._count(i, rows, step)
        for i, channel in enumerate(reading.channels):
            if channel is not None and reading.size[i]:
                self._add_channels(i, channel, int(reading.size[i]))
        self.whole = True

    def _count(self, i: int, rows: np.ndarray, step: int) -> None:
        counters = self._counters[i]
        if step != self._steps[i]:
            if self._steps[i] in counters:
                counters[self._steps[i]].settle()  # its memory is free for the next one
            self._steps[i] = step
        if step not in counters:
            counters[step] = HistogramCounter(self._block, self._scratch)
        counters[step].add(rows)

    def _add_channels(self, i: int, reduced: np.ndarray, size: int) -> None:
        channels, before = self._probes[i].channels, self._channels[i]
        assert channels is not None
        low, high, total = reduced
        new = ChannelStats(channels.axis, low, high, tuple(exact(total)), size // len(low))
        self._channels[i] = new if before is None else before.merge(new)

    def stats(self) -> Stats:
        """What was found so far, the samples in the order of their indices."""
        self.whole = False  # counters count what waits
        order = np.argsort(self._indices, kind="stable")
        ends = np.array(self._ends, np.float32).reshape(len(order), 2, len(self._probes))[order]
        tensors = {}
        for i, (probe, counters) in enumerate(zip(self._probes, self._counters, strict=True)):
            total, squares = self._sums[2 * i : 2 * i + 2]
            counts = Counts(histogram=Histogram()) if probe.rows is not None else Counts()
            if counters:
                counts = add_counts([Counts(step, c.histogram()) for step, c in sorted(counters.items())])
            tensors[probe.tensor] = TensorStats(
                lows=ends[:, 0, i].copy(),
                highs=ends[:, 1, i].copy(),
                size=int(self._size[i]),
                total=total,
                squares=squares,
                step=counts.step,
                histogram=counts.histogram,
                channels=self._channels[i],
                spread=counts.spread,
            )
        self.whole = True
        return Stats(tensors, np.array(self._indices, np.int64)[order])
