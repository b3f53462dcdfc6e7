"""Typed rows as CSV: a column for each field, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from onnxq.base.errors import UserError
from onnxq.base.escapes import in_one_line
from onnxq.base.plain import to_json
from onnxq.emit import files

# A spreadsheet takes a cell that begins so for a formula; the last four are their full-width forms.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def table_csv(kind: type, rows: Iterable[Any]) -> str:
    r"""Rows as CSV (RFC 4180, but lines end in LF): a line of names, then a line a row.

    A number is written with all digits that it has, None as an empty cell, a truth value as `true` or
    `false`, NaN and infinities as `nan`, `inf`, `-inf`, a tuple or a mapping as JSON. Text that a spreadsheet
    would take for a formula has a `'` in front; what is not printable is escaped as in Python (`\n`, `\x1b`).
    A field that is a dataclass, or may be one, has a column for each of its fields: `outer.inner`.

    Args:
        kind: the class of the rows, a dataclass: its fields are the columns, also where there is no row.
        rows: instances of it.
    """
    columns = list(_columns(kind))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(".".join(column) for column in columns)
    writer.writerows([_cell(_field(row, column)) for column in columns] for row in rows)
    return text.getvalue()


def check_csv_output(path: Path, kind: type, source: Path | None = None, *, force: bool = False) -> None:
    """Refuses a path for a table before any work is done; an earlier table of the kind is replaced.

    Args:
        path: the file.
        kind: the class of the rows.
        source: a model that it must not replace, or None.
        force: whether any other file may be replaced.

    Raises:
        UserError: it is not named `*.csv`, or see `onnxq.emit.files.check_output`.
    """
    if path.suffix.lower() != ".csv":
        raise UserError(f"the table {str(path)!r} is not named *.csv", hint="it is a CSV file")
    files.check_output(path, source, force=force or _is_table(path, kind), record=path)


def save_csv(path: Path, kind: type, rows: Iterable[Any]) -> None:
    """Writes rows as CSV in UTF-8, whole or not at all; see `table_csv`.

    Raises:
        UserError: the disk is full or the file cannot be written.
    """
    files.save_file(path, table_csv(kind, rows).encode("utf-8"))


def _is_table(path: Path, kind: type) -> bool:
    """Whether a file begins with the columns of a kind."""
    head = table_csv(kind, ()).encode("utf-8")
    try:
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def _columns(kind: type) -> Iterator[tuple[str, ...]]:
    """The fields of a kind, and of those that it has inside of it."""
    types = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        inner = next(
            (one for one in (types[field.name], *get_args(types[field.name])) if _is_kind(one)), None
        )
        if inner is None or get_origin(types[field.name]) is tuple:
            yield (field.name,)
        else:
            yield from ((field.name, *rest) for rest in _columns(inner))


def _is_kind(found: Any) -> bool:
    return isinstance(found, type) and dataclasses.is_dataclass(found)


def _field(row: Any, column: tuple[str, ...]) -> Any:
    for name in column:
        row = None if row is None else getattr(row, name)
    return row


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(float(value) if isinstance(value, float) else value)  # not numpy's repr
    if isinstance(value, Mapping | tuple | list) or dataclasses.is_dataclass(value):
        value = json.dumps(to_json(value), ensure_ascii=False, allow_nan=False)
    text = in_one_line(str(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
