"""Plain JSON as the dataclass that describes it, strictly: no field more, none less, each of its type."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from onnxq import remarks
from onnxq.documents.json_values import to_json

D = TypeVar("D")

_INFINITE = {"inf": math.inf, "-inf": -math.inf}


class Unlike(ValueError):
    """A value is not what its type says."""


def typed(kind: type[D], plain: Any, at: str = "") -> D:
    """A dataclass of what `to_json` makes of it; fields that have a default may be missing.

    Args:
        kind: the dataclass.
        plain: objects, lists, texts, numbers.
        at: where it stands, for the error.

    Raises:
        Unlike: it is something else; the message says where.
    """
    found: D = _read(kind, plain, at)
    return found


def published(kind: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a document, by way of its type; as it is where it does not fit, which is remarked.

    A document that is not as its schema says is a fault of onnxq, and costs nobody a run.
    """
    try:
        found: dict[str, Any] = to_json(typed(kind, to_json(plain)))
    except Unlike as error:
        remarks.remark(f"the document is not as its schema says, a fault of onnxq: {error}")
        found = to_json(plain)
    return found


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any, bool], ...]:
    """Name, key, type and whether it must be there, of each field."""
    hints = typing.get_type_hints(kind)
    return tuple(
        (
            field.name,
            field.metadata.get("key", field.name),
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    )


def _read(kind: Any, plain: Any, at: str) -> Any:
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return plain
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_fields(kind, plain, at)
    if origin in (types.UnionType, typing.Union):
        return _read_any(of, plain, at)
    if origin is typing.Literal:
        if plain in of:
            return plain
    elif origin is tuple or origin is collections.abc.Sequence:
        if isinstance(plain, list):
            return _read_list(of, plain, at)
    elif origin is collections.abc.Mapping:
        if isinstance(plain, dict):
            return {key: _read(of[1], value, f"{at}.{key}") for key, value in plain.items()}
    elif kind is float:
        if plain is None:
            return math.nan
        if isinstance(plain, str) and plain in _INFINITE:
            return _INFINITE[plain]
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            return plain
    elif type(plain) is kind:
        return plain
    raise Unlike(f"{at or 'the document'}: {_name(kind)} is expected, and this is {plain!r:.60}")


def _read_fields(kind: type[Any], plain: Any, at: str) -> Any:
    if not isinstance(plain, dict):
        raise Unlike(f"{at or 'the document'}: {kind.__name__} is expected, and this is {plain!r:.60}")
    given, values = set(plain), {}
    for name, key, hint, needed in _fields(typing.cast(Hashable, kind)):
        if key in given:
            values[name] = _read(hint, plain[key], f"{at}.{key}")
            given.discard(key)
        elif needed:
            raise Unlike(f"{at or 'the document'}: {kind.__name__} lacks {key!r}")
    if given:
        raise Unlike(f"{at or 'the document'}: {kind.__name__} has no {', '.join(map(repr, sorted(given)))}")
    return kind(**values)


def _read_any(kinds: Sequence[Any], plain: Any, at: str) -> Any:
    """As the first type that it is of; the error is that of the first one."""
    if plain is None and type(None) in kinds:
        return None
    said = None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read(kind, plain, at)
            except Unlike as error:
                said = said or error
    raise said or Unlike(f"{at}: nothing is expected, and this is {plain!r:.60}")


def _read_list(of: Sequence[Any], plain: list[Any], at: str) -> tuple[Any, ...]:
    if len(of) == 1 or of[-1] is Ellipsis:
        return tuple(_read(of[0], value, f"{at}[{place}]") for place, value in enumerate(plain))
    if len(plain) != len(of):
        raise Unlike(f"{at}: {len(of)} entries are expected, and these are {len(plain)}")
    return tuple(
        _read(kind, value, f"{at}[{place}]")
        for place, (kind, value) in enumerate(zip(of, plain, strict=True))
    )


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
