"""The error of quantization, from a histogram, and the threshold of the least error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onnxq.calib.histogram import Histogram
from onnxq.formats import INT8, NumberFormat
from onnxq.judge.sqnr import sqnr_db

_OCTAVES = 14
_PER_OCTAVE = 32  # candidates of the coarse grid
_BEST = 4  # candidates around which is searched on
_FINER = 16  # times, in each of the rounds
_ROUNDS = 2


def mse_threshold(histogram: Histogram, amax: float, format: NumberFormat = INT8) -> float:
    """The threshold of the least mean squared error.

    The error is searched on a geometric grid from `amax` down, until clipping alone is worse than the
    best error so far, then twice on finer grids around the best few: it has many shallow minima.

    Args:
        histogram: of the magnitudes, not empty.
        amax: the greatest magnitude, above 0.
        format: what the values are quantized to.

    Returns:
        The threshold, at most `amax`.
    """
    sums = _Sums.of(histogram, format, amax)
    octaves = amax * np.exp2(-np.arange(_OCTAVES * _PER_OCTAVE) / _PER_OCTAVE).reshape(_OCTAVES, -1)
    errors = np.zeros(0)
    for octave in octaves:
        errors = np.append(errors, sums.errors(octave))
        if sums.clipping(octave[-1]) > errors.min():
            break
    tried, step = octaves.reshape(-1)[: len(errors)], np.exp2(1 / _PER_OCTAVE) - 1
    for _ in range(_ROUNDS):
        best = tried[np.argsort(errors, kind="stable")[:_BEST]]
        around = best * (1 + np.linspace(-step, step, 2 * _FINER + 1).reshape(-1, 1))
        tried = np.minimum(around, amax).reshape(-1)
        errors = sums.errors(tried)
        step /= _FINER
    return float(tried[np.argmin(errors)])


def noise(histogram: Histogram, threshold: float, format: NumberFormat = INT8) -> float:
    """The mean squared error of the numbers of a format at a threshold, zeros counted.

    Values are taken to be in the middle of their bins, which is below 2^-11 off, and no error below
    2^-22 of a value's square means anything.
    """
    return float(_Sums.of(histogram, format).errors(np.array([threshold]))[0])


def sqnr_at(histogram: Histogram, threshold: float, format: NumberFormat = INT8) -> float:
    """The signal-to-quantization-noise ratio at a threshold, dB."""
    signal, error = _Sums.of(histogram, format).errors(np.array([0.0, threshold])).tolist()
    return sqnr_db(signal, error)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over all bins from one on, so that a candidate costs a search for each of its codes' bounds.

    Attributes:
        values: the magnitude that stands for each bin, float64 [bins].
        counts: how many are in this bin and above, float64 [bins + 1].
        firsts: the sum of their magnitudes, likewise.
        seconds: the sum of their squares, likewise.
        total: how many values there are, zeros included.
        numbers: those of the format, 0 and above, float64.
    """

    values: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray
    seconds: np.ndarray
    total: int
    numbers: np.ndarray

    @classmethod
    def of(cls, histogram: Histogram, format: NumberFormat, amax: float = math.inf) -> _Sums:
        values = histogram.centers
        if len(values) and histogram.edges[-2] <= amax < histogram.edges[-1]:
            values[-1] = amax  # where a Clip, a Tanh or a lone outlier has all of the last bin
        counts = histogram.counts.astype(np.float64)
        zeroth, first, second = (_from_each_on(counts * values**power) for power in range(3))
        return cls(values, zeroth, first, second, histogram.total, np.append(0.0, format.magnitudes))

    def errors(self, thresholds: np.ndarray) -> np.ndarray:
        """The mean squared error at each threshold, float64 [thresholds].

        With s = T / the greatest number, and number q for |x| from halfway behind the one before it, p, on,
        summed by parts over the numbers:
        sum((|x| - q s)^2) = sum(x^2) - 2 s sum_q (q - p) A1(q) + s^2 sum_q (q^2 - p^2) A0(q), in which A0 and
        A1 are the count and the sum of the magnitudes from (p + q) s / 2 on.
        """
        scales = thresholds.reshape(-1, 1) / self.numbers[-1]
        sums, gaps = self.numbers[1:] + self.numbers[:-1], np.diff(self.numbers)
        places = np.searchsorted(self.values, scales * (sums / 2))
        steps = scales**2 * self.counts[places] * (sums * gaps) - 2 * scales * self.firsts[places] * gaps
        error: np.ndarray = np.maximum(self.seconds[0] + steps.sum(axis=1), 0.0) / max(self.total, 1)
        return error

    def clipping(self, threshold: float) -> float:
        """The part of the mean squared error that values beyond a threshold have."""
        place = np.searchsorted(self.values, threshold)
        beyond = self.seconds[place] - 2 * threshold * self.firsts[place]
        return float(beyond + threshold**2 * self.counts[place]) / self.total


def _from_each_on(values: np.ndarray) -> np.ndarray:
    """The sum of the values from each one on, float64 [values + 1]."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)
