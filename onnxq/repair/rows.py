"""Rows of the float model: samples of what its layers give, and the ends of channels, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ChannelEnds:
    """The least and the greatest value of each channel of a tensor, over samples.

    Attributes:
        low: float32 [channels].
        high: likewise.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def amax(self) -> np.ndarray:
        """The greatest magnitude of each channel, float32 [channels]."""
        found: np.ndarray = np.maximum(np.abs(self.low), np.abs(self.high))
        return found
