"""The greatest magnitude: nothing saturates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnxq.options.method import method

if TYPE_CHECKING:
    from onnxq.calib.stats import TensorStats


def _of_channels(weights: Any, axis: int | None, top: Any) -> Any:
    """The greatest of each channel."""
    return top


@method(auto=True, weights=_of_channels, place=1)
def minmax(stats: TensorStats) -> float:
    """The greatest magnitude."""
    return stats.amax
