"""Samples that the user has in memory: items of lists, datasets, loaders and tables, as records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from PIL import Image

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.shown import counted
from onnxq.data import arrays, images, layout
from onnxq.data.bad_samples import BadSamples
from onnxq.data.image_options import refuse
from onnxq.data.rows import Opened, Reader, Record, RecordTable
from onnxq.data.samples import InputSpec
from onnxq.options.settings import ImageOptions

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Dataset(Protocol[T_co]):
    """Items by their numbers, as a dataset of PyTorch or of Hugging Face has them."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


def is_array(value: Any) -> bool:
    """Whether a value is an array or a tensor, of whichever library; one number is none."""
    if isinstance(value, type | np.generic):
        return False
    named = ("__array__", "__array_interface__", "__dlpack__")
    return any(hasattr(value, name) for name in named) and getattr(value, "ndim", 1) != 0


def is_image(value: Any) -> bool:
    """Whether a value is an image: Pillow's, the bytes of a file, or both of it as tables have them."""
    encoded = isinstance(value, Mapping) and set(value) == {"bytes", "path"}
    return encoded or isinstance(value, Image.Image | bytes)


class Items:
    """Takes items apart into the arrays of the inputs.

    An item is a mapping from names to values; or values in the order of the inputs, and behind them what is
    none, labels say; or, for a model of one input, a value. A value is an array, a tensor, numbers in lists
    or an image.
    """

    def __init__(
        self, inputs: Sequence[InputSpec], reader: Reader, prepared: Sequence[images.Preparation]
    ) -> None:
        self._inputs = inputs
        self._reader = reader
        self._prepared = {image.input: image for image in prepared}

    def record(self, item: Any, where: str) -> Record:
        """An item as a record."""
        return Record(where, partial(self.members, item, where))

    def members(self, item: Any, where: str) -> dict[str, arrays.Array]:
        """The arrays of an item, by the names that the data have for the inputs.

        Raises:
            UserError: one lacks, or a value is neither numbers nor an image.
        """
        values, left_out = _by_name(item, self._inputs, where)
        found: dict[str, arrays.Array] = {}
        for spec in self._inputs:
            if spec.key not in values:
                raise self._reader.lacks(where, spec, map(str, values))
            try:
                value = values[spec.key]
            except Exception as error:  # of a mapping of the user's
                raise UserError(
                    f"{where}: {spec.key!r} cannot be read: {error}", hint="give a dict of arrays"
                ) from error
            found[spec.key] = arrays.MemoryArray(self._array(value, spec, where))
        others = [str(name) for name in values if name not in found]
        if others:
            left_out = noted("left-out.of-items", names=", ".join(others))
        if left_out:
            self._reader.note(left_out)
        return found

    def _array(self, value: Any, spec: InputSpec, where: str) -> np.ndarray:
        where = f"{where}, input {spec.name!r}"
        if not is_image(value):
            array = _array(value, where)
            return array if is_array(value) else layout.of_numbers(array, spec)
        if spec.name not in self._prepared:
            raise UserError(
                f"{where}: it is an image, and that of the first item is an array",
                hint="give images for all samples, or arrays",
            )
        if isinstance(value, Mapping):
            held, path = map(value.get, ("bytes", "path"))
            value = Path(str(path)) if held is None else held
        return self._prepared[spec.name].decode(value, self._reader.note, where)


def prepared_for(item: Any, inputs: Sequence[InputSpec], options: ImageOptions) -> images.Prepared:
    """How images become inputs, where the first item has some.

    Raises:
        UserError: an input takes no images, or options are given and there are none.
    """
    try:
        values, _ = _by_name(item, inputs, "")
    except UserError:  # which is said as soon as the item is read
        values = {}
    found = [images.prepare(spec, options) for spec in inputs if is_image(values.get(spec.key))]
    if not found:
        refuse(options, "arrays")
    return found


def open_items(
    items: Sequence[Any],
    inputs: Sequence[InputSpec],
    options: ImageOptions,
    bad: BadSamples,
    title: str = "",
) -> Opened:
    """Opens items that are in memory: what they hold tells them apart.

    Args:
        items: they.
        inputs: the inputs of the model.
        options: how pixels become values.
        bad: is told of those that cannot be read.
        title: where they are from, of a file.

    Raises:
        UserError: one cannot be read, or options do not fit the first.
    """
    prepared = prepared_for(items[0] if items else {}, inputs, options)
    has_batch = images.batched(inputs, prepared)
    reader = Reader(inputs, has_batch, several=len(items) > 1)
    each = Items(inputs, reader, prepared)
    records = [
        each.record(item, f"{title}[{number}]" if title else f"item {number} of the data")
        for number, item in enumerate(items)
    ]
    said = f"{title}, " * bool(title) + counted(len(items), "item")
    return Opened(RecordTable(said, reader, records, bad), prepared)


