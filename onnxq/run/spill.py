"""Arrays that are needed later: in memory as far as a budget goes, the others in a file."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base import interrupts


class Spill:
    """Values by key; from any thread."""

    def __init__(self, budget_bytes: int) -> None:
        """Nothing is kept yet.

        Args:
            budget_bytes: of arrays in memory.
        """
        self._budget = self._free = budget_bytes
        self._held: dict[Hashable, Any] = {}
        self._lock = threading.Lock()
        self._file: _File | None = None

    def put(self, key: Hashable, value: Any) -> None:
        """Keeps a value, instead of what had its key; what is no array of numbers stays in memory."""
        self.drop(key)
        numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biufV"
        with self._lock:
            if not numbers or value.nbytes <= self._free:
                self._free -= value.nbytes if numbers else 0
                self._held[key] = value
                return
            self._file = self._file or _File()
            filed = _Filed(self._file, self._file.place(value.nbytes), value.dtype, value.shape)
        filed.write(value)
        with self._lock:
            self._held[key] = filed

    def has(self, key: Hashable) -> bool:
        """Whether there is such a value."""
        return key in self._held

    def get(self, key: Hashable) -> Any:
        """The value."""
        held = self._held[key]
        return held.read() if isinstance(held, _Filed) else held

    def shape(self, key: Hashable) -> tuple[int, ...]:
        """The shape of an array."""
        return tuple(self._held[key].shape)

    def drop(self, key: Hashable) -> None:
        """Forgets a value."""
        with self._lock:
            value = self._held.pop(key, None)
            if isinstance(value, _Filed):
                value.file.free(value.place, value.nbytes)
            elif isinstance(value, np.ndarray) and value.dtype.kind in "biufV":
                self._free += value.nbytes

    @property
    def filed(self) -> int:
        """How many values are in the file."""
        return sum(isinstance(value, _Filed) for value in self._held.values())

    def close(self) -> None:
        """Forgets all."""
        with self._lock:
            self._held.clear()
            self._free = self._budget
            if self._file is not None:
                self._file.close()
                self._file = None


class _File:
    """A temporary file with a place for each array; one of the same size takes a place that is free again.

    One file, as making and removing one for each of many small arrays takes longer than writing them.
    """

    def __init__(self) -> None:
        self._folder = interrupts.Folder()
        self.path = Path(self._folder.name) / "values"
        self._stream = self.path.open("x+b", buffering=0)
        self._lock = threading.Lock()
        self._end = 0
        self._places: dict[int, list[int]] = {}

    def place(self, size: int) -> int:
        """Where so many bytes go."""
        free = self._places.get(size)
        if free:
            return free.pop()
        self._end += size
        return self._end - size

    def free(self, place: int, size: int) -> None:
        """Gives a place back."""
        self._places.setdefault(size, []).append(place)

    def close(self) -> None:
        """Removes it."""
        self._stream.close()
        self._folder.cleanup()

    def write(self, place: int, values: memoryview) -> None:
        """Writes bytes to a place."""
        with self._lock:
            self._stream.seek(place)
            while values:  # not all at once, where they are many
                values = values[self._stream.write(values) :]

    def read(self, place: int, values: memoryview) -> None:
        """Reads bytes from a place."""
        with self._lock:
            self._stream.seek(place)
            while values:
                count = self._stream.readinto(values)
                if not count:
                    raise OSError(f"{self.path} was cut short")
                values = values[count:]


class _Filed:
    """An array in the file."""

    __slots__ = ("dtype", "file", "nbytes", "place", "shape")

    def __init__(self, file: _File, place: int, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.file, self.place, self.dtype, self.shape = file, place, dtype, shape
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    def write(self, values: np.ndarray) -> None:
        """Writes it."""
        self.file.write(self.place, _bytes(np.ascontiguousarray(values)))

    def read(self) -> np.ndarray:
        """It."""
        values = np.empty(self.shape, self.dtype)
        self.file.read(self.place, _bytes(values))
        return values


def _bytes(values: np.ndarray) -> memoryview:
    return values.reshape(-1).view(np.uint8).data
