"""Opening the user's data: a folder, a file or an iterable, as samples that fit the model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.calib import arrays, fit, images
from onnxq.calib.images import ImageOptions
from onnxq.calib.samples import InputSpec, Sample
from onnxq.errors import UserError, unknown_name
from onnxq.run import polygraphy_io

__all__ = ["ImageOptions", "InputSpec", "Sample", "Source", "open_source"]

Row = tuple[str, dict[str, np.ndarray]]
"""Where a sample comes from, and its arrays."""

_KINDS = {".npy": "npy", ".npz": "npz", ".json": "json"} | dict.fromkeys(images.SUFFIXES, "image")
_TAKEN = "give a folder of images, of .npy or of .npz files, one such file, or Polygraphy's JSON inputs"
_CLUTTER = frozenset(("thumbs.db", "desktop.ini", "__macosx"))


@dataclass(frozen=True, slots=True)
class _Record:
    """A file, or an item of an iterable: one sample or several.

    Attributes:
        where: its path or number, for messages.
        open: its array for each input.
    """

    where: str
    open: Callable[[], Mapping[str, arrays.Array]]


class Source:
    """Samples, read when they are asked for; memory does not grow with their number.

    Attributes:
        count: how many samples there are; None where only a pass over the data can tell, and
            then there is only one pass.
    """

    count: int | None

    def __init__(self, inputs: Sequence[InputSpec], has_batch: frozenset[str], batch: int) -> None:
        self._inputs = tuple(inputs)
        self._has_batch = has_batch
        self._batch = batch
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data that the user may not expect, as far as it was read."""
        return tuple(self._notes)

    def __iter__(self) -> Iterator[Sample]:
        """Every sample, in order.

        Raises:
            UserError: data that does not fit the model, or is not finite, or there is none.
        """
        raise NotImplementedError

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        """The samples of these indices, ascending.

        Raises:
            UserError: as above; or the data can be read only once.
        """
        raise NotImplementedError

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _layouts(self, where: str, members: Mapping[str, arrays.Array]) -> tuple[dict[str, fit.Layout], int]:
        """How a record's arrays hold samples, and how many."""
        for spec in self._inputs:
            if spec.name not in members:
                error = unknown_name("array named", spec.name, members)
                raise UserError(
                    f"{where}: {error}, which the model's input needs",
                    hint=f"{error.hint} Rename the array to the input's name.".strip(),
                )
        layouts = {
            spec.name: fit.layout(members[spec.name].shape, spec, spec.name in self._has_batch, where)
            for spec in self._inputs
        }
        counts = {name: found.count for name, found in layouts.items() if found.kind != "whole"}
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
            raise UserError(
                f"{where}: the inputs differ in their number of samples: {text}",
                hint="give each input the same number of samples along its first axis",
            )
        return layouts, next(iter(counts.values()), 1)

    def _rows(self, record: _Record, wanted: Sequence[int] | None) -> Iterator[Row]:
        """Samples of a record by ascending indices (None: all), each with its batch axis."""
        members = record.open()
        layouts, count = self._layouts(record.where, members)
        indices = range(count) if wanted is None else wanted

        def stream(spec: InputSpec) -> Iterator[np.ndarray]:
            array, kind = members[spec.name], layouts[spec.name].kind
            if kind == "rows":
                return (row[None] for row in array.rows(indices))
            if kind == "samples":
                return array.rows(indices)
            return itertools.repeat(array.read()[None] if kind == "bare" else array.read())

        streams = [stream(spec) for spec in self._inputs]
        for index, *values in zip(indices, *streams, strict=False):
            where = record.where if count == 1 else f"{record.where}[{index}]"
            yield (
                where,
                {
                    spec.name: fit.fit(value, spec, where, self._note)
                    for spec, value in zip(self._inputs, values, strict=True)
                },
            )

    def _feeds(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows in batches of the model's static size; a remainder is dropped."""
        if self._batch == 1:
            yield from rows
            return
        while len(group := list(itertools.islice(rows, self._batch))) == self._batch:
            (first, feeds), (last, _) = group[0], group[-1]
            where = f"{first} to {last}"
            yield where, {name: self._join(name, where, group) for name in feeds}
        self._note_remainder(len(group))

    def _note_remainder(self, count: int) -> None:
        if count:
            self._note(
                f"the model's batch size is {self._batch}: "
                f"the last {count} samples make no batch and are left out"
            )

    def _join(self, name: str, where: str, group: Sequence[Row]) -> np.ndarray:
        if name not in self._has_batch:
            return group[0][1][name]
        try:
            return np.concatenate([feeds[name] for _, feeds in group])
        except ValueError as error:
            raise UserError(
                f"{where}: samples of input {name!r} differ in shape and make no batch: {error}",
                hint="give samples of one size, or a model with a dynamic batch",
            ) from error


class _Indexed(Source):
    """Records that can be opened again, in any order."""

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        has_batch: frozenset[str],
        batch: int,
        records: Sequence[_Record],
        counts: Sequence[int] | None = None,
    ) -> None:
        super().__init__(inputs, has_batch, batch)
        self._records = records
        if counts is None:
            counts = [self._layouts(record.where, record.open())[1] for record in records]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = int(self._starts[-1])
        self.count: int = rows // batch
        if not rows:
            raise UserError("the data has zero samples", hint=_TAKEN)
        if not self.count:
            raise UserError(
                f"the model's batch size is {batch}, the data has {rows} samples",
                hint="give more samples, or a model with a dynamic batch",
            )
        self._note_remainder(rows % batch)

    def __iter__(self) -> Iterator[Sample]:
        return self.read(range(self.count))

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        chosen = sorted(indices)
        rows = (row for i in chosen for row in range(i * self._batch, (i + 1) * self._batch))
        for index, (where, feeds) in zip(chosen, self._feeds(self._chosen_rows(rows)), strict=True):
            yield Sample(index, where, feeds)

    def _chosen_rows(self, rows: Iterable[int]) -> Iterator[Row]:
        def record_of(row: int) -> int:
            return int(np.searchsorted(self._starts, row, side="right")) - 1

        for number, group in itertools.groupby(rows, record_of):
            start = int(self._starts[number])
            yield from self._rows(self._records[number], [row - start for row in group])


