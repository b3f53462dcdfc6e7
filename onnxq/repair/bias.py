"""Biases with which the means behind the activation are those of the float model.

Not the means of the sums themselves: they are dominated by what the activation removes. The shift d of a
channel solves E f(Z + d) = E f(Y), with Z what the quantized layer gives and Y what the float one does, by
Newton's steps: the slope is the mean of f', which for a Relu or a Clip is the share of values between its
bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxq.repair.activation import Activation

_STEPS = 4  # of slopes that are taken of some rows; of all, three would do
_MOST = 0.5  # of the standard deviation of Y
_DEAD = 0.002  # a channel with less slope, in parts of its greatest, keeps its bias
_LEAST = 0.02  # slope that is divided by at least
_STEP = 1e-3  # of the standard deviation of Y: between the values that a slope is of
_TINY = 1e-30
_SLOPES = 2048  # rows of which slopes are taken, at least: they say how far to go, not where it ends


def shifts(
    exact: Sequence[np.ndarray], quantized: Sequence[np.ndarray], activation: Activation
) -> np.ndarray:
    """What is to be added to each channel.

    Args:
        exact: Y, float32 [rows, channels] in parts.
        quantized: Z, likewise, of the same rows.
        activation: f.

    Returns:
        float64 [channels], 0 for those in which Y is not finite.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return _shifts(exact, quantized, activation)


def _shifts(
    exact: Sequence[np.ndarray], quantized: Sequence[np.ndarray], activation: Activation
) -> np.ndarray:
    count = sum(len(part) for part in exact)
    mean = sum(part.sum(axis=0, dtype=np.float64) for part in exact) / count
    near = mean.astype(np.float32)
    second = sum(np.square(part - near).sum(axis=0, dtype=np.float64) for part in exact) / count
    spread = np.sqrt(second)
    if activation.is_identity:
        off = mean - sum(part.sum(axis=0, dtype=np.float64) for part in quantized) / count
        off = _limited(off, spread)
        return np.asarray(np.where(np.isfinite(off), off, 0.0))
    aim = sum(activation(part).sum(axis=0, dtype=np.float64) for part in exact) / count
    current, best, least = np.zeros(len(spread)), np.zeros(len(spread)), np.full(len(spread), np.inf)
    step = np.maximum(_STEP * spread, _TINY).astype(np.float32)
    sampled = np.concatenate([part[:: max(1, count // _SLOPES)] for part in quantized])
    for left in reversed(range(_STEPS + 1)):
        shift = current.astype(np.float32)
        reached = sum(activation(part + shift).sum(axis=0, dtype=np.float64) for part in quantized)
        off = aim - reached / count
        better = np.abs(off) < least  # near where the slope is 0 steps go too far
        best, least = np.where(better, current, best), np.where(better, np.abs(off), least)
        if not left:
            break
        values = sampled + shift
        slopes = (activation(values + step) - activation(values - step)) / (2 * step)
        steepest = np.abs(slopes).max(axis=0, initial=0.0)
        slope = slopes.mean(axis=0, dtype=np.float64) / np.maximum(steepest, _TINY)
        alive = np.abs(slope) > _DEAD
        divisor = np.copysign(np.maximum(np.abs(slope), _LEAST), slope) * np.maximum(steepest, _TINY)
        change = np.where(alive, off / divisor, 0.0)
        current = _limited(current + change, spread)
    return best


def _limited(shift: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(shift, -_MOST * spread, _MOST * spread))
