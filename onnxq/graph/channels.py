"""Arrays by the channels of one axis."""

from __future__ import annotations

import numpy as np


def by_channel(values: np.ndarray, axis: int) -> np.ndarray:
    """The values of each channel as a row, [channels, values]."""
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A value a channel, [channels], or a single one, in the form that meets `axis` of arrays of a rank."""
    return values.reshape([-1 if place == axis else 1 for place in range(rank)])
