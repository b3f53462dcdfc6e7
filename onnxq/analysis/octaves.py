"""How magnitudes are spread, by octaves: exact counts, few enough to print."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.calib.histogram import Histogram, HistogramCounter
from onnxq.graph.channels import by_channel

WhichChannels = Literal["worst", "all"]
"""Of which channels there are histograms."""

_SHOWN = 24
_MANTISSA = 10  # bits of a histogram's code below the exponent
_BIAS = np.finfo(np.float32).maxexp - 1
_INFINITE = 0xFF  # the exponent of what is not finite
_LONG = 1 << 11  # values of a channel from which on channels are counted one by one


@dataclass(frozen=True, slots=True)
class Octaves(DocumentPart):
    """How many magnitudes |x| lie in each octave.

    Attributes:
        zeros: values that are 0 (or less than 2^-136).
        below: other values under the first edge.
        edges: powers of two, one more than counts; 24 octaves at most, the greatest ones.
        counts: values with edges[i] <= |x| < edges[i + 1].
    """

    zeros: int
    below: int
    edges: tuple[float, ...]
    counts: tuple[int, ...]


def octaves_of(histogram: Histogram) -> Octaves:
    """The octaves of a histogram: its bins do not reach over the end of one."""
    held = np.flatnonzero(histogram.counts)
    if not len(held):
        return Octaves(histogram.zeros, 0, (), ())
    exponents = (held + histogram.first) >> _MANTISSA
    last = int(exponents[-1])
    first = max(1, int(exponents[0]), last - _SHOWN + 1)
    counts = np.zeros(last - first + 1, np.int64)
    inside = exponents >= first
    np.add.at(counts, exponents[inside] - first, histogram.counts[held][inside])
    edges = tuple(2.0 ** (exponent - _BIAS) for exponent in range(first, last + 2))
    below = int(histogram.counts[held][~inside].sum())
    return Octaves(histogram.zeros, below, edges, tuple(counts.tolist()))


def octaves(values: np.ndarray) -> Octaves:
    """The octaves of finite values of any shape, taken as float32."""
    counter = HistogramCounter()
    counter.add(values)
    return octaves_of(counter.histogram())


class ChannelOctaves:
    """The octaves of each channel while they grow: those of the 24 greatest of all channels.

    These only move up, so that the same values give the same counts in any order.
    """

    def __init__(self, channels: int) -> None:
        """Of none yet."""
        self._last = 0  # the exponent of the last octave
        self._counts = np.zeros((channels, _SHOWN + 1), np.int64)  # the first: of all that is below

    def add(self, lines: np.ndarray, top: float) -> None:
        """Adds values of a sample.

        Args:
            lines: float32 `[channels, values]`; what is not finite does not count.
            top: the greatest finite magnitude of them.
        """
        last = int(np.float32(top).view(np.uint32)) >> 23
        if last > self._last:
            self._move(last)
        # the sign, the exponent and 7 bits of the mantissa
        halves = np.ascontiguousarray(lines, "<f4").view("<u2").reshape(len(lines), -1)[:, 1::2]
        width, column = _SHOWN + 2, _columns(self._last)
        if lines.shape[1] >= _LONG:
            found = np.stack([np.bincount(column.take(one), minlength=width) for one in halves])
        else:
            places = column.take(halves)
            places += (np.arange(len(lines)) * width)[:, None]
            found = np.bincount(places.ravel(), minlength=len(lines) * width).reshape(-1, width)
        self._counts += found[:, :-1]

    def _move(self, last: int) -> None:
        by = min(last - self._last, _SHOWN)
        moved = np.zeros_like(self._counts)
        moved[:, 0] = self._counts[:, : by + 1].sum(1)
        moved[:, 1 : _SHOWN + 1 - by] = self._counts[:, by + 1 :]
        self._counts, self._last = moved, last

    def of(self, channel: int | None, zeros: int = 0) -> Octaves:
        """Those of a channel, or of all; `zeros`: how many of its values are 0, which else are below."""
        own = self._counts.sum(0) if channel is None else self._counts[channel]
        below, *counts = own.tolist()
        held = [place for place, count in enumerate(counts) if count]
        if not held:
            return Octaves(zeros, below - zeros, (), ())
        first = self._last - _SHOWN + 1 - _BIAS
        edges = tuple(2.0 ** (first + place) for place in range(held[0], held[-1] + 2))
        return Octaves(zeros, below - zeros, edges, tuple(counts[held[0] : held[-1] + 1]))


class ChannelSpread:
    """Channels over samples: their octaves, and the greatest magnitude of each."""

    def __init__(self, axis: int) -> None:
        """Of none yet; `axis`: that of the channels."""
        self._axis = axis
        self._tops = np.zeros(0, np.float32)
        self._octaves: ChannelOctaves | None = None
        self._differ = False

    def add(self, values: np.ndarray) -> None:
        """Adds a sample's values; where their channels differ in number, nothing is known any more."""
        if values.ndim <= self._axis or not values.size or self._differ:
            return
        lines = by_channel(np.asarray(values, np.float32), self._axis)
        tops = np.maximum(lines.max(1), -lines.min(1))
        if not np.isfinite(tops).all():
            tops = np.abs(np.where(np.isfinite(lines), lines, 0)).max(1)
        if self._octaves is None:
            self._octaves, self._tops = ChannelOctaves(len(lines)), np.zeros(len(lines), np.float32)
        if len(lines) != len(self._tops):
            self._differ = True
            return
        self._octaves.add(lines, float(tops.max()))
        self._tops = np.maximum(self._tops, tops)

    def widest(self, count: int) -> dict[int | None, Octaves]:
        """The octaves of all channels, and of those with the greatest values; empty where it is not known."""
        if self._octaves is None or self._differ or len(self._tops) < 2:
            return {}
        first = np.argsort(-self._tops, kind="stable")[:count]
        return {channel: self._octaves.of(channel) for channel in (None, *map(int, first))}


@functools.lru_cache(maxsize=16)
def _columns(last: int) -> np.ndarray:
    """The column of each pattern of 16 bits, where `last` is the exponent of the last octave."""
    exponents = np.arange(1 << 16) >> 7 & _INFINITE
    columns = np.clip(exponents - last + _SHOWN, 0, _SHOWN)
    return np.where(exponents == _INFINITE, _SHOWN + 1, np.where(exponents == 0, 0, columns))
