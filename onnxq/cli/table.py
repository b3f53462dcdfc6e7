"""Typed rows as a CSV file, and names of a model as cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxq.errors import UserError

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def harmless(text: str) -> str:
    """A text of the user's files as a cell: on one line, no control characters, and no formula."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return "'" + plain if text.startswith(_FORMULA) or plain.lstrip().startswith(_FORMULA) else plain


def write_csv(path: Path, kind: type, rows: Sequence[Any], *, force: bool = False) -> None:
    """Writes dataclasses of one kind, a line each: nested fields as `outer.inner`, lists with `; `.

    A number is written so that it can be read again as it is; what is not there is an empty cell, an infinity
    `inf` or `-inf`, NaN `nan`.

    Args:
        path: the file.
        kind: the dataclass; its fields are the head where there is no row.
        rows: they.
        force: replace any file; else only one of the same head.

    Raises:
        UserError: another file is there, or it cannot be written.
    """
    from onnxq.emit.files import check_output, save_file

    head = list(_columns(kind, rows))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        cells = dict(_flat(row))
        writer.writerow([_cell(cells.get(name)) for name in head])
    check_output(path, None, force=True)
    if path.is_file() and path.stat().st_size and not force and not _is_ours(path, head):
        raise UserError(
            f"{str(path)!r} exists, and is no such table of onnxq",
            hint="give another path, or --force to replace it",
        )
    save_file(path, text.getvalue().encode())


def _is_ours(path: Path, head: Sequence[str]) -> bool:
    with path.open("rb") as file:
        first = file.readline(1 << 16)
    known = first.decode("utf-8", "replace").strip().split(",")
    return known[:3] == list(head)[:3]


def _columns(kind: type, rows: Sequence[Any]) -> dict[str, None]:
    """The names of all columns, of nested ones as any row has them."""
    found: dict[str, None] = {}
    nested: dict[str, list[str]] = {}
    for row in rows:
        for name, _ in _flat(row):
            own = nested.setdefault(name.split(".")[0], [])
            if name not in own:
                own.append(name)
    for field in dataclasses.fields(kind):
        names = nested.get(field.name, [field.name])
        inner = [name for name in names if "." in name]
        found.update(dict.fromkeys(inner or names))
    return found


def _flat(row: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from ((f"{field.name}.{name}", inner) for name, inner in _flat(value))
        else:
            yield field.name, value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return harmless("; ".join(f"{key}={inner}" for key, inner in value.items()))
    if isinstance(value, tuple | list):
        return harmless("; ".join(_word(inner) for inner in value))
    return harmless(str(value))


def _word(value: Any) -> str:
    """An entry of a list: of a dataclass its fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ": ".join(str(getattr(value, field.name)) for field in dataclasses.fields(value))
    return str(value)
