"""TensorRT's entropy calibration: the range whose quantized distribution tells most of the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.options.method import method

if TYPE_CHECKING:
    from onnxq.calib.stats import TensorStats


@method(format="even", histogram=True, auto=True, place=4)
def entropy(stats: TensorStats) -> float:
    """See `onnxq.quant.entropy`."""
    from onnxq.quant.entropy import entropy_threshold

    assert stats.histogram is not None
    return entropy_threshold(stats.histogram, stats.amax)