def open_dataset(
    items: Dataset[Any], inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples, title: str
) -> Opened:
    """Opens items that may take long to make: only those that are used are read, which their numbers decide.

    Args:
        items: they.
        inputs: the inputs of the model.
        options: how pixels become values.
        bad: is told of those that cannot be read.
        title: what they are, in words.

    Raises:
        UserError: the first one cannot be read or does not fit the inputs, or options do not fit it.
    """
    count = len(items)

    def item(number: int) -> Any:
        try:
            return items[number]
        except Exception as error:  # of the user's code
            raise UserError(
                f"item {number} of {title} cannot be read: {type(error).__name__}: {error}",
                hint=f"read it by itself: data[{number}]",
            ) from error

    prepared = prepared_for(item(0) if count else {}, inputs, options)
    has_batch = images.batched(inputs, prepared)
    reader = Reader(inputs, has_batch, several=count > 1)
    each = Items(inputs, reader, prepared)

    def members(number: int) -> dict[str, arrays.Array]:
        return each.members(item(number), f"item {number} of {title}")

    records = [
        Record(f"item {n} of {title}", partial(members, n), partial(n.to_bytes, 8, "big"))
        for n in range(count)
    ]
    notes = [noted("decided-by-order.items", data=title)]
    counts = None
    if records and reader.open(records[0]).count == 1:
        counts = [1] * count
        one, again = members(0), members(0)
        if not all(np.array_equal(one[name].read(), again[name].read()) for name in one):
            notes.append(noted("decided-by-order.random", data=title))
    table = RecordTable(f"{title}, {counted(count, 'item')}", reader, records, bad, notes, counts)
    return Opened(table, prepared)


@dataclass(frozen=True, slots=True)
class Calls:
    """What a function gives, which is called anew for each pass.

    Attributes:
        function: it takes no arguments.
    """

    function: Callable[[], Iterable[Any]]

    def __iter__(self) -> Iterator[Any]:
        """The items.

        Raises:
            UserError: the function takes arguments, or gives nothing that can be iterated over.
        """
        try:
            found = self.function()
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # it was called, and the fault is in it
            raise UserError(
                f"the function that gives the data cannot be called: {error}",
                hint="give a function without arguments that yields the samples",
            ) from error
        if not isinstance(found, Iterable):
            raise UserError(
                f"the function that gives the data returned {type(found).__name__}",
                hint="it is to yield the samples, or to return an iterable of them",
            )
        return iter(found)


def looked_at(items: Iterable[Any]) -> tuple[Any, Iterator[Any]]:
    """The first item of an iterable, None where there is none, and a pass over all of them."""
    each = iter(items)
    start = list(itertools.islice(each, 1))
    return (start[0] if start else None), itertools.chain(start, each)


def _by_name(item: Any, inputs: Sequence[InputSpec], where: str) -> tuple[Mapping[Any, Any], str]:
    """The values of an item by name, and a note of what of it is left out."""
    if isinstance(item, Mapping) and not is_image(item):
        return item, ""
    if isinstance(item, list | tuple) and any(map(_is_value, item)):
        first, used = item[0], len(inputs)
        if (isinstance(first, Mapping) and not is_image(first)) or (used > 1 and _is_values(first)):
            values, used = _by_name(first, inputs, where)[0], 1
        elif len(item) < used:
            raise UserError(
                f"{where} has {counted(len(item), 'value')}, the model has {used} inputs ({_names(inputs)})",
                hint="give a value for each input in this order, or a dictionary by their names",
            )
        else:
            values = {spec.key: value for spec, value in zip(inputs, item, strict=False)}
        more = len(item) - used
        return values, noted("left-out.behind", values=counted(more, "value")) if more else ""
    if len(inputs) > 1:
        raise UserError(
            f"{where} is of type {type(item).__name__}, the model has {len(inputs)} inputs "
            f"({_names(inputs)})",
            hint="give a value for each input in this order, or a dictionary by their names",
        )
    return {inputs[0].key: item}, ""


def _is_value(value: Any) -> bool:
    return is_array(value) or is_image(value) or isinstance(value, Mapping) or _is_values(value)


def _is_values(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(map(_is_value, value))


def _names(inputs: Sequence[InputSpec]) -> str:
    return ", ".join(spec.name for spec in inputs)


def _array(value: Any, where: str) -> np.ndarray:
    """An array, a tensor or numbers in lists as an array.

    Raises:
        UserError: it is something else, or cannot be read on the CPU.
    """
    why = ""
    try:
        plain = value.detach() if hasattr(value, "detach") else value  # of a tensor with gradients
        is_other = hasattr(plain, "__dlpack__") and not hasattr(plain, "__array__")
        array = np.from_dlpack(plain) if is_other else np.asarray(plain)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        array, why = np.empty((), object), f": {str(error).partition(chr(10))[0]}"
    if array.dtype.hasobject:
        raise UserError(
            f"{where} is no array of numbers, but of type {type(value).__name__}{why}",
            hint="give numpy arrays, tensors on the CPU (tensor.cpu()) of a type that numpy has, or images",
        )
    return array
