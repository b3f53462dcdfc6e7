"""Biases with which the means behind the activation are those of the float model.

Not the means of the sums themselves: they are dominated by what the activation removes. The shift d of a
channel solves E f(Z + d) = E f(Y), with Z what the quantized layer gives and Y what the float one does, by
Newton's steps: the slope is the mean of f', which for a Relu or a Clip is the share of values between its
bounds.

Of few samples the means differ by chance, too, and a shift of that would be noise for all others: it is
shrunk by (1 - v / m^2)+, with m the mean difference and v the variance of m over samples, as the
nonnegative garrote does (Breiman, Technometrics 37, 1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from onnxq.repair.activation import Activation

_STEPS = 4  # of slopes that are taken of some rows; of all, three would do
_MOST = 0.5  # of the standard deviation of Y
_DEAD = 0.002  # a channel with less slope, in parts of its greatest, keeps its bias
_NEAR = 3e-4  # of the standard deviation of Y: means that differ by less are equal
_LEAST = 0.02  # slope that is divided by at least
_STEP = 1e-3  # of the standard deviation of Y: between the values that a slope is of
_TINY = 1e-30
_SUMMED = 512  # rows that are summed in float32
_SLOPES = 1024  # rows of which slopes are taken, at least: they say how far to go, not where it ends


def shifts(
    exact: Sequence[np.ndarray],
    quantized: Sequence[np.ndarray],
    activation: Activation,
    samples: Sequence[Sequence[int]] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What is to be added to each channel, and what its mean misses in each sample beside that.

    Args:
        exact: Y, float32 [rows, channels] in parts.
        quantized: Z, likewise, of the same rows.
        activation: f.
        samples: of each part, how many rows each of its samples has; None: nothing is shrunk.

    Returns:
        float64 [channels], 0 for those in which Y is not finite; and the variance over samples of how far the
        means behind the activation are apart, float64 [channels], 0 where it is not known.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        found = _shifts(_small(exact), _small(quantized), activation)
        if samples is None or sum(map(len, samples)) < 2:
            return found, np.zeros(len(found))
        shown, variance = _shown(exact, quantized, activation, samples)
        return found * shown, variance


def logit_shifts(
    exact: Sequence[np.ndarray],
    quantized: Sequence[np.ndarray],
    samples: Sequence[Sequence[int]],
) -> tuple[np.ndarray, np.ndarray]:
    """The same of logits that a Sigmoid reads: the means of logits, each weighed by what it moves its score.

    The means of scores would be those of the noise as well: it raises small scores more than it lowers
    them, so that the shift would take from each score what noise adds to those that are next to nothing.
    And of logits alone nearly all say that nothing is there. What all channels have in common is shown by
    all of them. The weight p (1 - p) is the slope of the score, and the curvature of the loss by which scores
    are trained.

    Args:
        exact: Y, float32 [rows, channels] in parts.
        quantized: Z, likewise, of the same rows.
        samples: of each part, how many rows each of its samples has.
    """
    off, weight = [], []
    for y, z, rows in zip(exact, quantized, samples, strict=True):
        if rows:
            score = 0.5 + 0.5 * np.tanh(0.5 * y.astype(np.float64))
            slope, starts = score * (1 - score), np.cumsum([0, *rows[:-1]])
            off.append(np.add.reduceat(slope * (y - z), starts, axis=0))
            weight.append(np.add.reduceat(slope, starts, axis=0))
    apart, weights = np.concatenate(off), np.concatenate(weight)
    every, _ = _weighed(apart.sum(axis=1, keepdims=True), weights.sum(axis=1, keepdims=True))
    own, missed = _weighed(apart - weights * every, weights)  # of a rare class few samples tell
    return every + own, missed


def _weighed(apart: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighed mean of each channel, as far as samples show it, and its variance over samples.

    Args:
        apart: what is off in each sample, times its weight, float64 [samples, channels].
        weights: float64 [samples, channels].
    """
    total, count = np.maximum(weights.sum(axis=0), _TINY), len(apart)
    mean = np.nan_to_num(apart.sum(axis=0) / total)
    chance = count / max(1, count - 1) * np.square(apart - weights * mean).sum(axis=0) / total**2
    with np.errstate(invalid="ignore", divide="ignore"):
        shown = np.clip(np.nan_to_num(1.0 - chance / np.square(mean), nan=0.0, neginf=0.0), 0.0, 1.0)
    return mean * (shown if count > 1 else 1.0), np.nan_to_num(chance) * count


