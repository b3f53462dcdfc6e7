"""The threshold of the least mean squared error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.options.method import method

if TYPE_CHECKING:
    import numpy as np

    from onnxq.calib.stats import TensorStats
    from onnxq.formats import NumberFormat


def _of_channels(
    weights: np.ndarray, axis: int | None, top: np.ndarray, *, format: NumberFormat
) -> np.ndarray:
    from onnxq.quant.weights import least_error

    return least_error(weights, axis, top, format)


@method(format="any", histogram=True, auto=True, weights=_of_channels, place=5)
def mse(stats: TensorStats, *, format: NumberFormat) -> float:
    """See `onnxq.quant.mse`."""
    from onnxq.quant.mse import mse_threshold

    assert stats.histogram is not None
    return mse_threshold(stats.histogram, stats.amax, format)