class _Stream(Source):
    """Items of an iterable that is passed over once."""

    count = None

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        has_batch: frozenset[str],
        batch: int,
        items: Iterable[Any],
    ) -> None:
        super().__init__(inputs, has_batch, batch)
        self._items: Iterable[Any] | None = items

    def __iter__(self) -> Iterator[Sample]:
        items, self._items = self._items, None
        if items is None:
            raise UserError(
                "the data is an iterator, and it has been read already",
                hint="give a list, a path, or an iterator for each call",
            )
        records = (_item(item, number) for number, item in enumerate(items))
        rows = itertools.chain.from_iterable(self._rows(record, None) for record in records)
        index = -1
        for index, (where, feeds) in enumerate(self._feeds(rows)):
            yield Sample(index, where, feeds)
        if index < 0:
            raise UserError("the data has zero samples", hint="; ".join(self.notes) or _TAKEN)

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        raise UserError("an iterator is read from its start to its end, once")


def open_source(
    data: str | os.PathLike[str] | Mapping[str, np.ndarray] | Iterable[Mapping[str, np.ndarray]],
    inputs: Sequence[InputSpec],
    *,
    options: ImageOptions | None = None,
) -> Source:
    """Opens data for a model.

    Where the model's batch axis is dynamic or 1, an array with several rows is as many samples;
    a static batch is filled with consecutive samples.

    Args:
        data: a folder of images, of .npy or of .npz files (subfolders included), one such file,
            Polygraphy's JSON inputs, or arrays: `{input: array}`, or an iterable of such.
        inputs: the model's inputs.
        options: how pixels become values.

    Raises:
        UserError: there is no data, it cannot be read, or it does not fit the model.
    """
    if not inputs:
        raise UserError("the model has no inputs, so that no data can be fed to it")
    has_batch, batch = fit.batched(inputs), fit.batch_size(inputs)
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if path.suffix.lower() == ".json" and os.path.isfile(path):
            items: Sequence[Any] = polygraphy_io.load_inputs(path)
            records = [_item(item, number, str(path)) for number, item in enumerate(items)]
            return _Indexed(inputs, has_batch, batch, records)
        kind, files, notes = _find(path)
        source = _open_files(kind, files, inputs, options or ImageOptions())
        for note in notes:
            source._note(note)
        return source
    if isinstance(data, Mapping):
        data = [data]
    if isinstance(data, Sequence):
        return _Indexed(inputs, has_batch, batch, [_item(x, i) for i, x in enumerate(data)])
    if isinstance(data, Iterable):
        return _Stream(inputs, has_batch, batch, data)
    raise UserError(f"data of type {type(data).__name__} cannot be read", hint=_TAKEN)