def _shown(
    exact: Sequence[np.ndarray],
    quantized: Sequence[np.ndarray],
    activation: Activation,
    samples: Sequence[Sequence[int]],
) -> tuple[np.ndarray, np.ndarray]:
    """Which part of the difference of the means the samples show, 0 to 1, and its variance over samples."""
    counts = np.array([count for rows in samples for count in rows])[:, None]
    off = np.concatenate(
        [
            np.add.reduceat(
                activation(y) - activation(z), np.cumsum([0, *rows[:-1]]), axis=0, dtype=np.float64
            )
            for y, z, rows in zip(exact, quantized, samples, strict=True)
            if rows
        ]
    )
    total = counts.sum()
    mean = off.sum(axis=0) / total
    chance = len(counts) / (len(counts) - 1) * np.square(off - counts * mean).sum(axis=0) / total**2
    shown = np.clip(np.nan_to_num(1.0 - chance / np.square(mean), nan=0.0, neginf=0.0), 0.0, 1.0)
    return shown, np.nan_to_num(chance) * len(counts)


def _shifts(
    exact: Sequence[np.ndarray], quantized: Sequence[np.ndarray], activation: Activation
) -> np.ndarray:
    count = sum(len(part) for part in exact)
    mean = _sums(exact) / count
    near = mean.astype(np.float32)
    spread = np.sqrt(_sums(np.square(part - near) for part in exact) / count)
    if activation.is_identity:
        off = mean - _sums(quantized) / count
        off = _limited(off, spread)
        return np.asarray(np.where(np.isfinite(off), off, 0.0))
    aim = _sums(map(activation, exact)) / count
    alive = np.ones(len(spread), bool)
    current, best, least = np.zeros(len(spread)), np.zeros(len(spread)), np.full(len(spread), np.inf)
    step = np.maximum(_STEP * spread, _TINY).astype(np.float32)
    sampled = np.concatenate([part[:: max(1, count // _SLOPES)] for part in quantized])
    for left in reversed(range(_STEPS + 1)):
        shift = current.astype(np.float32)
        reached = _sums(activation(part + shift) for part in quantized)
        off = aim - reached / count
        better = np.abs(off) < least  # near where the slope is 0 steps go too far
        best, least = np.where(better, current, best), np.where(better, np.abs(off), least)
        if not left or (np.abs(off) <= _NEAR * spread)[alive].all():
            break
        slopes = _slopes(sampled + shift, step, activation)
        steepest = np.abs(slopes).max(axis=0, initial=0.0)
        slope = slopes.mean(axis=0, dtype=np.float64) / np.maximum(steepest, _TINY)
        alive = np.abs(slope) > _DEAD
        divisor = np.copysign(np.maximum(np.abs(slope), _LEAST), slope) * np.maximum(steepest, _TINY)
        change = np.where(alive, off / divisor, 0.0)
        current = _limited(current + change, spread)
    return best


def _slopes(values: np.ndarray, step: np.ndarray, activation: Activation) -> np.ndarray:
    return np.asarray((activation(values + step) - activation(values - step)) / (2 * step))


def _sums(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The sums of channels, float64; those of a part in float32, which takes a fourth of the time."""
    return np.asarray(sum(part.sum(axis=0).astype(np.float64) for part in parts))


def _small(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same rows in parts of which what is computed stays in the cache."""
    return [part[start : start + _SUMMED] for part in parts for start in range(0, len(part), _SUMMED)]


def _limited(shift: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(shift, -_MOST * spread, _MOST * spread))
