"""Reading the user's TOML: each value checked, each mistake with its line and what to do."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from onnxq.base import door
from onnxq.base.errors import UserError, in_short, unknown_name

T = TypeVar("T")
Keys = tuple[str | int, ...]
"""The way to a value in the data of a file."""


class At(UserError):
    """An error in the file.

    Attributes:
        keys: the way to what is wrong in its data.
    """

    def __init__(self, keys: Keys, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.keys = keys

    def in_file(self, path: Path, document: str) -> UserError:
        """The error with the place in the file."""
        line = line_of(document, self.keys)
        return UserError(f"{str(path)!r}, line {line}: {self}", hint=self.hint)


def load(path: Path, build: Callable[[Mapping[str, Any], str], T]) -> T:
    """Reads a file.

    Args:
        path: the file.
        build: makes of its data, and of its text, what it says; raises `At` where that makes no sense.

    Raises:
        UserError: it cannot be read, is not TOML, or makes no sense.
    """
    where, document = repr(str(path)), ""
    try:
        document = door.text(path, "utf-8-sig").replace("\r\n", "\n")
        data = tomllib.loads(document)
    except OSError as error:
        raise UserError(f"cannot read {where}: {error.strerror or error}", hint="check the path") from error
    except RecursionError as error:
        raise UserError(f"{where} has values inside of values, too many", hint="write it flatter") from error
    except ValueError as error:  # of the encoding, of TOML, or of a number of thousands of digits
        end = document.count("\n") + 1
        said = str(error).replace("at end of document", f"at line {end}, the last one")
        raise UserError(f"{where} is not TOML: {said}", hint="see https://toml.io") from error
    try:
        return build(data, document)
    except At as error:
        raise error.in_file(path, document) from error


Reader = Callable[[str, Any], Any]
"""Checks the value of a key, and converts it. Raises a UserError without a place."""


def text(key: str, value: Any) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise is_not(key, value, "a string", 'write it in quotes: "..."')
    return value


def texts(key: str, value: Any) -> tuple[str, ...]:
    """A string, or a list of strings."""
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(one, str) and one for one in several):
        raise is_not(key, value, "a string or a list of strings", 'write "..." or ["...", "..."]')
    return tuple(several)


def truth(key: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise is_not(key, value, "true or false", "write it without quotes")
    return value


def whole(least: int) -> Reader:
    """A whole number from `least` on."""

    def read(key: str, value: Any) -> int:
        if type(value) is not int or value < least:
            raise is_not(key, value, f"a whole number from {least}", f"give a whole number from {least}")
        return value

    return read


def number(most: float) -> Reader:
    """A number above 0, at most `most`."""

    def read(key: str, value: Any) -> float:
        if type(value) not in (int, float) or not 0 < value <= most:
            kind = f"a number above 0, at most {most:g}"
            raise is_not(key, value, kind, f"give {kind}")
        return float(value)

    return read


def choice(kind: str, names: Sequence[str]) -> Reader:
    """One of some names."""

    def read(key: str, value: Any) -> str:
        if value not in names:
            raise unknown_name(kind, text(key, value), names)
        return str(value)

    return read


def table(key: str, value: Any) -> Mapping[str, Any]:
    """A table."""
    if not isinstance(value, dict):
        raise is_not(key, value, "a table", f"begin it with a line [{key}]")
    return value


def tables(key: str, value: Any) -> Sequence[Mapping[str, Any]]:
    """A list of tables."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UserError(f"{key} is not a list of tables", hint=f"begin each with a line [[{key}]]")
    return value


def is_not(key: str, value: Any, kind: str, hint: str) -> UserError:
    """The error for a value of another kind than its key wants."""
    return UserError(f"{key} is {in_short(value)}, not {kind}", hint=hint)


def read_table(
    values: Mapping[str, Any],
    readers: Mapping[str, Reader],
    at: Keys,
    unknown: Callable[[str], UserError] | None = None,
) -> dict[str, Any]:
    """The checked values of a table.

    Args:
        values: the table.
        readers: what checks the value of each key that there may be.
        at: the way to the table in the data of its file.
        unknown: makes the error for a key that is not there; by default it names the nearest one.

    Raises:
        At: a key is unknown, or a value is wrong.
    """
    found = {}
    for key, value in values.items():
        try:
            if key not in readers:
                raise unknown_name("key", key, readers) if unknown is None else unknown(key)
            found[key] = readers[key](key, value)
        except UserError as error:
            raise At((*at, key), str(error), error.hint) from error
    return found


def line_of(document: str, keys: Sequence[str | int]) -> int:
    """The line, from 1, where the statement begins that brings `keys` into the data of a TOML text.

    The first statements of a TOML text are one themselves: what a statement brings is what they hold with
    it and lack without it. So as many texts are parsed as the number of statements has binary digits.

    Args:
        document: the text, which is TOML.
        keys: the way to a value; where it is nowhere, the last statement is meant.
    """
    ends = [0, *_statement_ends(document)]
    last = bisect_left(ends, True, key=lambda end: _holds(tomllib.loads(document[:end]), keys))
    return document.count("\n", 0, ends[max(last - 1, 0)]) + 1


# What holds newlines or brackets that end nothing, then the rest of both. A text of several lines may end in
# two quotes of its own.
_MARKS = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*|[\[\]{}\n]''', re.DOTALL
)


def _statement_ends(document: str) -> Iterator[int]:
    """The places behind the newlines of a TOML text that stand in no value."""
    depth = 0
    for mark in _MARKS.finditer(document):
        if mark[0] == "\n" and not depth:
            yield mark.end()
        depth += (mark[0] in "[{") - (mark[0] in "]}")


def _holds(data: Any, keys: Sequence[str | int]) -> bool:
    try:
        for key in keys:
            data = data[key]
    except (KeyError, IndexError):
        return False
    return True
