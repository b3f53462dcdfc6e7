"""Plain JSON as the dataclass that describes it: strictly (no field more, none less), or leniently.

A lenient reader is for what another version wrote. A value of another type is an error in both.
"""

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

from onnxq.base.annotated import in_words
from onnxq.base.errors import in_short

D = TypeVar("D")

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_FLOAT_MAX = int(sys.float_info.max)


class Unlike(ValueError):
    """A value is not what its type says.

    Attributes:
        way: the keys and indices that lead to it in the document.
    """

    def __init__(self, said: str, way: tuple[str | int, ...] = ()) -> None:
        super().__init__(said)
        self.way, self._said = way, said

    @property
    def at(self) -> str:
        """Where it stands, for people."""
        return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in self.way)

    def inside(self, at: str | int) -> Unlike:
        """The same, seen from further out."""
        return Unlike(self._said, (at, *self.way))

    def __str__(self) -> str:
        return f"{self.at or 'the document'}: {self._said}"


def typed(kind: type[D], plain: Any, *, lenient: bool = False) -> D:
    """A dataclass of what `to_json` makes of it; fields that have a default may be missing.

    Args:
        kind: the dataclass. `least` and `most` in a field's metadata are the bounds of a number.
        plain: objects, lists, texts, numbers.
        lenient: whether fields that it does not have are passed over, and those that are missing or null are
            `nothing`. A text that is one of several words may then be any text.

    Raises:
        Unlike: it is something else; the message says where.
    """
    found: D = _reader(cast(Any, kind), lenient)(plain)
    return found


def nothing(kind: type[D]) -> D:
    """What a lenient reader puts in the place of what is missing.

    Of a field its default; else None where its type has it; else what is empty of its type: "", no entries,
    NaN, an object of which nothing is known. Whole numbers, yes and no have nothing empty: None.
    """
    return cast(D, _nothing(cast(Any, kind)))


Reader = Callable[[Any], Any]


@functools.cache
def _reader(kind: Any, lenient: bool) -> Reader:
    """What reads a type; made once for each."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return lambda plain: plain
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_fields(kind, lenient)
    if origin in (types.UnionType, typing.Union):
        return _of_any(of, lenient)
    if origin is typing.Literal:
        texts = lenient and all(type(one) is str for one in of)
        return (
            _reader(str, lenient) if texts else lambda plain: plain if plain in of else _refuse(kind, plain)
        )
    if origin in (tuple, collections.abc.Sequence):
        return _of_list(of, lenient, whole=origin is not tuple or of[-1] is Ellipsis)
    if origin is collections.abc.Mapping:
        return _of_entries(_reader(of[1], lenient))
    if kind is float:
        return _number
    if kind is int:
        return _whole
    return lambda plain: plain if type(plain) is kind else _refuse(kind, plain)


@functools.cache
def _nothing(kind: Any) -> Any:
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _reader(kind, True)({})
    if origin in (types.UnionType, typing.Union):
        bare = [one for one in of if dataclasses.is_dataclass(one) and not dataclasses.fields(one)]
        return None if type(None) in of else _nothing(cast(Any, bare or of)[0])
    if origin is tuple and of[-1] is not Ellipsis:
        return tuple(map(_nothing, of))
    if origin in (tuple, collections.abc.Sequence):
        return ()
    if origin is collections.abc.Mapping:
        return {}
    if kind is str or (origin is typing.Literal and type(of[0]) is str):
        return ""
    return math.nan if kind is float else None


def _refuse(kind: Any, plain: Any) -> NoReturn:
    of_fields = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or kind is dict)
    wanted = "an object" if of_fields else "a list" if kind is list else in_words(kind)
    raise Unlike(f"{wanted} is expected, and this is {in_short(plain)}")


def _whole(plain: Any) -> Any:
    return plain if type(plain) is int and abs(plain) <= _FLOAT_MAX else _refuse(int, plain)


def _number(plain: Any) -> Any:
    if type(plain) is float or (type(plain) is int and abs(plain) <= _FLOAT_MAX):
        return plain
    if plain is None:
        return math.nan
    if isinstance(plain, str) and plain in _INFINITE:
        return _INFINITE[plain]
    return _refuse(float, plain)


def _of_fields(kind: type[Any], lenient: bool) -> Reader:
    hints = typing.get_type_hints(kind)
    none = dataclasses.MISSING
    known = {
        one.metadata.get("key", one.name): (
            one.name,
            _within(_reader(hints[one.name], lenient), one.metadata),
        )
        for one in dataclasses.fields(kind)
    }
    needed = {
        field.metadata.get("key", field.name): (field.name, hints[field.name])
        for field in dataclasses.fields(kind)
        if field.default is none and field.default_factory is none
    }
    empty = {
        field.metadata.get("key", field.name)
        for field in dataclasses.fields(kind)
        if type(None) in typing.get_args(hints[field.name])
    }

    def read(plain: Any) -> Any:
        if type(plain) is not dict:
            _refuse(kind, plain)
        values = {}
        if lenient:
            plain = {key: value for key, value in plain.items() if key in (empty if value is None else known)}
            values = {name: _nothing(hint) for key, (name, hint) in needed.items() if key not in plain}
        else:
            if lacking := [key for key in needed if key not in plain]:
                raise Unlike(f"{kind.__name__} lacks {', '.join(map(repr, lacking))}")
            if more := [key for key in plain if key not in known]:
                raise Unlike(f"{kind.__name__} has no {', '.join(map(repr, more))}")
        for key, value in plain.items():
            name, reader = known[key]
            try:
                values[name] = reader(value)
            except Unlike as error:
                raise error.inside(key) from None
        try:
            return kind(**values)
        except ValueError as error:  # a type that looks at its values itself
            raise Unlike(str(error)) from None

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


def _of_any(kinds: Sequence[Any], lenient: bool) -> Reader:
    """As the first type that it is of; the error is that of the first one.

    Leniently an object could be of any of them: it is of the one that its fields fit best.
    """
    empty = type(None) in kinds
    wanted = [kind for kind in kinds if kind is not type(None)]
    readers = [_reader(kind, lenient) for kind in wanted]

    def read(plain: Any) -> Any:
        if plain is None and empty:
            return None
        if lenient and type(plain) is dict:
            return _reader(min(wanted, key=lambda kind: _misfit(kind, plain)), lenient)(plain)
        said: Unlike | None = None
        for reader in readers:
            try:
                return reader(plain)
            except Unlike as error:
                said = said or error
        assert said is not None
        raise said

    return read


def _misfit(kind: Any, plain: Mapping[str, Any]) -> tuple[bool, int, int]:
    """How far a type is from an object: whether it is none of objects, fields too many, fields too few."""
    if not dataclasses.is_dataclass(kind):
        return True, 0, 0
    known = {field.metadata.get("key", field.name) for field in dataclasses.fields(kind)}
    return False, len(plain.keys() - known), len(known - plain.keys())


def _of_list(of: Sequence[Any], lenient: bool, *, whole: bool) -> Reader:
    """Of entries that are all of the first type, or each of its own."""
    readers = [_reader(kind, lenient) for kind in of if kind is not Ellipsis]

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
                raise error.inside(len(found)) from None
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
                raise error.inside(key) from None
        return found

    return read
