"""The calibration pass: every statistic of every tensor from one run of each sample."""

from __future__ import annotations

import math
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from onnxq.calib.histogram import HistogramCounter, Scratch
from onnxq.calib.probes import ALL_ROWS, Channels, Probe, ProbeGraph, Reading, Rows, makers
from onnxq.calib.samples import Sample
from onnxq.calib.shapes import shapes_of
from onnxq.calib.stats import ChannelStats, Stats, TensorStats, add_exact, exact
from onnxq.errors import UserError, unknown_name
from onnxq.graph.load import opset_of
from onnxq.run import ort

SAMPLED = 4_000_000
"""Values of a tensor that are counted at least over all samples, unless it has fewer."""

Counting = Literal["none", "sampled", "exact"]
"""What histograms are made of: nothing, `SAMPLED` values of rotating rows, every value."""

_BUFFERS = 1 << 26  # bytes of values that wait to be counted, all tensors together
_LEAVING = 1 << 28  # bytes of rows that leave the graph in one run


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the calibration pass.

    Attributes:
        tensors: names of inputs, constants or outputs of nodes of the main graph, of any numeric type
            (taken as float32).
        counting: what the histograms are made of.
        channels: the channel axis of the tensors whose channels are told apart.
        samples: how many samples there are going to be, in all shards; None: not known.
        shapes: shapes of tensors for the first sample, as far as they are known.
        first: the first sample of all shards, whose sizes decide which rows are counted; None: that of
            this pass.
    """

    tensors: Sequence[str]
    counting: Counting = "none"
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
        seconds: how often.
    """

    progress: Callable[[int], None] = lambda done: None
    skip: Callable[[Sample, UserError], None] | None = None
    checkpoint: Callable[[Stats], None] | None = None
    seconds: float = 20.0


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

    Where more values leave the graph in a run than memory should hold, the tensors are taken in groups,
    one pass over the samples for each.

    Args:
        model: the float model; it is not modified.
        request: which statistics, of which tensors.
        samples: what to run.
        data_dir: the folder of the model's external data.
        threads: onnxruntime's threads inside an operator, 0 for all cores.
        watch: who is told how it goes.

    Raises:
        UserError: there are no samples, no such tensor, a tensor is NaN or infinite in a sample,
            or the model does not run on a sample.
        ort.RunError: onnxruntime does not load the model.
    """
    start = time.perf_counter()
    names = list(dict.fromkeys(request.tensors))
    known = makers(model.graph)
    for name in names:
        if name not in known:
            raise unknown_name("tensor", name, known)
    rest = iter(samples)
    head = next(rest, None)
    if head is None:
        raise UserError("there are zero samples to calibrate with", hint="check the data")
    first = request.first or head
    sizes = _sizes(model, request, names, first, data_dir, watch.skip is not None)
    probes = [_probe(name, request, sizes) for name in names]
    groups = _groups(probes, sizes)
    passes = _Replay(head, rest, len(groups))
    watch = passes.skipping(watch)
    # the first pass looks at every tensor, so that a bad sample is left out of all groups
    groups[0] += [replace(probe, rows=None) for group in groups[1:] for probe in group]
    found: dict[str, TensorStats] = {}
    indices = np.zeros(0, np.int64)
    for group in groups:
        work = _Pass(
            model, group, data_dir, threads, replace(watch, checkpoint=None) if len(groups) > 1 else watch
        )
        part = work.run(passes)
        found.update(part.tensors)
        indices = part.indices
    if not len(indices):
        raise passes.all_bad()
    return Stats({name: found[name] for name in names}, indices, time.perf_counter() - start)


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


def _probe(name: str, request: Request, sizes: Mapping[str, tuple[int, ...]]) -> Probe:
    rows = None
    if request.counting == "exact":
        rows = ALL_ROWS
    elif request.counting == "sampled":
        rows = _sampled_rows(sizes[name], request.samples) if name in sizes else ALL_ROWS
    channels = None
    if name in request.channels:
        rank = len(sizes[name])
        axis = request.channels[name] % max(rank, 1)
        channels = Channels(axis, rank)
    return Probe(name, rows, channels, _is_large(sizes.get(name, request.shapes.get(name, ()))))


def _is_large(shape: Sequence[int | str | None]) -> bool:
    """Whether a tensor of at least two axes is known to have more than a million values."""
    return len(shape) > 1 and math.prod(dim for dim in shape if isinstance(dim, int)) > 1 << 20


_UNKNOWN_COUNT = 64  # samples that an iterator is expected to have at least


def _sampled_rows(shape: tuple[int, ...], samples: int | None) -> Rows:
    """Rows of which enough values are counted over all samples; whole lines of the last axis if possible."""
    total = math.prod(shape) * (samples or _UNKNOWN_COUNT)
    step = 1 << max(0, (total // SAMPLED).bit_length() - 1)
    if step == 1 or not shape:
        return ALL_ROWS
    axis = max(0, len(shape) - 2)
    if shape[axis] < step:
        axis = int(np.argmax(shape))
    return Rows(axis, step)


def _groups(probes: Sequence[Probe], sizes: Mapping[str, tuple[int, ...]]) -> list[list[Probe]]:
    """The probes in groups whose rows fit into memory together."""
    groups: list[list[Probe]] = [[]]
    room = _LEAVING
    for probe in probes:
        size = 0
        if probe.rows is not None and probe.tensor in sizes:
            size = 4 * math.prod(sizes[probe.tensor]) // probe.rows.step
        if size > room and groups[-1]:
            groups.append([])
            room = _LEAVING
        groups[-1].append(probe)
        room -= size
    return groups


class _Replay:
    """Samples for several passes; those that can be had once only are kept in a file."""

    def __init__(self, head: Sample, rest: Iterator[Sample], passes: int) -> None:
        self._head, self._rest = head, rest
        self._file = tempfile.TemporaryFile(prefix="onnxq-") if passes > 1 else None  # noqa: SIM115
        self._read = False
        self._bad: dict[int, UserError] = {}

    def skipping(self, watch: Watch) -> Watch:
        """The watch; the samples that it is to leave out are not in the next passes."""
        tell = watch.skip
        if tell is None:
            return watch

        def skip(sample: Sample, error: UserError) -> None:
            self._bad[sample.index] = error
            tell(sample, error)

        return replace(watch, skip=skip)

    def all_bad(self) -> UserError:
        """The error where no sample is left."""
        first = next(iter(self._bad.values()))
        return UserError(f"there is no good sample: {len(self._bad)} are left out, the first one: {first}")

    def __iter__(self) -> Iterator[Sample]:
        if self._read:
            yield from (sample for sample in self._again() if sample.index not in self._bad)
            return
        self._read = True
        yield self._kept(self._head)
        yield from map(self._kept, self._rest)

    def _kept(self, sample: Sample) -> Sample:
        if self._file is not None:
            pickle.dump(sample, self._file, protocol=5)
        return sample

    def _again(self) -> Iterator[Sample]:
        assert self._file is not None
        end = self._file.seek(0, 2)
        self._file.seek(0)
        while self._file.tell() < end:
            yield pickle.load(self._file)


class _Pass:
    """One pass over the samples, for some of the tensors."""

    def __init__(
        self,
        model: onnx.ModelProto,
        probes: Sequence[Probe],
        data_dir: Path | None,
        threads: int,
        watch: Watch,
    ) -> None:
        self._model, self._data_dir, self._threads, self._watch = model, data_dir, threads, watch
        self._probes = list(probes)
        self._tally = _Tally(probes)
        self._told = 0.0
        self._load()

    def run(self, samples: Iterable[Sample]) -> Stats:
        """The statistics of the samples."""
        self._told = time.monotonic()
        try:
            for sample in samples:
                self._take(sample)
                self._tell(self._watch.seconds)
        except BaseException:  # an interruption, or a bad sample: what was done is kept
            self._tell(0.0)
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
        self._tally.add(sample.index, reading)
        self._watch.progress(self._tally.samples)

    def _tell(self, seconds: float) -> None:
        """Gives the statistics so far to who keeps them, if they are so old."""
        keep = self._watch.checkpoint
        if keep is not None and self._tally.samples and time.monotonic() - self._told >= seconds:
            keep(self._tally.stats())
            self._told = time.monotonic()

    def _load(self) -> None:
        self._graph = ProbeGraph(self._model, self._probes, opset_of(self._model))
        self._session = ort.load(
            self._model, threads=self._threads, data_dir=self._data_dir, probes=self._graph.graph
        )

    def _reading(self, sample: Sample) -> Reading:
        """What the probes find in a sample.

        Raises:
            UserError: the model does not run on it, or a tensor is not finite.
        """
        reading = self._run(sample)
        doubtful = np.flatnonzero(reading.finite < 0)
        if len(doubtful):  # the sums overflowed, or a value is not finite: look at each value from now on
            for i in doubtful:
                self._probes[i] = replace(self._probes[i], overflows=True)
            self._load()
            reading = self._run(sample)
        wrong = {self._probes[i].tensor: i for i in np.flatnonzero(reading.finite == 0)}
        if wrong:
            order = makers(self._model.graph)
            name = next(name for name in order if name in wrong)
            ends = reading.low[wrong[name]], reading.high[wrong[name]]
            raise _not_finite(name, order[name], sample, "infinite" if np.isinf(ends).any() else "NaN")
        return reading

    def _run(self, sample: Sample) -> Reading:
        feeds = {**sample.feeds, **self._graph.feeds(sample.index)}
        try:
            return self._graph.read(self._session.run(feeds, self._graph.outputs or None))
        except ort.RunError as error:
            raise UserError(
                f"the model does not run on {sample.where}: {error}",
                hint="check the sample's sizes and values against what the model expects, or leave it out",
            ) from error


class _Tally:
    """The statistics of the tensors of a pass while they grow.

    Attributes:
        samples: how many samples were added.
    """

    def __init__(self, probes: Sequence[Probe]) -> None:
        self._probes = tuple(probes)
        count = len(self._probes)
        block = max(1 << 12, min(1 << 16, _BUFFERS // 4 // max(1, count)))
        scratch = Scratch(block)
        counted = [probe.rows is not None for probe in self._probes]
        self._counters = [HistogramCounter(block, scratch) if wanted else None for wanted in counted]
        self._indices: list[int] = []
        self._ends: list[np.ndarray] = []  # [2, probes] in each sample
        self._size = np.zeros(count, np.int64)
        self._sums: list[int | None] = [0] * (2 * count)
        self._channels: list[ChannelStats | None] = [None] * count

    @property
    def samples(self) -> int:
        return len(self._indices)

    def add(self, index: int, reading: Reading) -> None:
        """Adds what was found in the sample of this index."""
        self._indices.append(index)
        self._ends.append(np.stack([reading.low, reading.high]))
        self._size += reading.size
        self._sums = add_exact(self._sums, exact(reading.sums.ravel()))
        for counter, rows in zip(self._counters, reading.rows, strict=True):
            if counter is not None and rows is not None:
                counter.add(rows)
        for i, found in enumerate(reading.channels):
            if found is not None and reading.size[i]:
                self._add_channels(i, found, int(reading.size[i]))

    def _add_channels(self, i: int, found: np.ndarray, size: int) -> None:
        channels, before = self._probes[i].channels, self._channels[i]
        assert channels is not None
        low, high, total = found
        new = ChannelStats(channels.axis, low, high, tuple(exact(total)), size // len(low))
        self._channels[i] = new if before is None else before.merge(new)

    def stats(self) -> Stats:
        """What was found so far, the samples in the order of their indices."""
        order = np.argsort(self._indices, kind="stable")
        ends = np.array(self._ends, np.float32).reshape(len(order), 2, len(self._probes))[order]
        tensors = {}
        for i, (probe, counter) in enumerate(zip(self._probes, self._counters, strict=True)):
            total, squares = self._sums[2 * i : 2 * i + 2]
            tensors[probe.tensor] = TensorStats(
                lows=ends[:, 0, i].copy(),
                highs=ends[:, 1, i].copy(),
                size=int(self._size[i]),
                total=total,
                squares=squares,
                step=probe.rows.step if probe.rows is not None else 1,
                histogram=counter.histogram() if counter is not None else None,
                channels=self._channels[i],
            )
        return Stats(tensors, np.array(self._indices, np.int64)[order])


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
