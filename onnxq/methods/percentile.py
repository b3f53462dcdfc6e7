"""The least magnitude that so many percent of the values do not exceed.

Zeros are counted like any value: a ReLU's many zeros push it up the range of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.options.method import Parameter, method

if TYPE_CHECKING:
    import numpy as np

    from onnxq.calib.stats import TensorStats

_PERCENTILE = Parameter(
    "percentile", 99.99, 100, "Percentile of the method percentile.", "P",
    hint="99.99 keeps all but one in ten thousand values; 100 is minmax",
    auto=(99.9, 99.99, 99.999),
    search=(99.0, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 99.9995, 99.9999, 100.0),
)  # fmt: skip


def _of_channels(weights: np.ndarray, axis: int | None, top: np.ndarray, percentile: float) -> np.ndarray:
    """The least that so many percent of each channel do not exceed; the greatest where that is 0."""
    import numpy as np

    from onnxq.quant.weights import channels

    sizes = np.abs(channels(weights, axis))
    if not sizes.size:
        return top
    rank = _rank(percentile, sizes.shape[1])
    found = np.partition(sizes, rank - 1, axis=1)[:, rank - 1].reshape(top.shape)
    return np.where(found > 0, found, top)


@method(parameter=_PERCENTILE, histogram=True, auto=True, weights=_of_channels, place=3)
def percentile(stats: TensorStats, percentile: float) -> float:
    """The upper edge of its bin, at most 2^-10 above it where that is a normal float32; 0 among the zeros."""
    import numpy as np

    histogram = stats.histogram
    assert histogram is not None
    if percentile == 100:
        return stats.amax
    rank = _rank(percentile, histogram.total)
    if rank <= histogram.zeros:
        return 0.0
    place = np.searchsorted(np.cumsum(histogram.counts), rank - histogram.zeros)
    return float(histogram.edges[place + 1])


def _rank(percentile: float, count: int) -> int:
    import math
    from fractions import Fraction

    # 99.99 / 100 * 10_000 is above 9,999 in floats: the rank is of the decimal that was written
    return math.ceil(Fraction(str(float(percentile))) / 100 * count)
