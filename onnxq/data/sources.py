"""Opening the user's data: a folder, a file or an iterable, as samples that fit the model."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.shown import counted
from onnxq.data import layout
from onnxq.data.bad_samples import BadSamples
from onnxq.data.fed import assumed_lines
from onnxq.data.files import TAKEN, list_files
from onnxq.data.images import Prepared, batched
from onnxq.data.items import (
    Calls,
    Dataset,
    Items,
    is_array,
    looked_at,
    open_dataset,
    open_items,
    prepared_for,
)
from onnxq.data.paths import open_found, open_path
from onnxq.data.rows import Opened, Reader, Row, Table, hashed
from onnxq.data.samples import InputSpec, Sample, digest
from onnxq.data.script import Script
from onnxq.data.understood import DataRead
from onnxq.graph.validity import check_sizes
from onnxq.options.settings import ImageOptions

DataSource = str | os.PathLike[str] | Iterable[Any] | Dataset[Any] | Callable[[], Iterable[Any]]
"""A path or paths; arrays by the names of inputs, or an array; a list, a dataset or a loader of samples, or a
function that gives an iterator over them."""

OBJECTS = (
    "give a path or a list of paths; an array, {input: array} or a list of such; a dataset that has samples "
    "by number (data[0], len(data)); or what gives samples one after another, as a loader, a generator or a "
    "function without arguments does"
)
"""What data may be in Python."""

__all__ = ["ImageOptions", "InputSpec", "Sample", "Source", "open_source"]


@dataclass(frozen=True, slots=True)
class Form:
    """How rows of data become samples.

    Attributes:
        has_batch: names of the inputs whose first axis is the batch.
        batch: how many rows a sample has, a static batch size.
        prepared: how images become inputs.
    """

    has_batch: frozenset[str]
    batch: int
    prepared: Prepared

    @classmethod
    def of(cls, inputs: Sequence[InputSpec], prepared: Prepared) -> Form:
        """That of a model's inputs."""
        has_batch = batched(inputs, prepared)
        return cls(has_batch, layout.batch_size(inputs, has_batch), prepared)


