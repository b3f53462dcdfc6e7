"""Histograms of magnitudes whose bins are leading bits of floats: no range to choose, merged exactly."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

_SHIFT = 13
_OCTAVE = 1 << (23 - _SHIFT)
_MAGNITUDE = 0x7FFFFFFF  # all of a float32's pattern but the sign

LAST = 0x7F7FFFFF >> _SHIFT
"""The code of the greatest float32."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often magnitudes |x| of float32 values occur.

    A bin is a code: the 8 bits of the exponent and the first 10 of the mantissa, so that an octave
    has 1,024 bins of equal width, and every finite float32 has a bin from the start. Counts are
    integers: histograms merge to the same bits in any order.

    Attributes:
        zeros: how many values are 0 (or less than 2^-136, whose code is 0).
        first: the code of `counts[0]`, at least 1.
        counts: int64 [bins], of consecutive codes; empty, or neither the first nor the last is 0.
    """

    zeros: int = 0
    first: int = 1
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def total(self) -> int:
        """How many values were counted."""
        return self.zeros + int(self.counts.sum())

    @property
    def edges(self) -> np.ndarray:
        """The edges of the bins, float64 [bins + 1]; a value on one is in the bin above."""
        return _value_of(np.arange(self.first, self.first + len(self.counts) + 1))

    @property
    def centers(self) -> np.ndarray:
        """The middle of each bin, float64 [bins]."""
        edges = self.edges
        return np.asarray((edges[:-1] + edges[1:]) / 2)

    def ends_at(self, magnitude: float, *, whole: bool) -> bool:
        """Whether a magnitude can be the greatest of the values; `whole`: all of them were counted.

        Of values that were not all counted it may be in no bin, but above them all.
        """
        edges = np.append(0.0, self.edges) if len(self.counts) else np.array([0.0, *_value_of(np.array([1]))])
        return bool(edges[-2] <= magnitude and (magnitude < edges[-1] or not whole))

    def coarse(self, top: float, bins: int) -> np.ndarray:
        """The same values in few bins of equal width, for a drawing.

        Args:
            top: the upper edge of the last bin, above 0; what is above it counts there.
            bins: how many bins there are from 0 on.

        Returns:
            Counts, int64 [bins].
        """
        places = np.minimum(self.centers * (bins / top), bins - 1).astype(np.int64)
        counts = np.zeros(bins, np.int64)
        np.add.at(counts, places, self.counts)
        counts[0] += self.zeros
        return counts

    def times(self, factor: int) -> Histogram:
        """The histogram in which each value counts `factor` times."""
        return Histogram(self.zeros * factor, self.first, self.counts * factor) if factor != 1 else self

    def affine(self, scale: float, offset: float) -> Histogram:
        """The histogram of |scale |x| + offset|, each bin's values taken for its middle."""
        with np.errstate(over="ignore"):
            moved = np.abs(np.append(self.centers, 0.0) * scale + offset).astype(np.float32)
        codes = (np.minimum(moved, np.finfo(np.float32).max).view(np.uint32) >> np.uint32(_SHIFT)).astype(int)
        held = np.append(self.counts, self.zeros)
        zeros, codes, held = int(held[codes == 0].sum()), codes[codes > 0], held[codes > 0]
        codes, held = codes[held > 0], held[held > 0]
        if not len(codes):
            return Histogram(zeros)
        first = int(codes.min())
        counts = np.zeros(int(codes.max()) - first + 1, np.int64)
        np.add.at(counts, codes - first, held)
        return Histogram(zeros, first, counts)

    def merge(self, other: Histogram) -> Histogram:
        """The histogram of the values of both."""
        if not len(self.counts) or not len(other.counts):
            larger = self if len(self.counts) else other
            return Histogram(self.zeros + other.zeros, larger.first, larger.counts)
        first = min(self.first, other.first)
        end = max(self.first + len(self.counts), other.first + len(other.counts))
        counts = np.zeros(end - first, np.int64)
        for part in (self, other):
            counts[part.first - first :][: len(part.counts)] += part.counts
        return Histogram(self.zeros + other.zeros, first, counts)


