"""Values as plain JSON, and what documents and their parts have in common."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

D = TypeVar("D")


class DocumentPart:
    """A document, or a part of one: it is read by attribute, and `to_dict` is what is written of it.

    For this release it can be indexed by key as well, as the dictionary that documents were. That warns, and
    type checkers do not see it.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The plain document: objects, lists, texts, numbers."""
        found: dict[str, Any] = to_json(self)
        return found

    if not TYPE_CHECKING:

        def __getitem__(self, key: str) -> Any:
            return to_json(getattr(self, _named(self, key)[key]))

        def __contains__(self, key: object) -> bool:
            return key in _named(self, key)

        def get(self, key: str, default: Any = None) -> Any:
            """The plain value of a field, by its name in JSON; another one where there is no such field."""
            names = _named(self, key)
            return to_json(getattr(self, names[key])) if key in names else default

        def keys(self) -> Iterator[str]:
            """The names of the fields in JSON."""
            return iter(_named(self))


def _named(part: Any, key: object = None) -> dict[str, str]:
    """The attributes by key, with the warning, which is for whoever asks by key."""
    kind: Any = type(part)
    names = {key: name for name, key in _keys(kind)}
    name = names.get(str(key))
    read = f"{kind.__name__} is read by attribute" + ("" if name is None else f", .{name}")
    warnings.warn(f"{read}; keys go with the next release: .to_dict() has them", DeprecationWarning, 3)
    return names


def extended(kind: type[D], part: DocumentPart, /, **more: Any) -> D:
    """A document that says what a part does, whose fields it has, and more; that says some of it anew."""
    said = {one.name: getattr(part, one.name) for one in dataclasses.fields(part)}  # type: ignore[arg-type]
    return kind(**{**said, **more})


def to_json(value: Any) -> Any:
    """A value as plain JSON: dataclasses as objects, NaN and infinities as null or text."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        return {str(key): to_json(entry) for key, entry in value.items()}
    if kind is list or kind is tuple:
        return [to_json(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {key: to_json(getattr(value, name)) for name, key in _keys(kind)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(entry) for entry in value]
    if getattr(value, "ndim", None) == 0:  # a number of numpy's
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)  # a reason is a text that knows more
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


_AS_IT_IS = (str, int, bool, type(None))


@functools.cache
def _keys(kind: Any) -> tuple[tuple[str, str], ...]:
    """Each field of a dataclass, with its name in JSON."""
    return tuple((field.name, field.metadata.get("key", field.name)) for field in dataclasses.fields(kind))