class Source:
    """Samples, read when they are asked for; memory does not grow with their number.

    Attributes:
        count: how many samples there are, bad ones included; None where only a pass over the data
            can tell, and then there may be only one pass.
        skip_bad: whether bad samples are left out; the others keep their indices.
        look: is shown each sample that is read.
    """

    count: int | None
    look: Callable[[Sample], None]

    def __init__(self, bad: BadSamples) -> None:
        self._bad = bad
        self._completed = 0
        self.skip_bad = bad.allowed
        self.look = lambda sample: None

    @property
    def _form(self) -> Form:
        """How rows become samples; of what can be read once, the first item is read for it."""
        raise NotImplementedError

    @property
    def batch(self) -> int:
        """How many rows of data each sample has, a static batch size."""
        return self._form.batch

    @property
    def images(self) -> Prepared:
        """How images become inputs."""
        return self._form.prepared

    def _shown(self, index: int, row: Row) -> Sample:
        """A row as a sample."""
        sample = Sample(index, row.where, row.feeds)
        self.look(sample)
        return sample

    @property
    def lines(self) -> list[str]:
        """How the data were understood, as far as they were read."""
        raise NotImplementedError

    @property
    def assumed(self) -> list[str]:
        """What nobody stated of how images become inputs, and what states it."""
        each = [assumed_lines([image.told()], dict.fromkeys(image.given)) for image in self.images]
        return [line for lines in each for line in lines]

    @property
    def notes(self) -> list[str]:
        """What was done to the data that the user may not expect, as far as it was read."""
        completed = noted("decided-by-order.completed", batch=self.batch, samples=self._completed)
        return [completed] * bool(self._completed) + self._bad.notes

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Where the first 20 bad samples are that were left out so far, and why, each once."""
        return list(self._bad.first)

    def skip(self, where: str, why: str) -> None:
        """Counts a sample that its user leaves out, since the model fails on it."""
        self._bad.add(where, why)

    def told(self, path: str | None = None) -> DataRead:
        """How the data, which are at a path, were understood, for the report."""
        images = tuple(image.told() for image in self.images)
        return DataRead(path, tuple(self.lines), self.batch, images, tuple(self.notes), self._bad.told())

    def __iter__(self) -> Iterator[Sample]:
        """Every sample, in order.

        Raises:
            UserError: there are no good samples, or bad ones are not left out: data that cannot be
                read, does not fit the model, or is not finite.
        """
        raise NotImplementedError

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        """The samples of these indices, in this order.

        Raises:
            UserError: as above; or the data is an iterable.
        """
        raise NotImplementedError

    def shapes(self, indices: Iterable[int]) -> list[Mapping[str, tuple[int, ...]]]:
        """The shapes of the inputs in the samples of these indices; of bad samples only as far as they tell.

        Raises:
            UserError: the data is an iterable.
        """
        raise NotImplementedError

    @property
    def order(self) -> Order:
        """The samples by their contents.

        Raises:
            UserError: the data is an iterable.
        """
        raise NotImplementedError

    def good(self, indices: Iterable[int]) -> Iterator[Sample]:
        """As `read`, but there may be no good sample among them."""
        raise NotImplementedError

    def _batches(self, rows: Iterator[Row]) -> Iterator[Row | None]:
        """The rows in batches of the model's static size; None for a batch of bad rows only.

        What a batch lacks, for it is the last or has bad rows, is completed with its own rows.
        """
        while group := list(itertools.islice(rows, self.batch)):
            self._completed = max(self._completed, self.batch - len(group))
            good = [row for row in group if self._is_good(row)]
            yield self._joined(good) if good else None

    def _is_good(self, row: Row) -> bool:
        if row.error is not None:
            self._bad.meet(row.where, row.error)
        return row.error is None

    def _joined(self, group: Sequence[Row]) -> Row | None:
        """A full batch of rows; None where they differ in shape."""
        first, last = group[0], group[-1]
        if self.batch == 1:
            return first
        full = list(itertools.islice(itertools.cycle(group), self.batch))
        where = f"{first.where} to {last.where}"
        try:
            return Row(where, {name: self._join(name, where, full) for name in first.feeds})
        except UserError as error:
            self._bad.meet(where, error)
            return None

    def _join(self, name: str, where: str, group: Sequence[Row]) -> np.ndarray:
        if name not in self._form.has_batch:
            return group[0].feeds[name]
        try:
            return np.concatenate([row.feeds[name] for row in group])
        except ValueError as error:
            raise UserError(
                f"{where}: samples of input {name!r} differ in shape and make no batch: {error}",
                hint="give samples of one size, or a model with a dynamic batch",
            ) from error


class _Indexed(Source):
    """Rows that can be read again, in any order."""

    def __init__(self, opened: Opened, inputs: Sequence[InputSpec], bad: BadSamples) -> None:
        super().__init__(bad)
        self._known = Form.of(inputs, opened.prepared)
        table, batch = opened.table, self._known.batch
        if not table.count:
            raise UserError("the data has zero samples", hint=TAKEN)
        self._table = table
        self._order: Order | None = None
        self.count: int = -(-table.count // batch)
        self._completed = self.count * batch - table.count

    @property
    def _form(self) -> Form:
        return self._known

    @property
    def lines(self) -> list[str]:
        return self._table.lines

    @property
    def notes(self) -> list[str]:
        return [*self._table.notes, *super().notes]

    @property
    def order(self) -> Order:
        return self._by_content if self.batch == 1 else self._by_content.of_batches(self._rows, self.batch)

    @property
    def _by_content(self) -> Order:
        if self._order is None:
            self._order = Order.of(self._table)
        return self._order

    def shapes(self, indices: Iterable[int]) -> list[Mapping[str, tuple[int, ...]]]:
        chosen, rows = list(indices), self._rows
        shapes = self._table.shapes([rows[index * self.batch] for index in chosen])
        return [
            {
                name: (self.batch, *shape[1:]) if name in self._form.has_batch else shape
                for name, shape in one.items()
            }
            if self.batch > 1
            else one
            for one in shapes
        ]

    @property
    def _rows(self) -> Sequence[int]:
        """The rows, as batches take them: those that came apart in an order that is not that of the data."""
        every = range(self._table.count)
        return self._by_content.sorted(every) if self.batch > 1 and self._table.are_apart else every

    def __iter__(self) -> Iterator[Sample]:
        return self.read(range(self.count))

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        chosen = list(indices)
        any_good = False
        for sample in self.good(chosen):
            any_good = True
            yield sample
        if chosen and not any_good:
            raise self._bad.all_bad()

    def good(self, indices: Iterable[int]) -> Iterator[Sample]:
        chosen, batch, rows = list(indices), self.batch, self._rows
        taken = [row for i in chosen for row in rows[i * batch : (i + 1) * batch]]
        for index, row in zip(chosen, self._batches(self._table.rows(taken)), strict=True):
            if row is not None:
                yield self._shown(index, row)


class _Stream(Source):
    """Items of an iterable, passed over; once, if it is an iterator."""

    count = None

    def __init__(
        self, items: Iterable[Any], inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples
    ) -> None:
        super().__init__(bad)
        self._inputs, self._options = inputs, options
        self._of = str(items) if isinstance(items, Script) else "the data"
        self._title = type(items).__name__
        if isinstance(items, Iterator | Calls | Script):
            self._title = str(items) if isinstance(items, Script) else "an iterator"
        self._items: Iterable[Any] | None = items
        self._begun: Iterator[Any] | None = None  # a pass of which the first item was looked at
        self._read = 0
        self._taken = 0

    @functools.cached_property
    def _form(self) -> Form:
        first, self._begun = looked_at(() if self._items is None else self._items)
        return Form.of(
            self._inputs, prepared_for({} if first is None else first, self._inputs, self._options)
        )

    @functools.cached_property
    def _reader(self) -> Reader:
        return Reader(self._inputs, self._form.has_batch, several=True)

    @functools.cached_property
    def _each(self) -> Items:
        return Items(self._inputs, self._reader, self.images)

    @property
    def lines(self) -> list[str]:
        title = f"{self._title}, {counted(self._taken, 'item')} read"
        return [self._reader.understood(title, self._taken, self._read)]

    @property
    def notes(self) -> list[str]:
        return [*self._reader.notes, *super().notes, noted("decided-by-order.once", data=self._title)]

    def __iter__(self) -> Iterator[Sample]:
        items = self._items
        if items is None:
            raise UserError(
                "the data is an iterator, and it has been read already",
                hint="give a list, a path, or an iterator for each call",
            )
        each = self._each
        begun, self._begun = self._begun, None
        if isinstance(items, Iterator):
            self._items = None
        self._taken = self._read = 0
        any_good = False
        for index, row in enumerate(self._batches(self._rows(each, iter(items) if begun is None else begun))):
            if row is not None:
                any_good = True
                yield self._shown(index, row)
        if not self._read:
            raise UserError("the data has zero samples", hint=TAKEN)
        if not any_good:
            raise self._bad.all_bad()

    def _rows(self, each: Items, items: Iterable[Any]) -> Iterator[Row]:
        for number, item in enumerate(items):
            self._taken += 1
            record = each.record(item, f"item {number} of {self._of}")
            try:
                opened = self._reader.open(record)
            except UserError as error:
                self._read += 1
                yield Row(record.where, error=error)
                continue
            for row in self._reader.rows(opened):
                self._read += 1
                yield row

    def read(self, indices: Iterable[int]) -> Iterator[Sample]:
        raise UserError("an iterator is read from its start to its end, once")

    good = read


def open_source(
    data: DataSource,
    inputs: Sequence[InputSpec],
    *,
    options: ImageOptions | None = None,
    skip_bad: bool = False,
) -> Source:
    """Opens data for a model.

    Where the model's batch axis is dynamic or 1, an array with several rows is as many samples;
    a static batch is filled with consecutive samples, and with such as follow each other by their contents
    where each is in a file or an item of its own. A first axis that is a sequence's is never
    divided, see `layout.leading`; of one that may be either, a lone array is divided, and each of
    several is one sample. An axis in front of the input's is always that of samples.

    Args:
        data: a folder of images, of .npy, of .npz, of .pb, of Arrow or of parquet files (subfolders
            included), one such file, a glob, a .txt list of such files or a list of their paths, videos, test
            data sets of the ONNX model zoo, Polygraphy's JSON inputs; or a `Script`, an array,
            `{input: array}`; or samples as `Items` takes them: a list, a dataset that has them by number, an
            iterable, a function that gives one. For several inputs also a .csv with a column for each, or a
            folder with a subfolder or a file for each, named after it; for one input a .csv with a column for
            each feature.
        inputs: the model's inputs.
        options: how pixels become values.
        skip_bad: leave out samples that cannot be read, do not fit the model or are not finite;
            else the first one is an error.

    Raises:
        UserError: there is no data, it cannot be read, or it does not fit the model.
    """
    if not inputs:
        raise UserError("the model has no inputs, so that no data can be fed to it")
    check_sizes((spec.name, spec.shape) for spec in inputs)
    bad, options = BadSamples(skip_bad), options or ImageOptions()
    opened = _opened(data, inputs, options, bad)
    if opened is not None:
        return _Indexed(opened, inputs, bad)
    if isinstance(data, Iterable):
        return _Stream(data, inputs, options, bad)
    if callable(data) and not isinstance(data, type):
        return _Stream(Calls(data), inputs, options, bad)
    raise UserError(f"data of type {type(data).__name__} cannot be read", hint=OBJECTS)


def _opened(
    data: DataSource, inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples
) -> Opened | None:
    """Data whose samples can be read in any order; None for others."""
    if isinstance(data, str | os.PathLike):
        return open_path(Path(data), inputs, options, bad)
    if isinstance(data, Mapping) or is_array(data):
        return open_items([data], inputs, options, bad)
    if isinstance(data, Sequence):
        if data and all(isinstance(one, str | os.PathLike) for one in data):
            return open_found(list_files([Path(one) for one in data]), inputs, options, bad)
        return open_items(data, inputs, options, bad)
    if isinstance(data, Dataset) and not isinstance(data, type):
        return open_dataset(data, inputs, options, bad, type(data).__name__)
    return None


# The order of samples by their contents: in whichever order the data have them, it is the same.


@dataclass(frozen=True, slots=True)
class Order:
    """Samples by the hash of what they hold.

    Attributes:
        keys: the hash of each, by index; of samples of which nothing can be read a number, before all others.
    """

    keys: Sequence[bytes]

    @staticmethod
    def of(table: Table) -> Order:
        """That of the rows of a table: where the first values of rows are alike, all are read."""
        starts = list(table.starts())
        alike: dict[bytes, list[int]] = defaultdict(list)
        for row, start in enumerate(starts):
            alike[start].append(row)
        several = [row for start, rows in alike.items() if start and len(rows) > 1 for row in rows]
        keys = [b"\1" + start if start else row.to_bytes(9, "big") for row, start in enumerate(starts)]
        for row, read in zip(several, table.rows(several), strict=True):
            keys[row] = b"\1" + hashed([starts[row], digest(Sample(row, read.where, read.feeds))])
        return Order(keys)

    def of_batches(self, rows: Sequence[int], size: int) -> Order:
        """That of batches of so many of these rows in turn."""
        keys = [self.keys[row] for row in rows]
        return Order([b"\1" + hashed(keys[at : at + size]) for at in range(0, len(keys), size)])

    def sorted(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Some of the samples in this order."""
        return tuple(sorted(indices, key=self.keys.__getitem__))

    def shuffled(self, seed: int) -> list[int]:
        """All samples in an order that a seed decides, and with it the contents of a sample its place.

        One that is added leaves the others in their order, and those of the same content follow each other.
        """
        salt = seed.to_bytes(16, "big")
        keys = [key[:1] + hashlib.blake2b(key, salt=salt).digest() for key in self.keys]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def between(self, indices: Sequence[int], at: int) -> int:
        """The place nearest to `at` that does not part samples of one content; `at` where there is none."""
        if at <= 0:
            return 0
        keys = [self.keys[index] for index in indices]
        places = [n for n in range(1, len(keys)) if keys[n - 1] != keys[n]]
        return min(places, key=lambda n: (abs(n - at), n), default=at)
