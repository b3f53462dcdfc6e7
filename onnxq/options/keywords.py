"""What `help`, `inspect.signature` and completion know of functions whose keywords are options of groups."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from onnxq.options.flag_words import tells_keywords
from onnxq.options.option import NOT, read_options

F = TypeVar("F", bound=Callable[..., Any])


def takes_options(*groups: type, without: Collection[str] = ()) -> Callable[[F], F]:
    """Tells of the options that a function takes as `**options`: in its signature and its documentation.

    Args:
        groups: the groups that it hands its keywords to (`onnxq.options.settings.Keywords`).
        without: options that it does not have.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        lines = ["Options:"]
        for group in groups:
            fields = {field.name: field for field in dataclasses.fields(group)}
            for name, said in read_options(group, without).items():
                default = fields[name].default
                kind = inspect.Parameter.KEYWORD_ONLY
                own.append(inspect.Parameter(name, kind, default=default, annotation=fields[name].type))
                known = "" if default is None or default == () else f" By default {default!r}."
                given = "False: " if said.kind is NOT else ""
                text = f"{name}: {given}{said.help}{known} Of {group.__name__}."
                lines += textwrap.wrap(text, 106, initial_indent="    ", subsequent_indent=" " * 8)
        function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        function.__options__ = {  # type: ignore[attr-defined]
            group: tuple(read_options(group, without)) for group in groups
        }
        function.__doc__ = f"{inspect.getdoc(function)}\n\n" + "\n".join(lines)
        return tells_keywords(function)

    return decorate


def options_of(function: Any) -> Mapping[type, tuple[str, ...]]:
    """The options that a function takes as keywords, by group; none where it takes none."""
    known: Mapping[type, tuple[str, ...]] = getattr(function, "__options__", {})
    return known
