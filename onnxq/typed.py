"""Plain JSON as the dataclass that describes it, strictly: no field more, none less, each of its type."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import itertools
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

from onnxq.errors import in_short
from onnxq.taken import in_words

D = TypeVar("D")

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_FLOAT_MAX = int(sys.float_info.max)


class Unlike(ValueError):
    """A value is not what its type says.

    Attributes:
        at: where it stands in the document.
    """

    def __init__(self, said: str, at: str = "") -> None:
        super().__init__(said)
        self.at, self._said = at, said

    def inside(self, at: str) -> Unlike:
        """The same, seen from further out."""
        return Unlike(self._said, at + self.at)

    def __str__(self) -> str:
        return f"{self.at or 'the document'}: {self._said}"


def typed(kind: type[D], plain: Any) -> D:
    """A dataclass of what `to_json` makes of it; fields that have a default may be missing.

    Args:
        kind: the dataclass. `least` and `most` in a field's metadata are the bounds of a number.
        plain: objects, lists, texts, numbers.

    Raises:
        Unlike: it is something else; the message says where.
    """
    found: D = _reader(cast(Any, kind))(plain)
    return found


Reader = Callable[[Any], Any]


@functools.cache
def _reader(kind: Any) -> Reader:
    """What reads a type; made once for each."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return lambda plain: plain
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_fields(kind)
    if origin in (types.UnionType, typing.Union):
        return _of_any(of)
    if origin is typing.Literal:
        return lambda plain: plain if plain in of else _refuse(kind, plain)
    if origin in (tuple, collections.abc.Sequence):
        return _of_list(of, whole=origin is not tuple or of[-1] is Ellipsis)
    if origin is collections.abc.Mapping:
        return _of_entries(_reader(of[1]))
    if kind is float:
        return _number
    return lambda plain: plain if type(plain) is kind else _refuse(kind, plain)


def _refuse(kind: Any, plain: Any) -> NoReturn:
    of_fields = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or kind is dict)
    wanted = "an object" if of_fields else "a list" if kind is list else in_words(kind)
    raise Unlike(f"{wanted} is expected, and this is {in_short(plain)}")


def _number(plain: Any) -> Any:
    if type(plain) is float or (type(plain) is int and abs(plain) <= _FLOAT_MAX):
        return plain
    if plain is None:
        return math.nan
    if isinstance(plain, str) and plain in _INFINITE:
        return _INFINITE[plain]
    return _refuse(float, plain)


def _of_fields(kind: type[Any]) -> Reader:
    hints = typing.get_type_hints(kind)
    none = dataclasses.MISSING
    known = {
        one.metadata.get("key", one.name): (one.name, _within(_reader(hints[one.name]), one.metadata))
        for one in dataclasses.fields(kind)
    }
    needed = [
        field.metadata.get("key", field.name)
        for field in dataclasses.fields(kind)
        if field.default is none and field.default_factory is none
    ]

    def read(plain: Any) -> Any:
        if type(plain) is not dict:
            _refuse(kind, plain)
        if lacking := [key for key in needed if key not in plain]:
            raise Unlike(f"{kind.__name__} lacks {', '.join(map(repr, lacking))}")
        if more := [key for key in plain if key not in known]:
            raise Unlike(f"{kind.__name__} has no {', '.join(map(repr, more))}")
        values = {}
        for key, value in plain.items():
            name, reader = known[key]
            try:
                values[name] = reader(value)
            except Unlike as error:
                raise error.inside(f".{key}") from None
        return kind(**values)

    return read


def _within(reader: Reader, bounds: Mapping[str, Any]) -> Reader:
    least, most = bounds.get("least", -math.inf), bounds.get("most", math.inf)
    if (least, most) == (-math.inf, math.inf):
        return reader

    def read(plain: Any) -> Any:
        value = reader(plain)
        if value is not None and not least <= value <= most:
            wanted = f"a number from {least}" + (f" to {most}" if most < math.inf else "")
            raise Unlike(f"{wanted} is expected, and this is {in_short(plain)}")
        return value

    return read


def _of_any(kinds: Sequence[Any]) -> Reader:
    """As the first type that it is of; the error is that of the first one."""
    empty = type(None) in kinds
    readers = [_reader(kind) for kind in kinds if kind is not type(None)]

    def read(plain: Any) -> Any:
        if plain is None and empty:
            return None
        said: Unlike | None = None
        for reader in readers:
            try:
                return reader(plain)
            except Unlike as error:
                said = said or error
        assert said is not None
        raise said

    return read


def _of_list(of: Sequence[Any], *, whole: bool) -> Reader:
    """Of entries that are all of the first type, or each of its own."""
    readers = [_reader(kind) for kind in of if kind is not Ellipsis]

    def read(plain: Any) -> Any:
        if type(plain) is not list:
            _refuse(list, plain)
        if not whole and len(plain) != len(readers):
            raise Unlike(f"{len(readers)} entries are expected, and these are {len(plain)}")
        each = itertools.repeat(readers[0], len(plain)) if whole else readers
        found = []
        for reader, value in zip(each, plain, strict=True):
            try:
                found.append(reader(value))
            except Unlike as error:
                raise error.inside(f"[{len(found)}]") from None
        return tuple(found)

    return read


def _of_entries(reader: Reader) -> Reader:
    def read(plain: Any) -> Any:
        if type(plain) is not dict:
            _refuse(dict, plain)
        found = {}
        for key, value in plain.items():
            try:
                found[key] = reader(value)
            except Unlike as error:
                raise error.inside(f".{key}") from None
        return found

    return read
