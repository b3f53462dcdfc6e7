"""What samples feed, kept once it was read: some in memory, more in a file, and no more than that."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from onnxq.run.spill import Spill

_IN_MEMORY, _MOST = 1 << 23, 1 << 28  # bytes: in memory, and in all


class KeptFeeds:
    """Arrays by input, of samples by key.

    Attributes:
        is_full: whether there was no room for one of them.
    """

    def __init__(self) -> None:
        self._spill, self._left = Spill(_IN_MEMORY), _MOST
        self._names: dict[Hashable, tuple[str, ...]] = {}
        self.is_full = False

    def put(self, key: Hashable, feeds: Mapping[str, np.ndarray]) -> None:
        """Keeps what a sample feeds, if there is room."""
        size = sum(array.nbytes for array in feeds.values())
        if key in self._names or size > self._left:
            self.is_full = self.is_full or key not in self._names
            return
        self._left -= size
        for name, array in feeds.items():
            self._spill.put((key, name), array)
        self._names[key] = tuple(feeds)

    def get(self, key: Hashable) -> dict[str, np.ndarray] | None:
        """What a sample feeds, as copies; None: it was not kept."""
        names = self._names.get(key)
        return None if names is None else {name: np.array(self._spill.get((key, name))) for name in names}

    def close(self) -> None:
        """Forgets all."""
        self._spill.close()
        self._names.clear()
