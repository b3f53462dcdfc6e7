"""What calibration knows of tensors: statistics that merge to the same bits, whoever took which sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxq.base.errors import UserError
from onnxq.calib.histogram import Histogram

_UNIT = 149
"""Every float32 is a multiple of 2^-149, so that a sum of them is an integer of such units."""


def exact(values: np.ndarray) -> list[int | None]:
    """Float32 values as integers of 2^-149, whose sum does not depend on the order; None where infinite."""
    scaled = np.ldexp(values.astype(np.float64), _UNIT)
    return [int(value) if math.isfinite(value) else None for value in scaled.tolist()]


def add_exact(one: Sequence[int | None], other: Sequence[int | None]) -> list[int | None]:
    """The sums of two sequences, None where one of them is."""
    return [None if a is None or b is None else a + b for a, b in zip(one, other, strict=True)]


def _real(units: int, count: int) -> float:
    """A sum over its count; a division of integers, which is rounded once."""
    return units / (count << _UNIT)


@dataclass(frozen=True, slots=True)
class ChannelStats:
    """What is known of each channel of a tensor.

    Attributes:
        axis: the channel axis.
        low: the least value, float32 [channels].
        high: the greatest value, float32 [channels].
        sums: the sum in units of 2^-149; None where it overflowed.
        count: values in a channel.
    """

    axis: int
    low: np.ndarray
    high: np.ndarray
    sums: tuple[int | None, ...]
    count: int

    @property
    def amax(self) -> np.ndarray:
        """The greatest magnitude of each channel, float32 [channels]."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    @property
    def mean(self) -> np.ndarray:
        """The mean of each channel, float64 [channels]; NaN where its sum overflowed."""
        return np.array([math.nan if s is None else _real(s, self.count) for s in self.sums])

    def merge(self, other: ChannelStats) -> ChannelStats:
        """Those of the values of both.

        Raises:
            UserError: the tensors differ in their channels.
        """
        if len(self.sums) != len(other.sums) or self.axis != other.axis:
            raise UserError(
                f"a tensor has {len(self.sums)} channels in one sample and {len(other.sums)} in another"
            )
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        sums = tuple(add_exact(self.sums, other.sums))
        return ChannelStats(self.axis, low, high, sums, self.count + other.count)


@dataclass(frozen=True, slots=True)
class TensorStats:
    """What is known of a tensor.

    Attributes:
        lows: its least value in each sample, float32 [samples]; +inf in one where it has no values.
        highs: its greatest value in each sample, float32 [samples]; -inf where it has none.
        size: values over all samples.
        total: their sum, in units of 2^-149; each sample's is rounded to float32. None where one
            overflowed.
        squares: the sum of their squares, likewise.
        step: the histogram is of every so many-th row of a sample; 1: of all. Where samples differ in size,
            the least step of one of them.
        histogram: of their magnitudes; None where only ranges were asked for. A value of a sample that was
            counted with a step k times the least one counts k times.
        channels: what is known of each channel, where it was asked for.
        spread: the sum of the squares of how often each counted value counts; None where each does once.
    """

    lows: np.ndarray
    highs: np.ndarray
    size: int
    total: int | None
    squares: int | None
    step: int = 1
    histogram: Histogram | None = None
    channels: ChannelStats | None = None
    spread: int | None = None

    @property
    def min(self) -> float:
        """The least value."""
        return float(self.lows.min())

    @property
    def max(self) -> float:
        """The greatest value."""
        return float(self.highs.max())

    @property
    def amax(self) -> float:
        """The greatest magnitude."""
        return max(abs(self.min), abs(self.max))

    @property
    def amaxes(self) -> np.ndarray:
        """The greatest magnitude in each sample that has values, float32."""
        held = self.lows <= self.highs
        return np.asarray(np.maximum(np.abs(self.lows[held]), np.abs(self.highs[held])))

    @property
    def mean(self) -> float | None:
        """The mean; None where the sum overflowed."""
        return None if self.total is None or not self.size else _real(self.total, self.size)

    @property
    def variance(self) -> float | None:
        """The variance, E[x^2] - E[x]^2: near 0 it is as inexact as float32 sums; None as above."""
        if self.mean is None or self.squares is None:
            return None
        return max(0.0, _real(self.squares, self.size) - self.mean**2)

    @property
    def sampling_error(self) -> float:
        """The standard error of a fraction p near 1, in units of sqrt(1 - p); 0 if all values were counted.

        Of n values of N, the share above a threshold that a fraction 1 - p exceeds has the standard
        error sqrt((1 - p) / n x (1 - n / N)) where values are independent (Cochran, "Sampling
        Techniques", 1977, section 3.2); rows of one activation are less than that.
        """
        counted = self.counted
        if not counted or counted >= self.size:
            return 0.0
        return math.sqrt((1.0 - counted / self.size) / counted)

    @property
    def counted(self) -> int:
        """How many values were counted; where some count more often than others, as many as tell as much.

        That is (sum of weights)^2 / sum of their squares (Kish, "Survey Sampling", 1965, section 11.7).
        """
        total = self.histogram.total if self.histogram is not None else 0
        return total if self.spread is None else total * total // self.spread


