"""TensorRT's entropy calibration: the range whose quantized distribution tells most of the original.

S. Migacz, "8-bit Inference with TensorRT", GTC 2017; the choices that the slides leave open are those
of NVIDIA's pytorch-quantization (`calib/histogram.py`).
"""

from __future__ import annotations

import numpy as np

from onnxq.calib.histogram import Histogram
from onnxq.formats import INT8

BINS = 2048
"""Linear bins of the magnitudes from 0 to the greatest."""

LEVELS = len(INT8.magnitudes) + 1
"""Bins after quantization: int8 without its sign. The method is for numbers that are evenly spaced."""

_TIE = 1e-12  # divergences are sums of rounded terms: nearer ones are equal


def entropy_threshold(histogram: Histogram, amax: float) -> float:
    """The threshold of least divergence, the largest one of equals.

    Candidates are the upper edges of the linear bins from the 128th on.

    Args:
        histogram: of the magnitudes.
        amax: the greatest magnitude, above 0.

    Returns:
        The threshold; `amax` where no magnitude is beyond the first linear bin.
    """
    bins = linear_bins(histogram, amax)
    if not bins[1:].any():
        return amax
    found = divergences(bins)
    best = int(np.flatnonzero(found <= found.min() + _TIE)[-1])
    return (LEVELS + best) * (amax / BINS)


def linear_bins(histogram: Histogram, amax: float) -> np.ndarray:
    """The histogram in bins of equal width from 0 to `amax`, float64 [2048].

    Cumulative counts are interpolated at the new edges, so that counts become real numbers. Zeros
    are in the first bin.
    """
    edges = np.minimum(histogram.edges, amax)  # nothing of the last bin is beyond
    counted = histogram.zeros + np.concatenate([[0], np.cumsum(histogram.counts)])
    cumulative = np.interp(np.arange(BINS + 1) * (amax / BINS), edges, counted)
    cumulative[0] = 0.0
    bins: np.ndarray = np.maximum(np.diff(cumulative), 0.0)  # interpolation rounds
    return bins


def divergences(bins: np.ndarray) -> np.ndarray:
    """The Kullback-Leibler divergence of each candidate: to clip to the first i = 128..2048 bins.

    P is the first i bins, what is beyond added to the last of them. Q is the first i bins without
    that, merged to 128 chunks, bin j to chunk floor(128 j / i), and the mean of a chunk put back to
    each of its bins that is not empty. The first bin, with the zeros of a ReLU, counts as the second.

    With Q constant on a chunk's bins, sum(p log q) is a sum over chunks of mass x log(mean); a chunk
    is one of 16 x 2,048 windows, of which each logarithm is taken once.

    Args:
        bins: float64 [2048], of which one beyond the first is not 0.

    Returns:
        The divergence of P from Q, both normalized, in nats, float64 [1921]; infinite where Q is
        0 and P is not.
    """
    p = np.concatenate([bins[1:2], bins[1:]])
    p /= p.sum()
    mass, mean_log = _windows(p)
    ends = np.arange(LEVELS, BINS + 1)
    edges = -(-np.arange(LEVELS + 1) * ends[:, None] // LEVELS)
    starts, sizes = edges[:, :-1], np.diff(edges)
    chunks = sizes * BINS + starts

    beyond = np.append(np.cumsum(p[::-1])[::-1], 0.0)[ends]
    last = p[ends - 1]
    p_log_p = np.cumsum(p * _log(p))[ends - 2] + (last + beyond) * _log(last + beyond)
    p_log_q = np.take(mass * mean_log, chunks).sum(axis=1) + beyond * np.take(mean_log, chunks[:, -1])
    result: np.ndarray = p_log_p - p_log_q + _log(np.cumsum(p)[ends - 1])
    result[(last == 0) & (beyond > 0)] = np.inf
    return result


def _windows(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mass, and the logarithm of the mean of what is not empty, of bins [start, start + size).

    Sums of positive terms: differences of cumulative sums would lose a small chunk beside a large one.

    Returns:
        Both float64 [17, 2048], by size and start; logarithms are 0 where all is empty.
    """
    mass = np.zeros((BINS // LEVELS + 1, BINS))
    filled = np.zeros_like(mass)
    for size in range(1, len(mass)):
        starts = BINS - size + 1
        mass[size, :starts] = mass[size - 1, :starts] + p[size - 1 :]
        filled[size, :starts] = filled[size - 1, :starts] + (p[size - 1 :] > 0)
    return mass, _log(mass / np.maximum(filled, 1.0))


def _log(values: np.ndarray) -> np.ndarray:
    """Natural logarithms, 0 of 0."""
    logs: np.ndarray = np.log(values, out=np.zeros_like(values), where=values > 0)
    return logs
