"""Rows of data: what files and items hold, one sample after another, as arrays that fit the inputs."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.reason import noted
from onnxq.base.shown import assumed
from onnxq.data import arrays, layout
from onnxq.data.bad_samples import BadSamples, Misnamed
from onnxq.data.images import Prepared
from onnxq.data.kept_feeds import KeptFeeds
from onnxq.data.samples import InputSpec
from onnxq.graph.types import shape_text


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
        content: what tells it from other records, where opening it takes longer; it holds one sample then.
    """

    where: str
    open: Callable[[], Mapping[str, arrays.Array]]
    content: Callable[[], bytes] | None = None


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A record that was opened.

    Attributes:
        record: it.
        members: its arrays, by input.
        layouts: how each holds samples.
        count: how many.
    """

    record: Record
    members: Mapping[str, arrays.Array]
    layouts: Mapping[str, layout.Layout]
    count: int


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

    def open(self, record: Record) -> OpenRecord:
        """Opens a record.

        Raises:
            UserError: it cannot be read, or does not fit the inputs.
        """
        members = self._members(record)
        return OpenRecord(record, members, *self._layouts(record.where, members))

    def rows(self, opened: OpenRecord, wanted: Sequence[int] | None = None) -> Iterator[Row]:
        """Samples of a record (None: all), each with its batch axis.

        One is bad if it cannot be read, does not fit the inputs, or a value is not finite.
        """
        indices = range(opened.count) if wanted is None else wanted
        streams = [
            _stream(opened.members[s.name], opened.layouts[s.name].kind, indices) for s in self._inputs
        ]
        broken: UserError | None = None
        for index in indices:
            where = opened.record.where if opened.count == 1 else f"{opened.record.where}[{index}]"
            try:
                if broken is None:
                    values = [next(stream) for stream in streams]
            except UserError as error:  # a file that ends early: what follows is lost, too
                broken = error
            yield self._fitted(where, values) if broken is None else Row(where, error=broken)

    def starts(self, opened: OpenRecord) -> Iterator[bytes]:
        """The hash of the first values of each sample of a record, and of their types and shapes.

        Raises:
            UserError: it ends early.
        """
        streams: list[Iterator[bytes]] = []
        for spec in self._inputs:
            array, whole = opened.members[spec.name], opened.layouts[spec.name].kind in ("whole", "bare")
            shape = array.shape if whole else array.shape[1:]
            title = f"{spec.name} {array.dtype.str} {shape} ".encode()
            if whole:
                streams.append(itertools.repeat(title + _start(array.read())))
            else:
                streams.append(title + start for start in array.starts(_START))
        yield from (hashed(next(stream) for stream in streams) for _ in range(opened.count))

    def shapes(self, opened: OpenRecord) -> Mapping[str, tuple[int, ...]]:
        """The shape of each input in the samples of a record; none of their values is read."""
        shapes = {}
        for spec in self._inputs:
            shape, kind = tuple(opened.members[spec.name].shape), opened.layouts[spec.name].kind
            if kind in ("rows", "samples"):
                shape = shape[1:]
            shapes[spec.name] = (1, *shape) if kind in ("rows", "bare") else shape
        return shapes

    def lacks(self, where: str, spec: InputSpec, found: Iterable[str]) -> UserError:
        """The error for a record that has arrays, `found`, but not that of an input."""
        others = {one.key for one in self._inputs}
        free = [name for name in found if name not in others]  # what is no other input's
        error = unknown_name("array named", spec.key, free)
        fault, hint = UserError if self._any_named else Misnamed, error.hint
        if spec.data_name is not None:
            return fault(f"{where}: {error}, which --input-name gives to input {spec.name!r}", hint=hint)
        if free:
            hint += (
                f" Rename the array to the input's name, or say which it is: --input-name {spec.name}=NAME"
            )
        else:
            hint = f"Each sample needs an array for every input: add one for {spec.name!r}"
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
                self.note(
                    noted(
                        "read-as.only", array=self._lone, input=spec.name,
                        assumed=assumed(f"--input-name {shlex.quote(f'{spec.name}={self._lone}')}"),
                    )
                )  # fmt: skip
        return self._lone if self._lone in found and spec.name not in found else None

    def _fitted(self, where: str, values: Sequence[np.ndarray]) -> Row:
        """A sample in the dtypes of the inputs."""
        try:
            pairs = zip(self._inputs, values, strict=True)
            return Row(where, {s.name: layout.fit(value, s, where, self.note) for s, value in pairs})
        except UserError as error:
            return Row(where, error=error)

    def _members(self, record: Record) -> dict[str, arrays.Array]:
        """A record's arrays; whole batches of a static size are rows, as everything else."""
        members = self._by_input(record.where, record.open())
        for spec in self._inputs:
            shape = tuple(members[spec.name].shape)
            full = layout.with_lacking_axis(shape, spec, spec.name in self._has_batch)
            if full is not None:
                members[spec.name] = members[spec.name].reshaped(full)
                stated = shape_text(("N", *full[1:]))
                self._axes[noted("read-as.lacking-axis", assumed=assumed(f"data of {stated}"))] = None
        whole: tuple[int, int] | None = None  # how many batches there are, and their size
        for spec in self._inputs:
            array, lead = members[spec.name], (spec.shape or (None,))[0]
            if spec.shape is None or spec.name not in self._has_batch:
                continue
            further = len(array.shape) == len(spec.shape) + 1 and array.shape[1] == lead
            if further and isinstance(lead, int) and lead > 1:
                whole = array.shape[0], lead
                members[spec.name] = array.reshaped((whole[0] * lead, *array.shape[2:]))
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
                hint="give each input the same number of samples along its first axis; where all of it is "
                "one sample, put an axis of 1 in front of each",
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
            self._axes[noted("read-as.in-front")] = None
        elif found.kind == "rows" and found.count > 1:
            static = isinstance(spec.shape[0], int) and spec.shape[0] > 1
            self._axes[noted("read-as.at-a-time", count=spec.shape[0]) if static else f"along {first}"] = None
            if layout.leading(spec) == "unknown":
                self.note(
                    noted("read-as.batch", axis=first, input=spec.name, shape="x".join(map(str, (1, *shape))))
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


_START = 1 << 16  # bytes of a sample that are hashed; where they are alike, all of it is


def _start(values: np.ndarray) -> bytes:
    (start,) = arrays.MemoryArray(values[None]).starts(_START)
    return start


def hashed(parts: Iterable[bytes]) -> bytes:
    """The hash of some parts, 16 bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


class Table(Protocol):
    """Rows that can be read again, in any order.

    Attributes:
        count: how many there are.
        are_apart: whether each came by itself, in a file of its own, say.
    """

    count: int
    are_apart: bool

    @property
    def lines(self) -> list[str]:
        """How the data were understood, for a reader."""

    @property
    def notes(self) -> list[str]:
        """What the user may not expect, as far as the data were read."""

    def rows(self, wanted: Sequence[int]) -> Iterator[Row]:
        """The rows of these indices, in this order; each is there, if only to say that it is bad."""

    def starts(self) -> Iterator[bytes]:
        """The hash of the first values of each row; b"" of one that cannot be read."""

    def shapes(self, wanted: Sequence[int]) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The shapes of the rows of these indices, by input; none of one that cannot be opened."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Data that were found.

    Attributes:
        table: their rows.
        prepared: how images become inputs.
    """

    table: Table
    prepared: Prepared


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
        self._opened: OpenRecord | None = None  # the last that holds several rows: they are read in any order
        self._kept = KeptFeeds()  # of those that take long to open
        if counts is None:
            counts = [self._count(record, bad) for record in records]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.count = int(self._starts[-1])
        self.are_apart = self.count == len(records)

    @property
    def lines(self) -> list[str]:
        """How many samples there are, and where in a record they are."""
        return [self._reader.understood(self._title, len(self._records), self.count)]

    @property
    def notes(self) -> list[str]:
        """What was left out, and how values were converted."""
        return [*self._notes, *self._reader.notes]

    def rows(self, wanted: Sequence[int]) -> Iterator[Row]:
        """The rows of these indices, in this order; of a record that cannot be opened, each is bad."""
        for number, group in itertools.groupby(wanted, self._record_of):
            start, indices = int(self._starts[number]), list(group)
            one = int(self._starts[number + 1]) - start == 1
            if one and self._records[number].content is not None:
                yield from (self._alone(number) for _ in indices)
                continue
            try:
                opened = self._open(self._records[number])
                self._check_count(opened, int(self._starts[number + 1]) - start)
            except UserError as error:
                yield from (Row(self._records[number].where, error=error) for _ in indices)
            else:
                yield from self._reader.rows(opened, [row - start for row in indices])

    def _alone(self, number: int) -> Row:
        """The row of a record that holds one and takes long to open."""
        record = self._records[number]
        feeds = self._kept.get(number)
        if feeds is not None:
            return Row(record.where, feeds)
        try:
            opened = self._reader.open(record)
            self._check_count(opened, 1)
            (row,) = self._reader.rows(opened)
        except UserError as error:
            return Row(record.where, error=error)
        if row.error is None:
            self._kept.put(number, row.feeds)
        return row

    def starts(self) -> Iterator[bytes]:
        """The hash of the first values of each row; of an image that of its file."""
        for record, count in zip(self._records, np.diff(self._starts).tolist(), strict=True):
            found = 0
            with contextlib.suppress(UserError, OSError):
                if record.content is not None:
                    found = 1
                    yield hashed([record.content()])
                else:
                    for start in self._reader.starts(self._open(record)):
                        found += 1
                        yield start
            yield from itertools.repeat(b"", count - found)

    def shapes(self, wanted: Sequence[int]) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The shapes of the rows of these indices."""
        for number in map(self._record_of, wanted):
            try:
                opened = self._open(self._records[number])
            except UserError:
                yield {}
            else:
                yield self._reader.shapes(opened)

    def _open(self, record: Record) -> OpenRecord:
        if self._opened is not None and self._opened.record is record:
            return self._opened
        opened = self._reader.open(record)
        self._opened = opened if opened.count > 1 else None
        return opened

    @staticmethod
    def _check_count(opened: OpenRecord, expected: int) -> None:
        """Refuses a record that has more samples than it was thought to have, or fewer."""
        if opened.count != expected:
            raise UserError(
                f"{opened.record.where} has {opened.count} samples, where {expected} is expected",
                hint="give samples of one form, each by itself",
            )

    def _count(self, record: Record, bad: BadSamples) -> int:
        try:
            return self._open(record).count
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
        own = [table for name, table in tables.items() if name not in shared]
        self.are_apart = all(table.are_apart for table in own) and set(times.values()) <= {1}

    @property
    def lines(self) -> list[str]:
        """How each input's data were understood."""
        return [f"{name}: {line}" for name, table in self._tables.items() for line in table.lines]

    @property
    def notes(self) -> list[str]:
        """What was left out, and how values were converted."""
        return [*self._notes, *(note for table in self._tables.values() for note in table.notes)]

    def rows(self, wanted: Sequence[int]) -> Iterator[Row]:
        """The rows of these indices, in this order."""
        indices = list(wanted)
        parts = [
            itertools.repeat(next(table.rows([0])))
            if name in self._shared
            else arrays.in_turn([index // self._times.get(name, 1) for index in indices], table.rows)
            for name, table in self._tables.items()
        ]
        own = [i for i, name in enumerate(self._tables) if name not in self._shared] or [0]
        for _, *row in zip(indices, *parts, strict=False):
            bad = next((part for part in row if part.error is not None), None)
            where = ", ".join(row[i].where for i in own)
            yield bad or Row(where, {name: array for part in row for name, array in part.feeds.items()})

    def starts(self) -> Iterator[bytes]:
        """The hash of the first values of each row."""
        parts = [
            (start for start in table.starts() for _ in range(self._times.get(name, 1)))
            for name, table in self._tables.items()
            if name not in self._shared
        ]
        return (hashed(row) if all(row) else b"" for row in zip(*parts, strict=False))

    def shapes(self, wanted: Sequence[int]) -> Iterator[Mapping[str, tuple[int, ...]]]:
        """The shapes of the rows of these indices."""
        parts = [
            itertools.repeat(next(table.shapes([0])))
            if name in self._shared
            else arrays.in_turn([index // self._times.get(name, 1) for index in wanted], table.shapes)
            for name, table in self._tables.items()
        ]
        for _, *row in zip(wanted, *parts, strict=False):
            yield {name: shape for part in row for name, shape in part.items()}
