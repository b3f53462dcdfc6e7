"""The samples of a path: how its files become rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.base.shown import assumed
from onnxq.data import arrays, images, layout
from onnxq.data.bad_samples import BadSamples
from onnxq.data.csv_file import ArrowRows, Line, read_csv, shaped
from onnxq.data.files import Found, find_by_input, find_files, find_sets, kind_of
from onnxq.data.image_options import refuse
from onnxq.data.items import open_dataset, open_items
from onnxq.data.lists import Entry
from onnxq.data.rows import Columns, Opened, Reader, Record, RecordTable, hashed
from onnxq.data.samples import InputSpec
from onnxq.data.tensor_file import read_set, read_tensor
from onnxq.options.settings import ImageOptions
from onnxq.run import polygraphy_io


def open_path(path: Path, inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples) -> Opened:
    """Opens a file or folder for a model's inputs.

    Raises:
        UserError: there is no data, it cannot be read, or it does not fit the model.
    """
    stated = [spec for spec in inputs if spec.data_name is not None]
    by_input = find_by_input(path, inputs) if len(inputs) > 1 or stated else None
    if by_input is not None:
        return _open_columns(by_input, inputs, options, bad)
    return open_found(find_sets(path, len(inputs)) or find_files(path), inputs, options, bad)


def open_found(entries: Found, inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples) -> Opened:
    """Opens files for a model's inputs.

    Raises:
        UserError: they cannot be read, or do not fit the model.
    """
    stated = [spec for spec in inputs if spec.data_name is not None]
    if entries.kind == "arrow":
        return open_dataset(ArrowRows(entries.files), inputs, options, bad, entries.title)
    if entries.kind == "json":
        refuse(options, entries.title)
        return open_items(polygraphy_io.load_inputs(entries.path), inputs, options, bad, str(entries.path))
    if entries.kind == "csv":
        return _open_csv(entries, inputs, options, bad)
    if entries.kind != "image":
        refuse(options, entries.title)
    if len(inputs) > 1 and entries.holds_one_input:
        names = [spec.name for spec in inputs]
        raise UserError(
            f"the model has {len(inputs)} inputs ({', '.join(names)}), {entries.title} hold data of only one",
            hint="make a folder or a file for each input, named after it ("
            + ", ".join(f"{name}/" for name in names[:-1])
            + f" and {names[-1]}.npy, say), a .csv with a column for each, or .npz files with an array for "
            f"each; an input that is always the same becomes a constant with --freeze {names[-1]}=VALUE",
        )
    if stated and entries.holds_one_input:
        raise UserError(
            f"--input-name {inputs[0].name}={inputs[0].key}: {entries.title} hold arrays without names",
            hint="leave it out: they are fed to the model's only input",
        )
    prepared = [images.prepare(inputs[0], options)] if entries.kind == "image" else []
    return Opened(_table(entries, inputs, images.batched(inputs, prepared), prepared, bad), prepared)


def _open_columns(
    found: Mapping[str, Found], inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples
) -> Opened:
    """Data that are kept apart by input."""
    prepared = [images.prepare(spec, options) for spec in inputs if found[spec.name].kind == "image"]
    if not prepared:
        refuse(options, ", ".join(entry.title for entry in found.values()))
    has_batch = images.batched(inputs, prepared)
    tables = {
        spec.name: _table(
            found[spec.name], [spec], has_batch, [p for p in prepared if p.input == spec.name], bad
        )
        for spec in inputs
    }
    shared = {name for name, table in tables.items() if table.count == 1 and name not in has_batch}
    own = {name: found[name] for name in tables if name not in shared}
    times = _times(
        {name: tables[name].count for name in own}, has_batch, layout.batch_size(inputs, has_batch)
    )
    notes = _check_pairs(own, {name: tables[name].count * times.get(name, 1) for name in own})
    return Opened(Columns(tables, frozenset(shared), notes, times), prepared)


def _times(counts: Mapping[str, int], has_batch: frozenset[str], size: int) -> dict[str, int]:
    """How often each value is there of inputs without a batch axis that have one for each batch.

    Args:
        counts: how many rows each input has.
        has_batch: the inputs with a batch axis.
        size: of a batch.
    """
    rows = {counts[name] for name in counts if name in has_batch}
    return {name: size for name in counts if name not in has_batch and rows == {counts[name] * size}}


def _check_pairs(found: Mapping[str, Found], counts: Mapping[str, int]) -> list[str]:
    """Refuses inputs that differ in their number of samples; a note where names do not match."""
    stems = {
        name: [file.relative_to(entry.path).with_suffix("") for file in entry.files]
        for name, entry in found.items()
        if len(entry.files) > 1 and not entry.entries
    }
    lone = ""
    if len(stems) > 1:
        (a, ours), *others = stems.items()
        pairs = [(x, b) for b, theirs in others for x in sorted(set(ours) ^ set(theirs))]
        if pairs:
            stem, b = pairs[0]
            has, lacks = (a, b) if stem in ours else (b, a)
            lone = noted("read-as.no-like", stem=str(stem), has=has, lacks=lacks)
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise UserError(
            f"the inputs differ in their number of samples: {text}" + f" ({lone})" * bool(lone),
            hint="give each input the same number of samples, in files of the same names",
        )
    return [noted("read-as.in-order", lone=lone, assumed=assumed("files of the same names"))] if lone else []


def _table(
    found: Found,
    inputs: Sequence[InputSpec],
    has_batch: frozenset[str],
    prepared: Sequence[images.Preparation],
    bad: BadSamples,
) -> RecordTable:
    """The rows of the files of a path."""
    keys = [spec.key for spec in inputs]
    reader = Reader(inputs, has_batch, several=len(found.files) > 1)

    def open_file(path: Path) -> Mapping[str, arrays.Array]:
        if found.kind == "npz":
            return _open_npz(path, inputs, reader)
        if found.kind == "set":
            stated = [spec.data_name for spec in inputs if spec.data_name is not None]
            return {key: arrays.MemoryArray(values) for key, values in read_set(path, keys, stated).items()}
        return {keys[0]: _open_file(path, inputs[0], prepared, reader)}

    image = found.kind == "image"
    records = [
        Record(str(path), partial(open_file, path), path.read_bytes if image else None)
        for path in found.files
    ]
    if found.entries:
        _check(((entry.where, entry.check) for entry in found.entries), bad)
        records = [
            Record(
                entry.where, partial(_open_entry, entry, open_file), entry.path.read_bytes if image else None
            )
            for entry in found.entries
        ]
    counts = [1] * len(records) if image else None
    return RecordTable(found.title, reader, records, bad, found.notes, counts)


def _open_entry(
    entry: Entry, open_file: Callable[[Path], Mapping[str, arrays.Array]]
) -> Mapping[str, arrays.Array]:
    entry.check()
    return open_file(entry.path)


def _open_csv(found: Found, inputs: Sequence[InputSpec], options: ImageOptions, bad: BadSamples) -> Opened:
    """The lines of a CSV file."""
    file = read_csv(found.path, inputs)
    prepared = [images.prepare(spec, options) for spec in inputs if file.kinds[spec.name] == "image"]
    if not prepared:
        refuse(options, found.title)
    has_batch = images.batched(inputs, prepared)
    reader = Reader(inputs, has_batch, several=len(file.lines) > 1)

    def open_cell(line: Line, spec: InputSpec) -> arrays.Array:
        value = file.cell(line, spec)
        if isinstance(value, np.ndarray):
            return arrays.MemoryArray(shaped(value, spec, spec.name in has_batch))
        try:
            return _open_file(value, spec, prepared, reader)
        except UserError as error:
            raise UserError(f"{line.where}, column {spec.key!r}: {error}", hint=error.hint) from error

    def open_line(line: Line) -> Mapping[str, arrays.Array]:
        return {spec.key: open_cell(line, spec) for spec in inputs}

    def content(line: Line) -> bytes:
        cells = [file.cell(line, spec) for spec in inputs]
        return hashed(cell.read_bytes() if isinstance(cell, Path) else repr(cell).encode() for cell in cells)

    records = [
        Record(line.where, partial(open_line, line), partial(content, line) if prepared else None)
        for line in file.lines
    ]
    counts = None
    if prepared:  # to count, the images would be decoded; but one is always one sample
        _check(((line.where, partial(file.check, line, inputs)) for line in file.lines), bad)
        counts = [1] * len(records)
    return Opened(RecordTable(found.title, reader, records, bad, file.notes, counts), prepared)


def _check(checks: Iterable[tuple[str, Callable[[], None]]], bad: BadSamples) -> None:
    """Finds missing files before the first sample is read."""
    for where, check in checks:
        try:
            check()
        except UserError as error:
            bad.meet(where, error)


def _open_file(
    path: Path, spec: InputSpec, prepared: Sequence[images.Preparation], reader: Reader
) -> arrays.Array:
    """A file that holds data of one input, by its kind."""
    kind = kind_of(path)
    if kind == "npy":
        return arrays.open_npy(path, spec.name)
    if kind == "pb":
        return arrays.MemoryArray(read_tensor(path)[1])
    (image,) = (image for image in prepared if image.input == spec.name)
    return arrays.MemoryArray(image.decode(path, reader.note))


def _open_npz(path: Path, inputs: Sequence[InputSpec], reader: Reader) -> Mapping[str, arrays.Array]:
    members, names = arrays.open_npz(path, [spec.key for spec in inputs])
    if (lone := reader.lone(names)) is not None:
        return {inputs[0].key: arrays.open_npz(path, [lone])[0][lone]}
    for spec in inputs:
        if spec.key not in members:
            raise reader.lacks(repr(str(path)), spec, names)
    return members
