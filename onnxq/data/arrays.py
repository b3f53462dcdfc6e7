"""Arrays that are read row by row: of .npy files, of .npz members, of memory.

`np.load` takes a whole member of an .npz into memory, and a memory map's pages count as the
process's own; here a file is read by plain reads, so that memory does not grow with its length.
"""

from __future__ import annotations

import dataclasses
import itertools
import lzma
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import numpy as np

from onnxq.base import interrupts
from onnxq.base.errors import UserError

_LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of name and extra field; PKZIP APPNOTE 4.3.7
_UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
)


class Array(Protocol):
    """An array whose values are read when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, known without its values."""

    @property
    def dtype(self) -> np.dtype:
        """Its dtype, likewise."""

    def rows(self, wanted: Sequence[int]) -> Iterator[np.ndarray]:
        """Its rows along the first axis, in the order of these indices."""

    def starts(self, size: int) -> Iterator[bytes]:
        """The first bytes of each row, `size` at most."""

    def read(self) -> np.ndarray:
        """All of it."""

    def reshaped(self, shape: tuple[int, ...]) -> Array:
        """The same values, in their order, in another shape."""


@dataclass(frozen=True, slots=True)
class MemoryArray:
    """An array that is in memory already."""

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.values.shape

    @property
    def dtype(self) -> np.dtype:
        """Its dtype."""
        return self.values.dtype

    def rows(self, wanted: Sequence[int]) -> Iterator[np.ndarray]:
        """Its rows, as views."""
        return (self.values[index] for index in wanted)

    def starts(self, size: int) -> Iterator[bytes]:
        """The first bytes of each row."""
        return (row.reshape(-1)[: -(-size // max(row.itemsize, 1))].tobytes()[:size] for row in self.values)

    def read(self) -> np.ndarray:
        """All of it."""
        return self.values

    def reshaped(self, shape: tuple[int, ...]) -> MemoryArray:
        """The same values, in their order, in another shape."""
        return MemoryArray(self.values.reshape(shape))


@dataclass(frozen=True, slots=True)
class FileArray:
    """An array in C order in a stream.

    Attributes:
        where: the file (and member), for messages.
        open: opens the stream at the first value; it seeks forward at least.
        shape: the array's shape.
        dtype: its dtype.
        spooled: opens one that seeks back, too, where `open` does so at great cost.
    """

    where: str
    open: Callable[[], IO[bytes]]
    shape: tuple[int, ...]
    dtype: np.dtype
    spooled: Callable[[], IO[bytes]] | None = None

    def rows(self, wanted: Sequence[int]) -> Iterator[np.ndarray]:
        """Its rows, one in memory at a time.

        Raises:
            UserError: the file ends early, or does not decompress.
        """
        shape = self.shape[1:]
        back = any(later < index for index, later in itertools.pairwise(wanted))
        opened = self.spooled if back and self.spooled is not None else self.open
        return (self._array(data, shape) for data in self._pieces(wanted, self._row_bytes, opened))

    def starts(self, size: int) -> Iterator[bytes]:
        """The first bytes of each row.

        Raises:
            UserError: as above.
        """
        return self._pieces(range(self.shape[0]), min(size, self._row_bytes), self.open)

    @property
    def _row_bytes(self) -> int:
        return prod(self.shape[1:]) * self.dtype.itemsize

    def _pieces(self, wanted: Iterable[int], size: int, opened: Callable[[], IO[bytes]]) -> Iterator[bytes]:
        """The first `size` bytes of some rows."""
        position = 0
        try:
            with opened() as stream:
                for index in wanted:
                    stream.seek(index * self._row_bytes - position, 1)
                    yield self._take(stream, size)
                    position = index * self._row_bytes + size
        except _UNREADABLE as error:
            raise self._corrupt(error) from error

    def read(self) -> np.ndarray:
        """All of it.

        Raises:
            UserError: the file ends early, or does not decompress.
        """
        try:
            with self.open() as stream:
                return self._array(self._take(stream, prod(self.shape) * self.dtype.itemsize), self.shape)
        except _UNREADABLE as error:
            raise self._corrupt(error) from error

    def reshaped(self, shape: tuple[int, ...]) -> FileArray:
        """The same values, in their order, in another shape."""
        return dataclasses.replace(self, shape=shape)

    @staticmethod
    def _take(stream: IO[bytes], size: int) -> bytes:
        data = stream.read(size)
        if len(data) < size:
            raise EOFError("it ends before its last value")
        return data

    def _array(self, data: bytes, shape: tuple[int, ...]) -> np.ndarray:
        return np.frombuffer(data, self.dtype).reshape(shape)

    def _corrupt(self, error: BaseException) -> UserError:
        return UserError(f"{self.where} is truncated or corrupt: {error}", hint="copy it again")


@dataclass(frozen=True, slots=True)
class RepeatedArray:
    """An array each of whose rows is there several times.

    Attributes:
        array: it.
        times: how often.
    """

    array: Array
    times: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, with all repetitions."""
        count, *rest = self.array.shape
        return (count * self.times, *rest)

    @property
    def dtype(self) -> np.dtype:
        """Its dtype."""
        return self.array.dtype

    def rows(self, wanted: Sequence[int]) -> Iterator[np.ndarray]:
        """Its rows; each of the array is read once in turn."""
        return in_turn([index // self.times for index in wanted], self.array.rows)

    def starts(self, size: int) -> Iterator[bytes]:
        """The first bytes of each row."""
        return (start for start in self.array.starts(size) for _ in range(self.times))

    def read(self) -> np.ndarray:
        """All of it."""
        return np.repeat(self.array.read(), self.times, 0)

    def reshaped(self, shape: tuple[int, ...]) -> Array:
        """The same values, in their order, in another shape."""
        return MemoryArray(self.read()).reshaped(shape)


T = TypeVar("T")


def in_turn(wanted: Sequence[int], read: Callable[[Sequence[int]], Iterator[T]]) -> Iterator[T]:
    """What is read of indices, of which the same may be there several times in turn: once for each turn."""
    turns = [(index, len(list(group))) for index, group in itertools.groupby(wanted)]
    for found, (_, times) in zip(read([index for index, _ in turns]), turns, strict=True):
        yield from itertools.repeat(found, times)


def open_npy(path: Path, tensor: str) -> FileArray:
    """The array of an .npy file.

    Args:
        path: the file.
        tensor: the input that it is for, for messages.

    Raises:
        UserError: the file cannot be read, is no .npy file, is truncated, or holds what would
            have to be unpickled.
    """
    where = f"{str(path)!r} (input {tensor!r})"
    try:
        with path.open("rb") as stream:
            shape, dtype = _header(stream, where)
            offset = stream.tell()
        size = path.stat().st_size
    except OSError as error:
        raise UserError(
            f"cannot read {where}: {error.strerror or error}", hint="check the file's permissions"
        ) from error
    _check_length(size - offset, shape, dtype, where)
    return FileArray(where, lambda: _open_at(path, offset), shape, dtype)


def open_npz(path: Path, wanted: Iterable[str]) -> tuple[dict[str, FileArray], list[str]]:
    """The wanted members of an .npz file.

    Members that are stored are read in place; compressed ones are streamed forward.

    Returns:
        The arrays by name (only those of `wanted` that the file has), and all names of the file.

    Raises:
        UserError: the file cannot be read, is no .npz file, is truncated, or a member holds what
            would have to be unpickled.
    """
    arrays: dict[str, FileArray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
            for name in wanted:
                if name in members:
                    where = f"{str(path)!r} (input {name!r})"
                    arrays[name] = _member(path, archive, members[name], where)
    except _UNREADABLE as error:
        raise UserError(
            f"cannot read {str(path)!r} as an .npz file: {error}",
            hint="the file may be truncated; write it again with np.savez",
        ) from error
    return arrays, list(members)


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> FileArray:
    with archive.open(info) as stream:
        shape, dtype = _header(stream, where)
        header = stream.tell()
    _check_length(info.file_size - header, shape, dtype, where)
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(info.header_offset)
            name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        offset = info.header_offset + _LOCAL_HEADER.size + name + extra + header
        return FileArray(where, lambda: _open_at(path, offset), shape, dtype)

    member = _Compressed(path, info, header)
    return FileArray(where, member.open, shape, dtype, member.spooled)


class _Compressed:
    """The values of a compressed member of an .npz file."""

    def __init__(self, path: Path, info: zipfile.ZipInfo, header: int) -> None:
        self._path, self._info, self._header = path, info, header
        self._folder: interrupts.Folder | None = None

    def open(self) -> IO[bytes]:
        """As a stream that goes forward."""
        with zipfile.ZipFile(self._path) as archive:  # the open member keeps the file open
            stream = archive.open(self._info)
        stream.seek(self._header)
        return stream

    def spooled(self) -> IO[bytes]:
        """As a temporary file, which is written once, and deleted with the last reference to this object."""
        if self._folder is None:
            folder = interrupts.Folder()
            with self.open() as stream, _values(folder).open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            self._folder = folder
        return _values(self._folder).open("rb")


def _values(folder: interrupts.Folder) -> Path:
    return Path(folder.name) / "values"


def _open_at(path: Path, offset: int) -> IO[bytes]:
    stream = path.open("rb")
    stream.seek(offset)
    return stream


def _header(stream: Any, where: str) -> tuple[tuple[int, ...], np.dtype]:
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise ValueError(f"format version {version[0]}.{version[1]} is for structured arrays")
        shape, fortran, dtype = readers[version](stream)
    except Exception as error:  # numpy reads the header as Python, and hands on what its parser raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"{where} is not an .npy array, or it is truncated: {reason}",
            hint="write it again with np.save or np.savez",
        ) from error
    if dtype.hasobject:
        raise UserError(
            f"{where} holds pickled Python objects, which are not loaded: they can run any code",
            hint="save a plain numeric array: np.save(file, np.stack(arrays))",
        )
    if not dtype.itemsize or any(size < 0 for size in shape):
        raise UserError(
            f"{where} is of type {dtype} and of sizes {shape}, which hold no values",
            hint="write it again with np.save or np.savez",
        )
    if fortran:
        raise UserError(
            f"{where} is in Fortran order, whose samples are not contiguous in the file",
            hint="save np.ascontiguousarray(array)",
        )
    return tuple(shape), dtype


def _check_length(size: int, shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    needed = prod(shape) * dtype.itemsize
    if size < needed:
        raise UserError(
            f"{where} is truncated: {needed:,} bytes of values expected, {size:,} found",
            hint="copy the file again",
        )
