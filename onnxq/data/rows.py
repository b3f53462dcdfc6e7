"""Rows of data: what files and items hold, one sample after another, as arrays that fit the inputs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from onnxq.data import arrays, layout
from onnxq.data.bad_samples import BadSamples, Misnamed
from onnxq.data.samples import InputSpec
from onnxq.errors import UserError, unknown_name


@dataclass(frozen=True, slots=True)
class Row:
    """A sample, or why there is none.

    Attributes:
        where: where it comes from.
        feeds: its arrays.
        error: why it is bad; it has no arrays then.
    """

    where: str
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    error: UserError | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A file, or an item of an iterable: one sample or several.

    Attributes:
        where: its path or number, for messages.
        open: its arrays, by the names that the data have for the inputs.
    """

    where: str
    open: Callable[[], Mapping[str, arrays.Array]]


def item_record(item: Any, where: str) -> Record:
    """An item of an iterable: a dictionary from input names to arrays."""
    try:
        members = _members(item, where)
    except UserError as error:
        bad = error

        def fail() -> Mapping[str, arrays.Array]:
            raise bad

        return Record(where, fail)
    return Record(where, lambda: members)


def _members(item: Any, where: str) -> dict[str, arrays.Array]:
    if not isinstance(item, Mapping):
        raise UserError(
            f"{where} is of type {type(item).__name__}",
            hint="each item is a dictionary from input names to arrays: {'x': array}",
        )
    members: dict[str, arrays.Array] = {}
    for name, value in item.items():
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # a tensor on a GPU, lists of different lengths
            array = np.empty((), object)
        if array.dtype.hasobject:
            raise UserError(f"{where}: input {name!r} is no array of numbers", hint="give numpy arrays")
        members[str(name)] = arrays.MemoryArray(array)
    return members