@dataclass(frozen=True, slots=True)
class Stats:
    """What calibration saw.

    Attributes:
        tensors: by name.
        indices: the samples' places in the data set, ascending, int64 [samples].
        seconds: how long it took.
    """

    tensors: dict[str, TensorStats] = field(default_factory=dict)
    indices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: float = 0.0

    @property
    def samples(self) -> int:
        """How many samples were run."""
        return len(self.indices)

    def without_values(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of some tensors those that were measured and never had a value."""
        return tuple(name for name in names if name in self.tensors and not self.tensors[name].size)


@dataclass(frozen=True, slots=True)
class Counts:
    """A histogram with what its counts stand for: the fields of `TensorStats` of these names."""

    step: int = 1
    histogram: Histogram | None = None
    spread: int | None = None


def add_counts(parts: Sequence[Counts]) -> Counts:
    """The counts of all parts, in units of the least step; the same bits for any parts in any order.

    A sum of integers: each value stands for as many as its step, whatever the unit.
    """
    full = [part for part in parts if part.histogram is not None and part.histogram.total]
    full = full or [min(parts, key=lambda part: part.step)]
    step = min(part.step for part in full)
    histogram: Histogram | None = None
    spread = 0
    for part in full:
        if part.histogram is None:
            continue
        factor = part.step // step
        scaled = part.histogram.times(factor)
        histogram = scaled if histogram is None else histogram.merge(scaled)
        own = part.histogram.total if part.spread is None else part.spread
        spread += own * factor * factor
    even = histogram is None or spread == histogram.total
    return Counts(step, histogram, None if even else spread)


def merge(parts: Iterable[Stats]) -> Stats:
    """The statistics of all samples of the parts; the same bits for any parts in any order.

    Raises:
        UserError: parts share a sample, or are of other tensors, or counted other rows.
    """
    parts = list(parts)
    indices = np.concatenate([part.indices for part in parts])
    order = np.argsort(indices, kind="stable")
    twice = np.flatnonzero(np.diff(indices[order]) == 0)
    if len(twice):
        raise UserError(
            f"sample {indices[order][twice[0]]} is in two of the statistics ({len(twice)} samples are)",
            hint="merge statistics of different samples: those of --shard 1/4, 2/4, 3/4 and 4/4, say",
        )
    names = list(parts[0].tensors)
    for part in parts[1:]:
        if other := set(part.tensors) ^ set(names):
            raise UserError(
                f"the statistics are of different tensors: {min(other)!r} is in one of them only",
                hint="take them all from the same model with the same flags",
            )
    tensors = {name: _merged(name, [part.tensors[name] for part in parts], order) for name in names}
    return Stats(tensors, indices[order], sum(part.seconds for part in parts))


def _merged(name: str, parts: Sequence[TensorStats], order: np.ndarray) -> TensorStats:
    first, *others = parts
    total, squares, channels = [first.total], [first.squares], first.channels
    counted = {part.histogram is None for part in parts}
    told_apart = {part.channels is not None for part in parts if part.size}  # without values there are none
    if len(counted) > 1 or len(told_apart) > 1:
        raise UserError(
            f"tensor {name!r} was counted otherwise in one of the statistics than in another",
            hint="take all shards with the same flags, of the same number of samples",
        )
    counts = add_counts([Counts(part.step, part.histogram, part.spread) for part in parts])
    for part in others:
        total, squares = add_exact(total, [part.total]), add_exact(squares, [part.squares])
        if part.channels is not None:
            channels = part.channels if channels is None else channels.merge(part.channels)
    return TensorStats(
        np.concatenate([part.lows for part in parts])[order],
        np.concatenate([part.highs for part in parts])[order],
        sum(part.size for part in parts),
        total[0],
        squares[0],
        counts.step,
        counts.histogram,
        channels,
        counts.spread,
    )