def _value_of(codes: np.ndarray) -> np.ndarray:
    """The least magnitude of each code, float64."""
    patterns: np.ndarray = codes.astype(np.uint32) << np.uint32(_SHIFT)
    return patterns.view(np.float32).astype(np.float64)


class Scratch:
    """Memory for blocks of values: to ask the system for it anew takes longer than to count them."""

    def __init__(self, block: int = 1 << 16) -> None:
        """Memory for blocks of so many values."""
        self.codes = np.empty(block, np.uint32)
        self.places = np.empty(block, np.int64)


class HistogramCounter:
    """Counts values into a histogram; few values at a time are kept until there are enough."""

    def __init__(self, block: int = 1 << 16, scratch: Scratch | None = None) -> None:
        """An empty one.

        Args:
            block: how many values are kept until they are counted.
            scratch: memory that counters which take turns can share, of at least so many values: as many are
                counted at a time.
        """
        self._waiting = np.empty(0, np.uint32)
        self._filled = 0
        self._block = block
        self._scratch = scratch or Scratch(block)
        self._zeros = 0
        self._first = 1
        self._counts = np.zeros(0, np.int64)

    def add(self, values: np.ndarray) -> None:
        """Counts finite float32 values of any shape."""
        bits = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32)
        if self._filled + len(bits) < self._block:
            if not len(self._waiting):
                self._waiting = np.empty(self._block, np.uint32)
            self._waiting[self._filled : self._filled + len(bits)] = bits
            self._filled += len(bits)
            return
        step = len(self._scratch.codes)
        for start in range(0, len(bits), step):
            self._count(bits[start : start + step])

    def settle(self) -> None:
        """Counts what waits, and gives its memory back."""
        self._count(self._waiting[: self._filled])
        self._filled = 0
        self._waiting = np.empty(0, np.uint32)

    def histogram(self) -> Histogram:
        """What was counted so far."""
        self._count(self._waiting[: self._filled])
        self._filled = 0
        codes = np.flatnonzero(self._counts)
        if not len(codes):
            return Histogram(self._zeros)
        low, high = int(codes[0]), int(codes[-1]) + 1
        return Histogram(self._zeros, self._first + low, self._counts[low:high].copy())

    def _count(self, bits: np.ndarray) -> None:
        if not len(bits):
            return
        codes = np.bitwise_and(bits, np.uint32(_MAGNITUDE), out=self._scratch.codes[: len(bits)])
        codes >>= np.uint32(_SHIFT)
        self._reach(int(codes.max()))
        zeros = len(codes) - int(np.count_nonzero(codes))
        self._zeros += zeros
        # below the first code, zeros above all, the difference wraps around to beyond the last
        codes -= np.uint32(self._first)
        last = len(self._counts)
        places = self._scratch.places[: len(bits)]
        places[:] = np.minimum(codes, np.uint32(last), out=codes)
        counts = np.bincount(places, minlength=last + 1)
        self._counts += counts[:last]
        if counts[last] > zeros:
            low = (bits & np.uint32(_MAGNITUDE)) >> np.uint32(_SHIFT)
            self._count_low(low[(low > 0) & (low < self._first)])

    def _count_low(self, codes: np.ndarray) -> None:
        """Counts codes below the first one, after making room for them."""
        first = (int(codes.min()) - 1) // _OCTAVE * _OCTAVE + 1
        self._counts = np.concatenate([np.zeros(self._first - first, np.int64), self._counts])
        self._first = first
        self._counts += np.bincount(codes - np.uint32(first), minlength=len(self._counts))

    def _reach(self, code: int) -> None:
        """Makes room for codes up to this one."""
        end = code // _OCTAVE * _OCTAVE + _OCTAVE + 1
        if not len(self._counts) and code:
            # most values are within some octaves below the greatest; there may be 10,000 counters
            self._first = max(1, end - 4 * _OCTAVE)
        missing = end - self._first - len(self._counts)
        if code and missing > 0:
            self._counts = np.concatenate([self._counts, np.zeros(missing, np.int64)])
