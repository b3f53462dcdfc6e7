"""Data in a CSV file: a line for each sample, a column for each input, or for each feature of one."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base import interrupts
from onnxq.base.errors import UserError, unknown_name
from onnxq.base.reason import noted
from onnxq.base.shown import assumed
from onnxq.data.files import kind_of
from onnxq.data.layout import of_numbers
from onnxq.data.lists import read_text, resolve
from onnxq.data.samples import InputSpec
from onnxq.graph.types import shape_text


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a CSV file.

    Attributes:
        file: the CSV file.
        where: the file's path and the line's number, for messages: `pairs.csv:12`.
        cells: the text of each column.
    """

    file: Path
    where: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file: a line holds values, or the path of an image, an .npy or a .pb file, for each input.

    Attributes:
        columns: the columns of each input: one, or those of its features.
        kinds: what a column holds, by its first cell: `numbers` or the kind of its files.
        width: how many columns there are.
        lines: those after the header, blank ones left out.
        notes: what the user may not expect.
    """

    columns: Mapping[str, Sequence[int]]
    kinds: Mapping[str, str]
    width: int
    lines: Sequence[Line]
    notes: Sequence[str]

    def check(self, line: Line, inputs: Sequence[InputSpec]) -> None:
        """Refuses a line that has a bad cell.

        Raises:
            UserError: as in `cell`.
        """
        for spec in inputs:
            self.cell(line, spec)

    def cell(self, line: Line, spec: InputSpec) -> Path | np.ndarray:
        """What a line has for an input: a file, or values.

        Returns:
            Values as a vector, of the input's dtype or int64, or text for an input of strings.

        Raises:
            UserError: the line has too few or too many cells, this one holds something else than its
                column, or there is no such file.
        """
        if len(line.cells) != self.width:
            raise UserError(
                f"{line.where}: {len(line.cells)} cells, where the first line has {self.width}",
                hint="give each input a cell; put one that holds the separator in quotes",
            )
        columns = self.columns[spec.name]
        texts = [line.cells[column].strip() for column in columns]
        if len(columns) > 1 and not all(texts):
            raise UserError(
                f"{line.where}: column {columns[texts.index('')] + 1} is empty",
                hint="give each feature a number",
            )
        text = " ".join(texts)
        value = _value(line.file, text, spec)
        kind, column = _kind(value), self.kinds[spec.name]
        cell = f"{line.where}, " + (f"column {spec.key!r}" if len(columns) == 1 else f"input {spec.name!r}")
        if kind is None:
            raise UserError(
                f"{cell}: {text!r} is neither numbers nor a file that onnxq reads"
                if text
                else f"{cell} is empty",
                hint="give the path of an image, an .npy or a .pb file, or numbers with spaces between them",
            )
        if kind != column:
            raise UserError(
                f"{cell}: {text!r} is of kind {kind}, where the column begins with {column}",
                hint="keep one kind in a column",
            )
        if isinstance(value, Path) and not os.path.isfile(value):
            raise UserError(
                f"{cell}: there is no file {text!r}",
                hint="paths are relative to the folder of the CSV file, or to the working directory",
            )
        return value


def read_csv(path: Path, inputs: Sequence[InputSpec]) -> CsvFile:
    """Reads a CSV file (`.tsv`: with tabs) whose first line has the names of the inputs.

    Where the model's only input has no column, those that begin with a number are its features, as many as
    it has values in a sample; a first line of numbers is a sample.

    Raises:
        UserError: the file cannot be read, or an input has no column.
    """
    lines = list(_lines(path))
    if not lines:
        raise UserError(f"{str(path)!r} is empty", hint="the first line has the names of the inputs")
    header = [name.strip() for name in lines[0].cells]
    names = [spec.key for spec in inputs]
    if len(names) == 1 and names[0] not in header and inputs[0].data_name is None:
        features = _features(lines, inputs[0])
        if features is not None:
            return features
    for name in names:
        if header.count(name) > 1:
            raise UserError(f"{lines[0].where}: column {name!r} is there twice", hint="keep one of them")
        if name not in header:
            error = unknown_name("column for input", name, [have for have in header if have not in names])
            raise UserError(
                f"{lines[0].where}: {error}",
                hint=f"{error.hint} The first line has the names of the inputs: {', '.join(names)}; where it "
                "has others, --input-name INPUT=NAME says which is which".strip(),
            )
    if not lines[1:]:
        raise UserError(f"{str(path)!r} has zero samples: only a first line", hint="give a line for each")
    others = [name for name in header if name not in names]
    notes = [noted("left-out.columns", file=str(path), names=", ".join(others))] if others else []
    columns = {spec.name: [header.index(spec.key)] for spec in inputs}
    kinds = {spec.name: _first_kind(lines[1:], columns[spec.name][0], spec) for spec in inputs}
    return CsvFile(columns, kinds, len(header), lines[1:], notes)


def _features(lines: Sequence[Line], spec: InputSpec) -> CsvFile | None:
    """The columns that are the features of an input; None where it has no such values.

    Raises:
        UserError: there are more columns of numbers than it has values, or fewer.
    """
    sizes = (spec.shape or ())[1:] or (spec.shape or ())
    if spec.dtype.kind == "O" or not sizes:
        return None
    where, has_header = str(lines[0].file), any(_numbers(cell) is None for cell in lines[0].cells)
    rows = lines[1:] if has_header else lines
    if not rows:
        return None
    cells = rows[0].cells
    columns = [place for place, cell in enumerate(cells) if _numbers(cell) is not None]
    if len(columns) < 2:
        return None
    if all(isinstance(size, int) for size in sizes) and len(columns) != prod(
        size for size in sizes if isinstance(size, int)
    ):
        raise UserError(
            f"{where}: {len(columns)} columns begin with a number, and input {spec.name!r} takes "
            f"{shape_text(spec.shape)}",
            hint="keep one column for each of its values (remove labels, say), or "
            f"one column {spec.key!r} with all of them",
        )
    header = lines[0].cells if has_header and len(lines[0].cells) == len(cells) else []
    others = [name.strip() for place, name in enumerate(header) if place not in columns]
    notes = [
        noted(
            "read-as.columns", file=where, columns=len(columns), input=spec.name,
            assumed=assumed(f"one column {spec.key!r} with all of them"),
        )
    ]  # fmt: skip
    notes += [noted("left-out.no-numbers", file=where, names=", ".join(others))] if others else []
    return CsvFile({spec.name: columns}, {spec.name: "numbers"}, len(cells), rows, notes)


def shaped(values: np.ndarray, spec: InputSpec, has_batch: bool) -> np.ndarray:
    """The values of a cell in the shape of the input (of one sample, where it has a batch axis).

    Values that do not fill the shape stay a vector.
    """
    own = (spec.shape or ())[int(has_batch) :]
    sizes = [dim if isinstance(dim, int) else -1 for dim in own]
    try:
        return values.reshape(sizes if spec.shape is not None else [-1])
    except ValueError:
        return values


def _lines(path: Path) -> Iterator[Line]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield Line(path, f"{path}:{reader.line_num}", cells)
    except csv.Error as error:
        raise UserError(
            f"{path}:{reader.line_num}: {error}", hint="save it again as comma-separated values"
        ) from error


def _first_kind(lines: Sequence[Line], column: int, spec: InputSpec) -> str:
    """What the first cell of a column holds that holds something."""
    texts = (line.cells[column].strip() for line in lines if column < len(line.cells))
    kinds = (_kind(_value(lines[0].file, text, spec)) for text in texts)
    return next((kind for kind in kinds if kind is not None), "nothing")


def _value(file: Path, text: str, spec: InputSpec) -> Path | np.ndarray:
    """A cell as values, or else as a path."""
    if spec.dtype.kind == "O":
        return np.array([text])
    values = _numbers(text, whole=spec.dtype.kind in "iub")
    return resolve(file, text) if values is None else of_numbers(values, spec)


def _kind(value: Path | np.ndarray) -> str | None:
    """What a cell holds; None for nothing that is read from a cell."""
    if isinstance(value, np.ndarray):
        return "numbers"
    kind = kind_of(value)
    return kind if kind in ("image", "npy", "pb") else None


def _numbers(text: str, *, whole: bool = False) -> np.ndarray | None:
    """The numbers of a cell, int64 where they are `whole` and can be; None where it has others, or none."""
    parts = text.split()
    if not parts:
        return None
    for kind in (int, float) if whole else (float,):
        try:
            return np.array([kind(part) for part in parts])
        except ValueError:
            pass
    return None


# Rows of tables in parquet and Arrow files, as Hugging Face's datasets are saved.

_ROWS = 256
"""Rows that are written at a time: of images these are some 100 MB at most."""


class ArrowRows:
    """The rows of files with the same columns, one after another, each a dictionary.

    Arrow files are mapped. Parquet files are unpacked into such files, as their rows can be read only in
    large groups; these go with this object.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        """Opens files.

        Raises:
            UserError: one cannot be read, or pyarrow is not there.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise UserError(
                f"{str(files[0])!r} is read by the package pyarrow, which is not installed",
                hint="pip install pyarrow",
            ) from error
        self._folder = interrupts.Folder() if any(map(_is_parquet, files)) else None
        tables = []
        for number, file in enumerate(files):
            try:
                path = file
                if _is_parquet(file) and self._folder is not None:
                    path = Path(self._folder.name) / f"{number}.arrow"
                    _unpack(file, path)
                tables.append(_mapped(path))
            except (pyarrow.ArrowException, OSError) as error:
                raise UserError(
                    f"cannot read {str(file)!r} as a table: {str(error).partition(chr(10))[0]}",
                    hint="it may be truncated; write it again",
                ) from error
        try:
            self._table = pyarrow.concat_tables(tables)
        except pyarrow.ArrowException as error:
            raise UserError(
                f"the tables of {str(files[0])!r} and of the files beside it have other columns",
                hint="keep one kind of table in a folder",
            ) from error

    def __len__(self) -> int:
        """How many there are."""
        return int(self._table.num_rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One of them: numbers, lists, bytes and dictionaries by the names of columns."""
        (row,) = self._table.slice(index, 1).to_pylist()
        return dict(row)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _unpack(parquet: Path, arrow: Path) -> None:
    import pyarrow.parquet

    with (
        pyarrow.parquet.ParquetFile(parquet) as file,
        pyarrow.OSFile(str(arrow), "wb") as sink,
        pyarrow.ipc.new_stream(sink, file.schema_arrow) as out,
    ):
        for batch in file.iter_batches(_ROWS):
            out.write_batch(batch)


def _mapped(path: Path) -> Any:
    """The table of an Arrow file of either form: a stream, as `save_to_disk` writes it, or a file."""
    import pyarrow

    source = pyarrow.memory_map(str(path))
    try:
        return pyarrow.ipc.open_stream(source).read_all()
    except pyarrow.ArrowInvalid:
        source.seek(0)
        return pyarrow.ipc.open_file(source).read_all()