def _item(item: Any, number: int, file: str = "") -> _Record:
    where = f"{file}[{number}]" if file else f"item {number} of the data"
    if not isinstance(item, Mapping):
        raise UserError(
            f"{where} is of type {type(item).__name__}",
            hint="each item is a dictionary from input names to arrays: {'x': array}",
        )
    members = {}
    for name, value in item.items():
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise UserError(f"{where}: input {name!r} is no array of numbers", hint="give numpy arrays")
        members[str(name)] = arrays.MemoryArray(array)
    return _Record(where, lambda: members)


def _find(path: Path) -> tuple[str, list[Path], list[str]]:
    """The data files of a path: their kind, themselves in order, and notes."""
    if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
        kind = _KINDS.get(path.suffix.lower())
        if kind is None:
            raise UserError(f"{str(path)!r} is not a data file that onnxq reads", hint=_TAKEN)
        return kind, [path], []
    if not os.path.isdir(path):
        near = [str(entry) for entry in sorted(path.parent.glob("*"))]
        error = unknown_name("data file or folder", str(path), near)
        raise UserError(str(error), hint=error.hint or "check the path")
    kinds: dict[str, list[Path]] = {}
    others: list[str] = []

    def refuse(error: OSError) -> None:
        raise UserError(f"cannot read the folder {error.filename!r}: {error.strerror}") from error

    for root, folders, names in os.walk(path, onerror=refuse):
        folders[:] = sorted(n for n in folders if not _is_clutter(n))
        for name in sorted(n for n in names if not _is_clutter(n)):
            kind = _KINDS.get(Path(name).suffix.lower())
            if kind is None or kind == "json":  # a JSON file holds all samples: not part of a folder
                others.append(name)
            else:
                kinds.setdefault(kind, []).append(Path(root, name))
    if not kinds:
        what = f"only {', '.join(others[:3])}" if others else "empty"
        raise UserError(f"the data folder {str(path)!r} has zero samples: {what}", hint=_TAKEN)
    if len(kinds) > 1:
        text = ", ".join(f"{len(f)} {k} ({f[0].name!r}, ...)" for k, f in kinds.items())
        raise UserError(
            f"the data folder {str(path)!r} holds files of several kinds: {text}",
            hint="keep one kind in a folder",
        )
    note = f"other files in {str(path)!r} are left out ({len(others)}): {', '.join(others[:3])}"
    ((kind, files),) = kinds.items()
    return kind, files, [note] if others else []


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in _CLUTTER


def _open_files(
    kind: str, files: Sequence[Path], inputs: Sequence[InputSpec], options: ImageOptions
) -> Source:
    has_batch, batch = fit.batched(inputs), fit.batch_size(inputs)
    names = [spec.name for spec in inputs]
    if kind == "npz":

        def open_npz(path: Path) -> Mapping[str, arrays.Array]:
            members, found = arrays.open_npz(path, names)
            missing = [name for name in names if name not in members]
            if missing:
                error = unknown_name("array named", missing[0], found)
                raise UserError(
                    f"{str(path)!r}: {error}, which the model's input needs",
                    hint=f"{error.hint} Rename the array to the input's name.".strip(),
                )
            return members

        return _Indexed(inputs, has_batch, batch, [_file(path, open_npz) for path in files])
    if len(inputs) > 1:
        raise UserError(
            f"the model has {len(inputs)} inputs ({', '.join(names)}), {str(files[0])!r} holds one array",
            hint="give .npz files with an array for each input",
        )
    (spec,) = inputs
    if kind == "npy":
        records = [_file(path, lambda p: {spec.name: arrays.open_npy(p, spec.name)}) for path in files]
        return _Indexed(inputs, has_batch, batch, records)
    images.image_format(spec)  # before the first file is blamed
    if spec.shape is not None and len(spec.shape) == 3:
        has_batch, batch = frozenset(), 1  # CHW, not a batch of rows

    def open_image(path: Path) -> Mapping[str, arrays.Array]:
        return {spec.name: arrays.MemoryArray(images.decode(path, spec, options))}

    records = [_file(path, open_image) for path in files]
    return _Indexed(inputs, has_batch, batch, records, counts=[1] * len(records))


def _file(path: Path, opener: Callable[[Path], Mapping[str, arrays.Array]]) -> _Record:
    return _Record(str(path), lambda: opener(path))