class Reader:
    """Takes records apart into rows.

    Attributes:
        notes: what was done to the data that the user may not expect, each once.
    """

    def __init__(self, inputs: Sequence[InputSpec], has_batch: frozenset[str], *, several: bool) -> None:
        self._inputs = tuple(inputs)
        self._has_batch = has_batch
        self._several = several
        self.notes: dict[str, None] = {}
        self._axes: dict[str, None] = {}
        self._lone = ""  # what a lone array is called, as soon as it is known
        self._any_named = False  # whether a record had an array for each input

    def note(self, text: str) -> None:
        """Keeps a note."""
        self.notes[text] = None

    def count(self, record: Record) -> int:
        """How many samples a record holds.

        Raises:
            UserError: it cannot be read, or does not fit the inputs.
        """
        return self._layouts(record.where, self._open(record))[1]

    def rows(self, record: Record, wanted: Iterable[int] | None = None) -> Iterator[Row]:
        """Samples of a record by ascending indices (None: all), each with its batch axis.

        One is bad if it cannot be read, does not fit the inputs, or a value is not finite. A record
        that cannot be opened is one bad sample, or as many as are wanted of it.
        """
        try:
            members = self._open(record)
            layouts, count = self._layouts(record.where, members)
        except UserError as error:
            yield from (Row(record.where, error=error) for _ in ([0] if wanted is None else wanted))
            return
        indices = range(count) if wanted is None else list(wanted)

        streams = [_stream(members[s.name], layouts[s.name].kind, indices) for s in self._inputs]
        broken: UserError | None = None
        for index in indices:
            where = record.where if count == 1 else f"{record.where}[{index}]"
            try:
                if broken is None:
                    values = [next(stream) for stream in streams]
            except UserError as error:  # a file that ends early: what follows is lost, too
                broken = error
            yield self._fitted(where, values) if broken is None else Row(where, error=broken)

    def shapes(self, record: Record) -> Mapping[str, tuple[int, ...]]:
        """The shape of each input in the samples of a record, none of whose values is read.

        Raises:
            UserError: it cannot be read, or does not fit the inputs.
        """
        members = self._open(record)
        layouts, _ = self._layouts(record.where, members)
        found = {}
        for spec in self._inputs:
            shape, kind = tuple(members[spec.name].shape), layouts[spec.name].kind
            if kind in ("rows", "samples"):
                shape = shape[1:]
            found[spec.name] = (1, *shape) if kind in ("rows", "bare") else shape
        return found

    def lacks(self, where: str, spec: InputSpec, found: Iterable[str]) -> UserError:
        """The error for a record that has arrays, `found`, but not that of an input."""
        error = unknown_name("array named", spec.key, found)
        fault, hint = UserError if self._any_named else Misnamed, error.hint
        if spec.data_name is not None:
            return fault(f"{where}: {error}, which --input-name gives to input {spec.name!r}", hint=hint)
        hint += f" Rename the array to the input's name, or say which it is: --input-name {spec.name}=NAME"
        return fault(f"{where}: {error}, which the model's input needs", hint=hint.strip())

    def lone(self, found: Sequence[str]) -> str | None:
        """The name of the array that the model's only input takes though it has another name.

        The first file decides: if it holds one array, that one's name is the input's in all files.

        Args:
            found: the names of a file's arrays.
        """
        (spec, *others) = self._inputs
        if others or spec.data_name is not None:
            return None
        if not self._lone:
            self._lone = found[0] if len(found) == 1 else spec.name
            if self._lone != spec.name:
                self.note(f"{self._lone!r}, the only array in a file, is fed to input {spec.name!r}")
        return self._lone if self._lone in found and spec.name not in found else None

    def _fitted(self, where: str, values: Sequence[np.ndarray]) -> Row:
        """A sample in the dtypes of the inputs."""
        try:
            pairs = zip(self._inputs, values, strict=True)
            return Row(where, {s.name: layout.fit(value, s, where, self.note) for s, value in pairs})
        except UserError as error:
            return Row(where, error=error)

    def _open(self, record: Record) -> dict[str, arrays.Array]:
        """A record's arrays; whole batches of a static size are rows, as everything else."""
        members = self._by_input(record.where, record.open())
        whole: tuple[int, int] | None = None  # how many batches there are, and their size
        for spec in self._inputs:
            array, lead = members[spec.name], (spec.shape or (None,))[0]
            if spec.shape is None or spec.name not in self._has_batch:
                continue
            further = len(array.shape) == len(spec.shape) + 1 and array.shape[1] == lead
            if further and isinstance(lead, int) and lead > 1:
                whole = array.shape[0], lead
                members[spec.name] = array.merged()
        for spec in self._inputs if whole is not None else ():  # what has no batch has a value for each
            array = members[spec.name]
            own = spec.shape is not None and len(array.shape) == len(spec.shape) + 1
            if whole is not None and own and spec.name not in self._has_batch and array.shape[0] == whole[0]:
                members[spec.name] = arrays.RepeatedArray(array, whole[1])
        return members

    def _by_input(self, where: str, found: Mapping[str, arrays.Array]) -> dict[str, arrays.Array]:
        """The arrays of a record, which have the data's names."""
        for spec in self._inputs:
            if spec.key not in found:
                raise self.lacks(where, spec, found)
        return {spec.name: found[spec.key] for spec in self._inputs}

    def _layouts(
        self, where: str, members: Mapping[str, arrays.Array]
    ) -> tuple[dict[str, layout.Layout], int]:
        """How a record's arrays hold samples, and how many."""
        for spec in self._inputs:
            layout.refuse_text(members[spec.name].dtype, spec, where)
        self._any_named = True
        layouts = {
            spec.name: layout.layout(
                members[spec.name].shape, spec, spec.name in self._has_batch, where, several=self._several
            )
            for spec in self._inputs
        }
        counts = {name: found.count for name, found in layouts.items() if found.kind != "whole"}
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
            raise UserError(
                f"{where}: the inputs differ in their number of samples: {text}",
                hint="give each input the same number of samples along its first axis",
            )
        for spec in self._inputs:
            self._explain(spec, layouts[spec.name], members[spec.name].shape)
        return layouts, next(iter(counts.values()), 1)

    def understood(self, title: str, records: int, samples: int) -> str:
        """How records were understood: `x.npz, 24 samples, along axis 0 (N)`."""
        what = f"{samples} samples" if samples != records else "one sample" + " each" * (records > 1)
        return ", ".join([title, what, *self._axes])

    def _explain(self, spec: InputSpec, found: layout.Layout, shape: tuple[int, ...]) -> None:
        """Keeps what was understood of an axis that may be the batch's or not."""
        if not spec.shape:
            return
        first = f"axis 0 ({spec.shape[0] or 'dynamic'})"
        if found.kind == "samples":
            self._axes["along an axis in front of the input's"] = None
        elif found.kind == "rows" and found.count > 1:
            static = isinstance(spec.shape[0], int) and spec.shape[0] > 1
            self._axes[f"along axis 0, {spec.shape[0]} at a time" if static else f"along {first}"] = None
            if layout.leading(spec) == "unknown":
                self.note(
                    f"{first} of input {spec.name!r} is taken for the batch; if it is not, put an axis in "
                    f"front of one sample: {'x'.join(map(str, (1, *shape)))}"
                )
        elif found.kind == "whole" and not isinstance(spec.shape[0], int) and shape[0] > 1:
            self._axes[f"{first} not split"] = None


def _stream(array: arrays.Array, kind: str, indices: Sequence[int]) -> Iterator[np.ndarray]:
    """What an array gives to each of the samples of these indices."""
    if kind == "samples":
        yield from array.rows(indices)
    elif kind == "rows":
        yield from (row[None] for row in array.rows(indices))
    else:
        whole = array.read()
        yield from itertools.repeat(whole[None] if kind == "bare" else whole)


