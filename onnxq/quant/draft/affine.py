"""What edits of the float model do to the values of a tensor, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ChannelMap:
    """`after[c] = before[index[c]] * scale[c] + offset[c]` along the channel axis of a tensor.

    Attributes:
        scale: float32 [channels after] or []; or of the tensor's rank, where the channels lie along several
            axes (`wide`), as behind the Reshape of attention.
        offset: float32 [channels after] or [].
        index: the channel that each one is made of, int64 [channels after]; None: its own.
        was: the tensor whose values they were; "" where it has the same name.
        axis: the axis of the channels, where the edit knows it.
    """

    scale: np.ndarray
    offset: np.ndarray
    index: np.ndarray | None = None
    was: str = ""
    axis: int | None = None

    @staticmethod
    def of(
        scale: float | np.ndarray = 1.0, offset: float | np.ndarray = 0.0, axis: int | None = None
    ) -> ChannelMap:
        """One that keeps the channels."""
        return ChannelMap(np.asarray(scale, np.float32), np.asarray(offset, np.float32), axis=axis)

    @property
    def wide(self) -> bool:
        """Whether the channels lie along several axes."""
        return self.scale.ndim > 1

    @property
    def _by_channel(self) -> bool:
        return self.scale.ndim == 1 or self.offset.ndim == 1 or self.index is not None

    def apply(self, values: np.ndarray, axis: int) -> np.ndarray:
        """The values after, of a tensor whose channels are along `axis`."""
        if self.index is not None:
            values = np.take(values, self.index, axis)
        shape = [-1 if place == axis % values.ndim else 1 for place in range(values.ndim)]

        def spread(vector: np.ndarray) -> np.ndarray:
            return vector.reshape(shape) if vector.ndim == 1 else vector

        return np.asarray(values * spread(self.scale) + spread(self.offset))

    def then(self, later: ChannelMap) -> ChannelMap | None:
        """This one, and then another one; None where one knows several axes, and the other a channel's."""
        scale, offset, index = self.scale, self.offset, self.index
        if (self.wide or later.wide) and (self._by_channel or later._by_channel):
            return None
        if later.index is not None:
            scale = scale[later.index] if scale.ndim else scale
            offset = offset[later.index] if offset.ndim else offset
            index = later.index if index is None else index[later.index]
        axis = self.axis if later.axis is None else later.axis
        return ChannelMap(scale * later.scale, offset * later.scale + later.offset, index, self.was, axis)
