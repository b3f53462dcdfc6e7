"""Signal and noise: ratios of powers in dB, and what meters gather of values, about zero and about means."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from onnxq.judge.comparable import NOT_COMPARED, STILL, UNWEIGHED, as_tensor, is_comparable

BEST_DB = 200.0
"""What counts as no noise at all, dB, where figures are limited."""

LOUDEST = 1e6
"""Times the signal: noise that is infinite counts as so much."""

ROUNDING = 1e-9
"""Noise-to-signal ratio: what is less is float rounding, where operators are fused otherwise."""

ALIKE = 1e-6
"""Of the greatest magnitude: what varies by less is one value, but for rounding."""

_Ratio = TypeVar("_Ratio", float, np.ndarray)


def power_db(ratio: _Ratio) -> _Ratio:
    """Ratios of powers in dB, 10 log10 of them: -inf of 0; of one number that is none as well."""
    if isinstance(ratio, float):
        return 10 * math.log10(ratio) if ratio > 0 else -math.inf
    with np.errstate(divide="ignore"):
        levels: np.ndarray = 10 * np.log10(ratio)
    return levels


def sqnr_db(signal: float, noise: float) -> float:
    """The ratio of a signal's power to that of noise, dB.

    inf where there is no noise, of no signal as well; -inf where there is no signal, or noise is not finite.
    """
    return power_db(signal / noise) if noise else math.inf


def cosine(signal: float, other: float, cross: float, noise: float) -> float:
    """The cosine of the angle between two tensors: 1 of equal ones, NaN where the noise is infinite.

    Args:
        signal: the power of one.
        other: that of the other.
        cross: the sum of their products.
        noise: the power of their difference.
    """
    if noise == 0 or noise == math.inf:
        return math.nan if noise else 1.0
    norm = math.sqrt(signal) * math.sqrt(other)
    return min(1.0, max(-1.0, cross / norm)) if norm else 0.0


def limited_db(nsr: _Ratio) -> _Ratio:
    """Noise-to-signal ratios as SQNRs, dB, at most 200 either way: 200 of 0 and less, -200 of NaN."""
    levels: np.ndarray = -power_db(np.maximum(np.atleast_1d(nsr), 0.0))
    levels = np.clip(levels, -BEST_DB, BEST_DB)
    levels[np.isnan(levels)] = -BEST_DB
    return levels if isinstance(nsr, np.ndarray) else float(levels[0])


def nsr_of(level_db: float) -> float:
    """The noise-to-signal ratio of an SQNR, dB."""
    return float(10 ** (-level_db / 10))


def power(values: np.ndarray) -> float:
    """The sum of the squares of float64 values; inf where it is not finite."""
    flat = values.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(flat @ flat)
    return total if np.isfinite(total) else np.inf


def is_constant(variation: float, values: int, peak: float) -> bool:
    """Whether values are one value but for rounding.

    Args:
        variation: the sum of their squares about the mean.
        values: how many there are.
        peak: the greatest magnitude.
    """
    return variation <= values * (ALIKE * peak) ** 2


@dataclass(slots=True)
class Energy:
    """A tensor beside another one over samples, about zero: the powers of both where both are finite.

    Attributes:
        signal: sum of the squares of the reference.
        noise: sum of the squared differences.
        beyond: values that are finite in the reference and not in the other.
        amax: the greatest finite magnitude in the reference.
        mismatched: samples whose shapes differ; nothing else counts them.
    """

    signal: float = 0.0
    noise: float = 0.0
    beyond: int = 0
    amax: float = 0.0
    mismatched: int = 0

    @property
    def sqnr_db(self) -> float:
        """Signal to noise, dB: -inf where the other is not finite, or of another shape."""
        return -math.inf if self.mismatched else sqnr_db(self.signal, math.inf if self.beyond else self.noise)

    def add(self, reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Adds a sample; what is finite in both, float64 `[n]`; none where their shapes differ."""
        if reference.shape != candidate.shape:
            self.mismatched += 1
            return np.empty(0), np.empty(0)
        finite = np.isfinite(reference)
        both = finite & np.isfinite(candidate)
        if both.all():  # as a rule; it is faster
            taken, other = reference.ravel(), candidate.ravel()
            seen = taken
        else:
            taken, other, seen = reference[both], candidate[both], reference[finite]
        exact, given = taken.astype(np.float64), other.astype(np.float64)
        apart = exact - given
        self.signal += float(exact @ exact)
        self.noise += float(apart @ apart)
        self.beyond += seen.size - taken.size
        self.amax = max(self.amax, float(np.abs(seen).max(initial=0.0)))
        return exact, given


@dataclass(slots=True)
class Signal:
    """An output of the float model over samples, about its mean, in float64; those of two can be joined.

    Attributes:
        count: how many samples.
        mean: the mean over samples, by element; None where there is no sample, or where shapes differ.
        power: the sum of squares about that.
        values: how many values in all.
        level: the mean of all values.
        spread: the sum of squares about that: the power of one sample, or of samples of different shapes.
        peak: the greatest magnitude.
        comparable: whether all were finite floats, of the shape that the candidates' had.
    """

    count: int = 0
    mean: np.ndarray | None = None
    power: float = 0.0
    values: int = 0
    level: float = 0.0
    spread: float = 0.0
    peak: float = 0.0
    comparable: bool = True

    @staticmethod
    def of(value: Any, candidates: Iterable[np.ndarray] = ()) -> Signal:
        """That of one sample, beside what candidates gave."""
        array = as_tensor(value)
        if not is_comparable(array, candidates):
            return Signal(1, comparable=False)
        exact = array.astype(np.float64)
        level = float(exact.mean()) if exact.size else 0.0
        apart = (exact - level).ravel()
        peak = float(np.abs(exact).max(initial=0.0))
        return Signal(1, exact, 0.0, exact.size, level, float(apart @ apart), peak)

    def joined(self, later: Signal) -> Signal:
        """That of the samples of both."""
        if not (self.count and later.count):
            return self if self.count else later
        if not (self.comparable and later.comparable):
            return Signal(self.count + later.count, comparable=False)
        count, values = self.count + later.count, self.values + later.values
        mean, power = None, 0.0
        if self.mean is not None and later.mean is not None and self.mean.shape == later.mean.shape:
            step = later.mean - self.mean
            mean = self.mean + step * (later.count / count)
            flat = step.ravel()
            power = self.power + later.power + float(flat @ flat) * (self.count * later.count / count)
        apart = later.level - self.level
        level, spread = self.level, self.spread + later.spread
        if values:
            level += apart * (later.values / values)
            spread += apart * apart * (self.values * later.values / values)
        return Signal(count, mean, power, values, level, spread, max(self.peak, later.peak))

    @property
    def about_mean(self) -> float:
        """The power about the mean over samples; of one, or of different shapes, about that of all values."""
        return self.spread if self.mean is None or self.count < 2 else self.power

    def why_not(self, weight: float = 1.0) -> str:
        """Why it does not count with a weight, "" where it does."""
        if not self.comparable or not self.values:
            return NOT_COMPARED
        if is_constant(self.about_mean, self.values, self.peak):
            return STILL
        return "" if weight > 0 else UNWEIGHED