class Table(Protocol):
    """Rows that can be read again, in any order.

    Attributes:
        count: how many there are.
    """

    count: int

    @property
    def lines(self) -> list[str]:
        """How the data were understood, for a reader."""

    @property
    def notes(self) -> list[str]:
        """What the user may not expect, as far as the data were read."""

    def rows(self, wanted: Iterable[int]) -> Iterator[Row]:
        """The rows of these indices, ascending; each is there, if only to say that it is bad."""

    def shapes(self, wanted: Sequence[int]) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The shapes of the rows of these indices, by input; none of one that cannot be opened."""


class RecordTable:
    """The rows of records, one record after another.

    Args:
        title: the records in words.
        reader: takes them apart.
        records: themselves.
        bad: is told of records that cannot be opened; they count as one row.
        notes: what the user may not expect.
        counts: how many rows each has, where that is known without opening it.
    """

    def __init__(
        self,
        title: str,
        reader: Reader,
        records: Sequence[Record],
        bad: BadSamples,
        notes: Sequence[str] = (),
        counts: Sequence[int] | None = None,
    ) -> None:
        self._title = title
        self._reader = reader
        self._records = records
        self._notes = notes
        if counts is None:
            counts = [self._count(record, bad) for record in records]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.count = int(self._starts[-1])

    @property
    def lines(self) -> list[str]:
        """How many samples there are, and where in a record they are."""
        return [self._reader.understood(self._title, len(self._records), self.count)]

    @property
    def notes(self) -> list[str]:
        """What was left out, and how values were converted."""
        return [*self._notes, *self._reader.notes]

    def rows(self, wanted: Iterable[int]) -> Iterator[Row]:
        """The rows of these indices, ascending."""
        for number, group in itertools.groupby(wanted, self._record_of):
            start = int(self._starts[number])
            yield from self._reader.rows(self._records[number], [row - start for row in group])

    def shapes(self, wanted: Sequence[int]) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The shapes of the rows of these indices."""
        for number, group in itertools.groupby(wanted, self._record_of):
            shapes: Mapping[str, tuple[int, ...]] = {}
            with contextlib.suppress(UserError):
                shapes = self._reader.shapes(self._records[number])
            yield from (shapes for _ in group)

    def _count(self, record: Record, bad: BadSamples) -> int:
        try:
            return self._reader.count(record)
        except UserError as error:
            if len(self._records) == 1:
                raise
            bad.meet(record.where, error)
            return 1

    def _record_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1


class Columns:
    """The rows of one table for each input, side by side.

    Args:
        tables: the table of each input.
        shared: inputs whose only row is every sample's.
        notes: what the user may not expect.
        times: how many samples in turn have a row, of inputs where that is more than one.
    """

    def __init__(
        self,
        tables: Mapping[str, RecordTable],
        shared: frozenset[str],
        notes: Sequence[str],
        times: Mapping[str, int],
    ) -> None:
        self._tables = tables
        self._shared = shared
        self._notes = notes
        self._times = times
        self.count = max(table.count for table in tables.values())

    @property
    def lines(self) -> list[str]:
        """How each input's data were understood."""
        return [f"{name}: {line}" for name, table in self._tables.items() for line in table.lines]

    @property
    def notes(self) -> list[str]:
        """What was left out, and how values were converted."""
        return [*self._notes, *(note for table in self._tables.values() for note in table.notes)]

    def rows(self, wanted: Iterable[int]) -> Iterator[Row]:
        """The rows of these indices, ascending."""
        indices = list(wanted)
        parts = [
            itertools.repeat(next(table.rows([0])))
            if name in self._shared
            else _in_turn(table, indices, self._times.get(name, 1))
            for name, table in self._tables.items()
        ]
        own = [i for i, name in enumerate(self._tables) if name not in self._shared] or [0]
        for _, *row in zip(indices, *parts, strict=False):
            bad = next((part for part in row if part.error is not None), None)
            where = ", ".join(row[i].where for i in own)
            yield bad or Row(where, {name: array for part in row for name, array in part.feeds.items()})

    def shapes(self, wanted: Sequence[int]) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The shapes of the rows of these indices."""
        parts = [
            itertools.repeat(next(table.shapes([0])))
            if name in self._shared
            else table.shapes([index // self._times.get(name, 1) for index in wanted])
            for name, table in self._tables.items()
        ]
        for _, *row in zip(wanted, *parts, strict=False):
            yield {name: shape for part in row for name, shape in part.items()}


def _in_turn(table: RecordTable, wanted: Sequence[int], times: int) -> Iterator[Row]:
    """Rows of a table of which each is there several times in turn; it is read once."""
    indices = [index // times for index in wanted]
    read = table.rows(dict.fromkeys(indices))
    for _, group in itertools.groupby(indices):
        row = next(read)
        yield from (row for _ in group)
