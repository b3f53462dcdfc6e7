"""Calibration methods: from a tensor's statistics to the magnitude that int8's largest code stands for."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnxq.calib.histogram import Histogram
from onnxq.calib.stats import TensorStats
from onnxq.errors import UserError, unknown_name
from onnxq.quant.entropy import entropy_threshold
from onnxq.quant.mse import mse_threshold

NAMES = ("minmax", "average", "percentile", "entropy", "mse")
"""Methods by name."""

_OF_HISTOGRAMS = ("percentile", "entropy", "mse")


@dataclass(frozen=True, slots=True)
class Method:
    """How a threshold is chosen.

    Attributes:
        name: one of `NAMES`.
        percentile: how many percent of the values are within the threshold, (0, 100].
        constant: the weight of the newest sample in the moving average, (0, 1].

    Raises:
        UserError: there is no such method, or a parameter is out of its range.
    """

    name: str
    percentile: float = 99.99
    constant: float = 0.01

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise unknown_name("calibration method", self.name, NAMES)
        if not 0 < self.percentile <= 100:
            raise UserError(
                f"percentile {self.percentile} is not above 0 and at most 100",
                hint="99.99 keeps all but one in ten thousand values; 100 is minmax",
            )
        if not 0 < self.constant <= 1:
            raise UserError(
                f"moving average constant {self.constant} is not above 0 and at most 1",
                hint="0.01 averages over about a hundred samples; 1 takes the last sample only",
            )

    def __str__(self) -> str:
        if self.name == "percentile":
            return f"percentile {self.percentile:.12g}"
        return f"average {self.constant:.12g}" if self.name == "average" else self.name


def needs_histogram(method: Method) -> bool:
    """Whether a method asks for more than the ranges of samples."""
    return method.name in _OF_HISTOGRAMS


def threshold(stats: TensorStats, method: Method) -> float:
    """The magnitude that the largest int8 code stands for; greater ones saturate.

    - minmax: the greatest magnitude.
    - average: T <- (1 - constant) T + constant x amax of the sample, from the first one's (onnxruntime,
      `CalibMovingAverage`), over samples by a hash of their amax: the order of the data is chance.
    - percentile: the least T that so many percent of the counted magnitudes do not exceed, zeros
      counted like any value: a ReLU's many zeros push it up the range of the others. The upper
      edge of its bin, at most 2^-10 above it where that is a normal float32.
    - entropy: `entropy_threshold`.
    - mse: `mse_threshold`.

    Args:
        stats: of the tensor.
        method: the method.

    Returns:
        The threshold, at most `stats.amax`; 0 where the tensor is always zero or never had a
        value. `stats.amax` where a method's own answer is 0 (more zeros than the percentile), or
        where only zeros were counted.

    Raises:
        UserError: the method needs a histogram, and the statistics have none.
    """
    if needs_histogram(method) and stats.histogram is None:
        raise UserError(
            f"method {method.name} needs histograms, and the statistics were taken without them",
            hint="take them again: onnxq calibrate MODEL --calib DATA",
        )
    if not stats.size:
        return 0.0
    found = _threshold(stats, method)
    return min(found, stats.amax) if found > 0 else stats.amax


def is_zero(stats: TensorStats, method: Method) -> bool:
    """Whether a tensor has more zeros than a percentile, so that its threshold is the greatest magnitude."""
    return method.name == "percentile" and stats.amax > 0 and not _threshold(stats, method) > 0


def _threshold(stats: TensorStats, method: Method) -> float:
    if method.name == "average":
        return _average(stats.amaxes, method.constant)
    if method.name == "minmax" or stats.histogram is None or not len(stats.histogram.counts):
        return stats.amax
    if method.name == "percentile":
        return stats.amax if method.percentile == 100 else _percentile(stats.histogram, method.percentile)
    solve = entropy_threshold if method.name == "entropy" else mse_threshold
    return solve(stats.histogram, stats.amax)


def _average(amaxes: np.ndarray, constant: float) -> float:
    first, *others = sorted(
        amaxes.tolist(), key=lambda amax: hashlib.blake2b(struct.pack("<d", amax)).digest()
    )
    average: float = first
    for amax in others:
        average = (1 - constant) * average + constant * amax
    return average


def _percentile(histogram: Histogram, percentile: float) -> float:
    """The upper edge of the bin that holds the percentile; 0 where that is among the zeros."""
    # 99.99 / 100 * 10_000 is above 9,999 in floats: the rank is of the decimal that was written
    rank = math.ceil(Fraction(str(float(percentile))) / 100 * histogram.total)
    if rank <= histogram.zeros:
        return 0.0
    place = np.searchsorted(np.cumsum(histogram.counts), rank - histogram.zeros)
    return float(histogram.edges[place + 1])
