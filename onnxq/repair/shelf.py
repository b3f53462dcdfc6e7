"""Arrays that are needed later: in memory as far as a budget goes, the others in files."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from onnxq import interrupts


class Shelf:
    """Values by key; from any thread."""

    def __init__(self, budget_bytes: int) -> None:
        """Nothing is kept yet.

        Args:
            budget_bytes: of arrays in memory.
        """
        self._budget = self._free = budget_bytes
        self._held: dict[Hashable, Any] = {}
        self._lock = threading.Lock()
        self._folder: interrupts.Folder | None = None
        self._files = 0

    def put(self, key: Hashable, value: Any) -> None:
        """Keeps a value, instead of what had its key; what is no array of numbers stays in memory."""
        self.drop(key)
        numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        with self._lock:
            if not numbers or value.nbytes <= self._free:
                self._free -= value.nbytes if numbers else 0
                self._held[key] = value
                return
            if self._folder is None:
                self._folder = interrupts.Folder()
            self._files += 1
            path = Path(self._folder.name) / str(self._files)
        value.tofile(path)
        with self._lock:
            self._held[key] = _Filed(path, value.dtype, value.shape)

    def has(self, key: Hashable) -> bool:
        """Whether there is such a value."""
        return key in self._held

    def get(self, key: Hashable) -> Any:
        """The value."""
        found = self._held[key]
        return found.load() if isinstance(found, _Filed) else found

    def shape(self, key: Hashable) -> tuple[int, ...]:
        """The shape of an array."""
        return tuple(self._held[key].shape)

    def drop(self, key: Hashable) -> None:
        """Forgets a value."""
        with self._lock:
            value = self._held.pop(key, None)
            if isinstance(value, _Filed):
                value.path.unlink(missing_ok=True)
            elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
                self._free += value.nbytes

    @property
    def files(self) -> int:
        """How many values went to files so far."""
        return self._files

    def close(self) -> None:
        """Forgets all."""
        with self._lock:
            self._held.clear()
            self._free = self._budget
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None


class _Filed:
    """An array in a file."""

    __slots__ = ("dtype", "path", "shape")

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, dtype, shape

    def load(self) -> np.ndarray:
        """It."""
        return np.fromfile(self.path, self.dtype).reshape(self.shape)
