"""Statistics as a file: what `onnxq calibrate` writes, `--merge` merges and `quantize --stats` reads.

An .npz archive: `meta`, a JSON document, and the arrays that it does not hold. The same statistics
are the same bytes, from however many shards they were merged.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base import door, interrupts
from onnxq.base.errors import UserError, in_short
from onnxq.base.plain import to_json
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, number
from onnxq.base.shown import count as counted
from onnxq.base.typed import typed
from onnxq.calib.histogram import LAST, Histogram
from onnxq.calib.stats import ChannelStats, Stats, TensorStats, merge
from onnxq.data.samples import DIGEST, Sample, digest
from onnxq.data.understood import ImagesRead
from onnxq.data.warnings import DataDoubts
from onnxq.graph.validity import check_sizes

SUFFIX = ".stats.npz"
_SCHEMA = 1
_ROWS = 10
_SUM_BITS = 1000  # of a sum in units of 2^-149: 2^128 is no float32, and nobody has 2^700 samples
_MOST_SAMPLES = 2**24
_RUNS = 8  # of missing samples that are named


@dataclass(frozen=True, slots=True)
class SizeCount:
    """Samples of the same sizes.

    Attributes:
        shapes: the shape of each input in them.
        count: how many there were.
    """

    shapes: Mapping[str, tuple[int, ...]]
    count: int = field(metadata={"least": 1, "most": _MOST_SAMPLES})


def sizes_of(seen: Iterable[Mapping[str, tuple[int, ...]]]) -> tuple[SizeCount, ...]:
    """How many samples had which shapes, in the order in which these came first."""
    counts = Counter(tuple(shapes.items()) for shapes in seen)
    return tuple(SizeCount(dict(shapes), count) for shapes, count in counts.items())


@dataclass(frozen=True, slots=True)
class Origin:
    """What statistics were taken of; those of two shards are equal.

    Attributes:
        model: the model's hash, see `onnxq.graph.fingerprint`.
        counting: what the histograms are made of, see `onnxq.calib.collect.Counting`.
        samples: how many samples were chosen, all shards together.
        available: how many there were to choose from; None: they could be read once only.
        seed: what chose them.
        shapes: the shape of each input in the first of them.
        images: how images became input values, for each input that is fed images.
        chosen: the indices of those samples, ascending; none where they could be read once only.
        sizes: the shapes of all samples that a run reads of these data, by which it decides; none where one
            sample tells those of all, and in older files.
    """

    model: str
    counting: str
    samples: int
    available: int | None
    seed: int
    shapes: Mapping[str, tuple[int, ...]]
    images: tuple[ImagesRead, ...]
    chosen: tuple[int, ...] = ()
    sizes: tuple[SizeCount, ...] = ()

    @property
    def tells_sizes(self) -> bool:
        """Whether the sizes of all samples are known."""
        return bool(self.sizes)

    @property
    def seen(self) -> list[Mapping[str, tuple[int, ...]]]:
        """The shapes of each sample; where they are not known, those of one."""
        return [one.shapes for one in self.sizes for _ in range(one.count)] or [self.shapes]


@dataclass(frozen=True, slots=True, repr=False)
class StatsFile(Shown):
    """What a file holds.

    Attributes:
        stats: the statistics.
        origin: what they were taken of.
        digests: the hash of each sample, uint8 [samples, 16], in the order of the indices.
        lines: how the data were understood, in words.
        skipped: place and fault of bad samples that were left out, sorted; of 20 in a shard.
        left_out: the indices of all that were left out, ascending.
        doubts: what is doubtful about the data, see `onnxq.data.glance`: of the run that took the
            statistics, and not in the file, so that shards are the same bytes as one run.
    """

    stats: Stats
    origin: Origin
    digests: np.ndarray
    lines: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    left_out: tuple[int, ...] = ()
    doubts: DataDoubts = field(default_factory=DataDoubts, compare=False)

    def words(self) -> Words:
        """Of how many samples it is, what is missing, and the widest tensors."""
        missing = len(self.missing)
        facts = [
            *self.lines,
            f"{missing:,} of the chosen samples are missing: {self.missing_text()}" if missing else "",
            f"{counted(len(self.left_out), 'bad sample')} left out" if self.left_out else "",
        ]
        held = self.stats.tensors
        head = f"statistics of {counted(len(held), 'tensor')}, {counted(self.stats.samples, 'sample')}"
        widest = sorted(held.items(), key=lambda entry: -max(-entry[1].min, entry[1].max))
        rows = [(name, number(one.min), number(one.max)) for name, one in widest[:_ROWS]]
        return Words(head, facts, ("tensor", "min", "max"), rows)

    @property
    def missing(self) -> list[int]:
        """The chosen samples that were neither taken nor left out: those of other shards. Ascending."""
        done = {*self.stats.indices.tolist(), *self.left_out}
        return [index for index in self.origin.chosen if index not in done]

    def missing_text(self) -> str:
        """The missing samples by index, in ranges of what was chosen: "4-9, 12, +3 more"."""
        gone = set(self.missing)
        runs = [
            list(run)
            for held, run in itertools.groupby(self.origin.chosen, lambda i: i not in gone)
            if not held
        ]
        parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
        return ", ".join(parts[:_RUNS] + [f"+{len(parts) - _RUNS} more"] * (len(parts) > _RUNS))

    @property
    def data_hash(self) -> str:
        """The hash of all samples, which does not depend on the order in which they were run."""
        return hashlib.sha256(self.stats.indices.tobytes() + self.digests.tobytes()).hexdigest()


@dataclass(slots=True)
class Digests:
    """The hashes of the samples that pass by, by index."""

    found: dict[int, bytes] = field(default_factory=dict)

    def watch(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """The samples."""
        for sample in samples:
            self.found[sample.index] = digest(sample)
            yield sample

    def of(self, indices: np.ndarray) -> np.ndarray:
        """Those of these samples, uint8 [samples, 16]."""
        joined = b"".join(self.found[int(index)] for index in indices)
        return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST)


def merge_files(parts: Sequence[StatsFile]) -> StatsFile:
    """The statistics of all samples of the parts; the same bits for any parts in any order.

    A part may have no samples, where there were more shards than samples, or all of them were bad.

    Raises:
        UserError: they are of different models or data, or share a sample.
    """
    first = parts[0].origin
    for part in parts[1:]:
        if difference := _difference(first, part.origin):
            raise UserError(
                f"the statistics differ in {difference}",
                hint="merge shards of one data set that were taken of the same model with the same flags",
            )
    held = [part for part in parts if part.stats.samples] or parts[:1]
    stats = merge([part.stats for part in held])
    indices = np.concatenate([part.stats.indices for part in held])
    digests = np.concatenate([part.digests for part in held])[np.argsort(indices, kind="stable")]
    skipped = sorted({entry for part in parts for entry in part.skipped})
    left_out = sorted({index for part in parts for index in part.left_out})
    earliest = min(held, key=lambda part: part.stats.indices[:1].tolist())
    return StatsFile(stats, first, digests, earliest.lines, tuple(skipped), tuple(left_out))


def _difference(one: Origin, other: Origin) -> str:
    """In what two origins differ, "" where in nothing."""
    if one.model != other.model:
        return say("shards-differ.model", a=one.model[:12], b=other.model[:12])
    for name in ("counting", "samples", "available", "seed", "shapes", "images", "chosen", "sizes"):
        a, b = getattr(one, name), getattr(other, name)
        if name == "images":
            a, b = (tuple(map(to_json, images)) for images in (a, b))
        if a != b:
            return say(f"shards-differ.{name}", a=a, b=b)
    return ""


def is_statistics(path: Path) -> bool:
    """Whether a file holds statistics, whole."""
    try:
        read(path)
    except UserError:
        return False
    return True


def write(file: StatsFile, path: Path) -> None:
    """Writes a file, whole or not at all.

    Raises:
        UserError: it cannot be written.
    """
    data = to_bytes(file)
    try:
        with interrupts.held_back(), interrupts.Folder(path.parent) as folder:
            stage = Path(folder, path.name)
            stage.write_bytes(data)
            os.replace(stage, path)
    except OSError as error:
        raise UserError(f"cannot write {str(path)!r}: {error.strerror}", hint="is the disk full?") from error


def to_bytes(file: StatsFile) -> bytes:
    """A file's content."""
    tensors = file.stats.tensors.values()
    histograms = [t.histogram for t in tensors if t.histogram is not None]
    channels = [t.channels for t in tensors if t.channels is not None]
    meta = {
        "onnxq_stats": _SCHEMA,
        "origin": {
            "model": file.origin.model,
            "counting": file.origin.counting,
            "samples": file.origin.samples,
            "available": file.origin.available,
            "seed": file.origin.seed,
            "shapes": {name: list(shape) for name, shape in file.origin.shapes.items()},
            "images": to_json(file.origin.images),
            "chosen": file.origin.chosen,
            "sizes": [asdict(one) for one in file.origin.sizes],
        },
        "lines": file.lines,
        "data_hash": file.data_hash,
        "skipped": file.skipped,
        "left_out": file.left_out,
        "tensors": {name: _tensor_meta(entry) for name, entry in file.stats.tensors.items()},
    }
    arrays: dict[str, Any] = {
        "meta": np.frombuffer(json.dumps(meta, ensure_ascii=True).encode(), np.uint8),
        "indices": file.stats.indices,
        "digests": file.digests,
        "lows": _stacked([t.lows for t in tensors], np.float32),
        "highs": _stacked([t.highs for t in tensors], np.float32),
        "counts": _joined([h.counts for h in histograms], np.int64),
        "channel_lows": _joined([c.low for c in channels], np.float32),
        "channel_highs": _joined([c.high for c in channels], np.float32),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _stacked(rows: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.stack(rows) if rows else np.zeros((0, 0), dtype)


def _joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def _tensor_meta(entry: TensorStats) -> dict[str, Any]:
    """What is no array; the sums are integers of any length, as text."""
    meta: dict[str, Any] = {
        "size": entry.size,
        "total": _text(entry.total),
        "squares": _text(entry.squares),
        "step": entry.step,
    }
    if entry.spread is not None:
        meta["spread"] = entry.spread
    if entry.histogram is not None:
        h = entry.histogram
        meta["histogram"] = {"zeros": h.zeros, "first": h.first, "bins": len(h.counts)}
    if entry.channels is not None:
        c = entry.channels
        meta["channels"] = {"axis": c.axis, "count": c.count, "sums": [_text(s) for s in c.sums]}
    return meta


def _text(units: int | None) -> str | None:
    return None if units is None else f"{units:x}"


def _units(text: str | None) -> int | None:
    units = None if text is None else int(text, 16)
    if units is not None and units.bit_length() > _SUM_BITS:
        raise ValueError("a sum is larger than any of float32 values")
    return units


_HINT = "give a file that `onnxq calibrate` wrote, or a TensorRT calibration cache"


def read(path: Path, *, hint: str = _HINT) -> StatsFile:
    """Reads a file.

    Args:
        path: the file.
        hint: what to do where it holds no statistics.

    Raises:
        UserError: it is not there, is no such file, or is damaged.
    """
    try:
        return _parse(door.content(path))
    except OSError as error:
        raise UserError(f"cannot read {str(path)!r}: {error.strerror}", hint="check the path") from error
    except Exception as error:  # zipfile, zlib, json and numpy have a dozen classes for damage
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise UserError(f"{str(path)!r} holds no statistics, or is damaged: {why}", hint=hint) from error


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """The members of an archive."""
    if not content.startswith(b"PK"):
        raise ValueError("it is no .npz archive")
    arrays = {}
    door.check_archive(content)
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        for name in archive.files:
            try:
                arrays[name] = archive[name]
            except ValueError as error:  # objects, say
                raise ValueError(f"its {name!r} is no array of numbers") from error
    return arrays


def _parse(content: bytes) -> StatsFile:
    arrays = _arrays(content)
    plain = json.loads(arrays["meta"].tobytes())
    if isinstance(plain, dict) and plain.get("onnxq_stats", _SCHEMA) != _SCHEMA:
        raise ValueError(f"it has schema {in_short(plain['onnxq_stats'])}, this onnxq reads {_SCHEMA}")
    meta = typed(_Meta, plain)
    if sum(one.count for one in meta.origin.sizes) > _MOST_SAMPLES:
        raise ValueError("it is of more samples than anybody has")
    for shapes in (meta.origin.shapes, *(one.shapes for one in meta.origin.sizes)):
        check_sizes(shapes.items())
    counts, lows, highs = (iter(_cut(arrays, meta, *what)) for what in _PARTS)
    _check_arrays(arrays, len(meta.tensors))
    tensors = {}
    for i, (name, entry) in enumerate(meta.tensors.items()):
        histogram = channels = None
        if (h := entry.histogram) is not None:
            histogram = Histogram(h.zeros, h.first, next(counts))
        if (c := entry.channels) is not None:
            channels = ChannelStats(c.axis, next(lows), next(highs), tuple(map(_units, c.sums)), c.count)
        tensors[name] = TensorStats(
            arrays["lows"][i], arrays["highs"][i], entry.size, _units(entry.total), _units(entry.squares),
            entry.step, histogram, channels, entry.spread,
        )  # fmt: skip
        _check_histogram(name, tensors[name])
    file = StatsFile(
        Stats(tensors, arrays["indices"]),
        meta.origin,
        arrays["digests"],
        meta.lines,
        meta.skipped,
        meta.left_out,
    )
    if file.data_hash != meta.data_hash:
        raise ValueError("its hash is not that of its content")
    return file


_INT64 = (1 << 63) - 1
_NONE = {"least": 0, "most": _INT64}
_SOME = {"least": 1, "most": _INT64}


@dataclass(frozen=True, slots=True)
class _HistogramMeta:
    """What a histogram says beside its counts."""

    zeros: int = field(metadata=_NONE)
    first: int = field(metadata={"least": 1, "most": LAST})
    bins: int = field(metadata=_NONE)


@dataclass(frozen=True, slots=True)
class _ChannelsMeta:
    """What channels say beside their ends."""

    axis: int = field(metadata=_NONE)
    count: int = field(metadata=_SOME)
    sums: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _TensorMeta:
    """What a tensor says beside its ends, see `_tensor_meta`."""

    size: int = field(metadata=_NONE)
    total: str | None
    squares: str | None
    step: int = field(metadata=_SOME)
    spread: int | None = field(default=None, metadata={"least": 1})
    histogram: _HistogramMeta | None = None
    channels: _ChannelsMeta | None = None


@dataclass(frozen=True, slots=True)
class _Meta:
    """The document of a file."""

    onnxq_stats: int
    origin: Origin
    lines: tuple[str, ...]
    data_hash: str
    skipped: tuple[tuple[str, str], ...]
    tensors: Mapping[str, _TensorMeta]
    left_out: tuple[int, ...] = ()  # older files do not say


_DIMS: Mapping[str, tuple[type, int]] = {
    "indices": (np.int64, 1), "digests": (np.uint8, 2), "lows": (np.float32, 2), "highs": (np.float32, 2),
    "counts": (np.int64, 1), "channel_lows": (np.float32, 1), "channel_highs": (np.float32, 1),
}  # fmt: skip
"""The type of each array, and how many dimensions it has."""


def _check_arrays(arrays: Mapping[str, np.ndarray], tensors: int) -> None:
    """Refuses arrays of another type or shape than is written.

    Raises:
        ValueError: there is one.
        KeyError: one is not there.
    """
    for name, (dtype, rank) in _DIMS.items():
        array = arrays[name]
        if array.dtype != dtype or array.ndim != rank:
            form = f"{np.dtype(dtype)} of {counted(rank, 'dimension')}"
            raise ValueError(f"its {name!r} is {array.dtype} of shape {array.shape}, not {form}")
    samples = len(arrays["indices"])
    if np.any(np.diff(arrays["indices"]) <= 0):
        raise ValueError("its samples are not in the order of their indices")
    ends = (tensors, samples) if tensors else (0, 0)
    for name, shape in (("digests", (samples, DIGEST)), ("lows", ends), ("highs", ends)):
        if arrays[name].shape != shape:
            raise ValueError(f"its {name!r} is of shape {arrays[name].shape}, not {shape}")
    for low, high in (("lows", "highs"), ("channel_lows", "channel_highs")):
        a, b = arrays[low], arrays[high]
        empty = np.isposinf(a) & np.isneginf(b)
        if a.shape != b.shape or not np.all(empty | (np.isfinite(a) & np.isfinite(b) & (a <= b))):
            raise ValueError(f"its {low!r} and {high!r} are no least and greatest values")
    if np.any(arrays["counts"] < 0):
        raise ValueError("a bin of a histogram counts less than nothing")


def _check_histogram(name: str, tensor: TensorStats) -> None:
    """Refuses a tensor whose histogram has more values, or ends elsewhere, than the tensor.

    Raises:
        ValueError: it does.
    """
    histogram = tensor.histogram
    if histogram is None or not histogram.total:
        return
    if tensor.spread is None and histogram.total > tensor.size:
        raise ValueError(f"the histogram of tensor {name!r} is of more values than there were")
    if not histogram.ends_at(tensor.amax, whole=histogram.total == tensor.size and tensor.spread is None):
        raise ValueError(
            f"the greatest magnitude of tensor {name!r} is {tensor.amax:.6g}, and its histogram "
            f"ends at {histogram.edges[-1]:.6g}"
        )


_PARTS = (
    ("counts", "histogram", lambda entry: entry.bins),
    ("channel_lows", "channels", lambda entry: len(entry.sums)),
    ("channel_highs", "channels", lambda entry: len(entry.sums)),
)


def _cut(
    arrays: Mapping[str, np.ndarray], meta: _Meta, name: str, part: str, length: Callable[[Any], int]
) -> list[np.ndarray]:
    """The joined arrays of all tensors, one for each that has it."""
    held = [getattr(entry, part) for entry in meta.tensors.values()]
    lengths = [length(one) for one in held if one is not None]
    joined = arrays[name]
    if sum(lengths) != len(joined):
        raise ValueError(f"{name} has {len(joined)} entries instead of {sum(lengths)}")
    return np.split(joined, np.cumsum(lengths)[:-1]) if lengths else []
