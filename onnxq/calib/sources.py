"""Opening the user's data: a folder, a file or an iterable, as samples that fit the model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.calib import arrays, fit, images
from onnxq.calib.find import TAKEN, Found, find, find_by_input
from onnxq.calib.image_options import ImageOptions
from onnxq.calib.records import Columns, Reader, Record, RecordTable, Row, Table
from onnxq.calib.samples import InputSpec, Sample
from onnxq.errors import UserError, unknown_name
from onnxq.run import polygraphy_io

__all__ = ["ImageOptions", "InputSpec", "Sample", "Source", "open_source"]


class Source:
    """Samples, read when they are asked for; memory does not grow with their number.

    Attributes:
        count: how many samples there are; None where only a pass over the data can tell, and
            then there is only one pass.
        images: how images become inputs.
    """

    count: int | None

    def __init__(
        self, has_batch: frozenset[str], batch: int, prepared: Sequence[images.Preparation] = ()
    ) -> None:
        self._has_batch = has_batch
        self._batch = batch
        self._completed = 0
        self.images = tuple(prepared)

    @property
    def lines(self) -> list[str]:
        """How the data were understood, as far as they were read."""
        raise NotImplementedError

    @property
    def notes(self) -> list[str]:
        """What was done to the data that the user may not expect, as far as it was read."""
        if not self._completed:
            return []
        return [
            f"the model's batch size is {self._batch}: the last batch is completed with "
            f"{self._completed} of its samples again"
        ]

    def to_json(self) -> dict[str, Any]:
        """How the data were understood, for the report."""
        return {
            "lines": self.lines,
            "images": [image.to_json() for image in self.images],
            "notes": self.notes,
        }

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

    def _feeds(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows in batches of the model's static size; the last is completed with its own rows."""
        if self._batch == 1:
            yield from rows
            return
        while group := list(itertools.islice(rows, self._batch)):
            (first, feeds), (last, _) = group[0], group[-1]
            if len(group) < self._batch:
                self._completed = self._batch - len(group)
            full = list(itertools.islice(itertools.cycle(group), self._batch))
            where = f"{first} to {last}"
            yield where, {name: self._join(name, where, full) for name in feeds}

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
    """Rows that can be read again, in any order."""

    def __init__(
        self,
        table: Table,
        has_batch: frozenset[str],
        batch: int,
        prepared: Sequence[images.Preparation] = (),
    ) -> None:
        super().__init__(has_batch, batch, prepared)
        if not table.count:
            raise UserError("the data has zero samples", hint=TAKEN)
        self._table = table
        self.count: int = -(-table.count // batch)
        self._completed = self.count * batch - table.count

    @property
    def lines(self) -> list[str]:
        return self._table.lines

    @property
    def notes(self) -> list[str]:
        return [*self._table.notes, *super().notes]

    def __iter__(self) -> Iterator[Sample]:
        return self.read(range(self.count))

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        chosen, batch = sorted(indices), self._batch
        rows = (row for i in chosen for row in range(i * batch, min((i + 1) * batch, self._table.count)))
        for index, (where, feeds) in zip(chosen, self._feeds(self._table.rows(rows)), strict=True):
            yield Sample(index, where, feeds)


class _Stream(Source):
    """Items of an iterable that is passed over once."""

    count = None

    def __init__(self, items: Iterable[Any], reader: Reader, has_batch: frozenset[str], batch: int) -> None:
        super().__init__(has_batch, batch)
        self._items: Iterable[Any] | None = items
        self._reader = reader
        self._read = 0
        self._taken = 0

    @property
    def lines(self) -> list[str]:
        title = f"an iterator, {_number(self._taken, 'item')} read"
        return [self._reader.understood(title, self._taken, self._read)]

    @property
    def notes(self) -> list[str]:
        return [*self._reader.notes, *super().notes]

    def __iter__(self) -> Iterator[Sample]:
        items, self._items = self._items, None
        if items is None:
            raise UserError(
                "the data is an iterator, and it has been read already",
                hint="give a list, a path, or an iterator for each call",
            )
        for index, (where, feeds) in enumerate(self._feeds(self._rows(items))):
            yield Sample(index, where, feeds)
        if not self._read:
            raise UserError("the data has zero samples", hint=TAKEN)

    def _rows(self, items: Iterable[Any]) -> Iterator[Row]:
        for number, item in enumerate(items):
            self._taken += 1
            for row in self._reader.rows(_item(item, number)):
                self._read += 1
                yield row

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
    a static batch is filled with consecutive samples. A first axis that is a sequence's is never
    divided, see `fit.leading`; of one that may be either, a lone array is divided, and each of
    several is one sample. An axis in front of the input's is always that of samples.

    Args:
        data: a folder of images, of .npy or of .npz files (subfolders included), one such file,
            Polygraphy's JSON inputs, or arrays: `{input: array}`, or an iterable of such. For
            several inputs also a folder with a subfolder or a file for each, named after it.
        inputs: the model's inputs.
        options: how pixels become values.

    Raises:
        UserError: there is no data, it cannot be read, or it does not fit the model.
    """
    if not inputs:
        raise UserError("the model has no inputs, so that no data can be fed to it")
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data), inputs, options or ImageOptions())
    if options is not None:
        _refuse(options, "arrays")
    has_batch = fit.batched(inputs)
    batch = fit.batch_size(inputs, has_batch)
    if isinstance(data, Mapping):
        data = [data]
    if isinstance(data, Sequence):
        records = [_item(item, number) for number, item in enumerate(data)]
        reader = Reader(inputs, has_batch, several=len(records) > 1)
        return _Indexed(RecordTable(_number(len(records), "item"), reader, records), has_batch, batch)
    if isinstance(data, Iterable):
        return _Stream(data, Reader(inputs, has_batch, several=True), has_batch, batch)
    raise UserError(f"data of type {type(data).__name__} cannot be read", hint=TAKEN)


def _open_path(path: Path, inputs: Sequence[InputSpec], options: ImageOptions) -> Source:
    by_input = find_by_input(path, [spec.name for spec in inputs]) if len(inputs) > 1 else None
    if by_input is not None:
        return _open_columns(by_input, inputs, options)
    found = find(path)
    if found.kind != "image":
        _refuse(options, found.title)
    if len(inputs) > 1 and found.kind in ("image", "npy"):
        names = [spec.name for spec in inputs]
        raise UserError(
            f"the model has {len(inputs)} inputs ({', '.join(names)}), {found.title} hold data of only one",
            hint="make a folder or a file for each input, named after it ("
            + ", ".join(f"{name}/" for name in names[:-1])
            + f" and {names[-1]}.npy, say), or .npz files with an array for each; an input that is "
            f"always the same becomes a constant with --freeze {names[-1]}=VALUE",
        )
    prepared = [images.prepare(inputs[0], options)] if found.kind == "image" else []
    has_batch = _batched(inputs, prepared)
    table = _table(found, inputs, has_batch, prepared)
    return _Indexed(table, has_batch, fit.batch_size(inputs, has_batch), prepared)


def _open_columns(found: Mapping[str, Found], inputs: Sequence[InputSpec], options: ImageOptions) -> Source:
    """Data that are kept apart by input."""
    prepared = [images.prepare(spec, options) for spec in inputs if found[spec.name].kind == "image"]
    if not prepared:
        _refuse(options, ", ".join(entry.title for entry in found.values()))
    has_batch = _batched(inputs, prepared)
    tables = {
        spec.name: _table(found[spec.name], [spec], has_batch, [p for p in prepared if p.input == spec.name])
        for spec in inputs
    }
    shared = {name for name, table in tables.items() if table.count == 1 and name not in has_batch}
    own = {name: found[name] for name in tables if name not in shared}
    notes = _check_pairs(own, {name: tables[name].count for name in own})
    table = Columns(tables, frozenset(shared), notes)
    return _Indexed(table, has_batch, fit.batch_size(inputs, has_batch), prepared)


def _check_pairs(found: Mapping[str, Found], counts: Mapping[str, int]) -> list[str]:
    """Refuses inputs that differ in their number of samples; a note where names do not match."""
    stems = {
        name: [file.relative_to(entry.path).with_suffix("") for file in entry.files]
        for name, entry in found.items()
        if len(entry.files) > 1
    }
    lone = ""
    if len(stems) > 1:
        (a, ours), *others = stems.items()
        pairs = [(x, b) for b, theirs in others for x in sorted(set(ours) ^ set(theirs))]
        if pairs:
            stem, b = pairs[0]
            has, lacks = (a, b) if stem in ours else (b, a)
            lone = f"{str(stem)!r} of {has!r} has no like in {lacks!r}"
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise UserError(
            f"the inputs differ in their number of samples: {text}" + f" ({lone})" * bool(lone),
            hint="give each input the same number of samples, in files of the same names",
        )
    return [f"files of the inputs are paired in their order, not by name: {lone}"] if lone else []


def _batched(inputs: Sequence[InputSpec], prepared: Sequence[images.Preparation]) -> frozenset[str]:
    """Names of the inputs whose first axis is the batch; of images, the layout tells."""
    layouts = {image.input: image.layout for image in prepared}
    alike = fit.batched(inputs)
    return frozenset(
        spec.name
        for spec in inputs
        if (layouts[spec.name].startswith("N") if spec.name in layouts else spec.name in alike)
    )


def _table(
    found: Found,
    inputs: Sequence[InputSpec],
    has_batch: frozenset[str],
    prepared: Sequence[images.Preparation],
) -> RecordTable:
    """The rows of the files of a path."""
    names = [spec.name for spec in inputs]
    reader = Reader(inputs, has_batch, several=len(found.files) > 1)
    if found.kind == "json":
        (path,) = found.files
        items = polygraphy_io.load_inputs(path)
        reader = Reader(inputs, has_batch, several=len(items) > 1)
        records = [_item(item, number, str(path)) for number, item in enumerate(items)]
        return RecordTable(f"{path}, {_number(len(items), 'item')}", reader, records)

    def open_file(path: Path) -> Mapping[str, arrays.Array]:
        if found.kind == "npz":
            return _open_npz(path, names)
        if found.kind == "npy":
            return {names[0]: arrays.open_npy(path, names[0])}
        return {names[0]: arrays.MemoryArray(prepared[0].decode(path, reader.note))}

    records = [_file(path, open_file) for path in found.files]
    counts = [1] * len(records) if found.kind == "image" else None
    return RecordTable(found.title, reader, records, found.notes, counts)


def _file(path: Path, opener: Callable[[Path], Mapping[str, arrays.Array]]) -> Record:
    return Record(str(path), lambda: opener(path))


def _open_npz(path: Path, names: Sequence[str]) -> Mapping[str, arrays.Array]:
    members, found = arrays.open_npz(path, names)
    missing = [name for name in names if name not in members]
    if missing:
        error = unknown_name("array named", missing[0], found)
        raise UserError(
            f"{str(path)!r}: {error}, which the model's input needs",
            hint=f"{error.hint} Rename the array to the input's name.".strip(),
        )
    return members


def _item(item: Any, number: int, file: str = "") -> Record:
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
    return Record(where, lambda: members)


def _refuse(options: ImageOptions, what: str) -> None:
    """Refuses image options for data that are no images."""
    if given := options.given():
        raise UserError(
            f"{', '.join(given)}: for images, but the data are arrays ({what}), which are fed as they are",
            hint="leave the image options out, and prepare the arrays as the model takes them",
        )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
