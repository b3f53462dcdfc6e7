"""Whether a value is what an annotation says, and what an annotation takes, in words for users."""

from __future__ import annotations

import collections.abc
import functools
import numbers
import os
import types
import typing
from collections.abc import Mapping
from typing import Any

from onnxq.base.errors import UserError, in_short

_NUMBERS = {int: numbers.Integral, float: numbers.Real}
_WORDS = {
    bool: "True or False", int: "a whole number", float: "a number", str: "a text", type(None): "None",
    os.PathLike: "a path",
}  # fmt: skip


def check(values: Mapping[str, Any], hints: Mapping[str, Any], hint: str = "") -> None:
    """Refuses a value that is not of its kind.

    Args:
        values: by the names of keywords.
        hints: annotations by these names, as `hints_of` gives them; what has none may be anything.
        hint: what to do.

    Raises:
        UserError: there is one.
    """
    for name, value in values.items():
        if not fits(value, hints.get(name, Any)):
            words = in_words(hints[name])
            raise UserError(f"{name} is {in_short(value)}, not {words}", hint=hint or f"give {name}= {words}")


@functools.cache
def hints_of(what: Any) -> Mapping[str, Any]:
    """The annotations of a class or a function; they are text until somebody asks."""
    return typing.get_type_hints(what)


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; a text is no list, True no number; what cannot be told is right."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in of)
    if origin is typing.Literal:  # which of them there are, says who reads it
        return isinstance(value, str)
    if origin is collections.abc.Mapping:
        return isinstance(value, Mapping) and all(fits(k, of[0]) and fits(v, of[1]) for k, v in value.items())
    if origin is tuple and Ellipsis not in of:
        return _is_list(value) and len(value) == len(of) and all(map(fits, value, of))
    if origin in (tuple, list, collections.abc.Sequence):
        return _is_list(value) and all(fits(one, of[0]) for one in value)
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    plain = origin or kind
    if getattr(plain, "_is_protocol", False) and not getattr(plain, "_is_runtime_protocol", False):
        return callable(value) or "__call__" not in vars(plain)
    return not isinstance(plain, type) or isinstance(value, plain)


def _is_list(value: Any) -> bool:
    return isinstance(value, collections.abc.Collection) and not isinstance(value, str | bytes | Mapping)


def in_words(kind: Any) -> str:
    """What a kind takes."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        is_path = any(typing.get_origin(one) is os.PathLike for one in of)
        return " or ".join(dict.fromkeys(in_words(one) for one in of if not (is_path and one is str)))
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, of))}"
    if origin is collections.abc.Mapping:
        return f"a mapping whose values are each {in_words(of[1])}" if of[1] is not Any else "a mapping"
    if origin is tuple and Ellipsis not in of:
        return f"({', '.join(map(in_words, of))})"
    if origin in (tuple, list, collections.abc.Sequence):
        return f"a list whose entries are each {in_words(of[0])}"
    plain = origin or kind
    if plain is collections.abc.Callable or "__call__" in vars(plain):
        return "a function"
    name = getattr(plain, "__name__", str(plain))
    return _WORDS.get(plain, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")
