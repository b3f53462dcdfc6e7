"""What `help`, `inspect.signature` and completion know of functions whose keywords are options of groups."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, TypeVar

from onnxq.options.flag_words import tells_keywords
from onnxq.options.grouped import KEYWORDS, options_of
from onnxq.options.option import NOT

F = TypeVar("F", bound=Callable[..., Any])


OPTIONS = "Options are keywords."
"""How the part on options begins in a docstring."""


def takes_options(function: F) -> F:
    """Tells of the options that a function takes as `**options`: in its signature and its documentation.

    It takes those of its verb (`onnxq.options.verbs`), and makes `Options` of them.
    """
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    lines = [f"{OPTIONS} A group is a keyword, too, and takes a mapping of its fields:"]
    hints: dict[str, Any] = {}
    for group, options in options_of(function.__name__).items():
        keyword, kind = KEYWORDS[group], f"{group.__name__} | Mapping[str, Any] | None"
        hints[keyword] = group | Mapping[str, Any] | None
        own.append(Parameter(keyword, Parameter.KEYWORD_ONLY, default=None, annotation=kind))
        said = (inspect.getdoc(group) or "").partition("\n")[0]
        lines += _wrapped(f"{keyword} ({group.__name__}): {said}")
        fields = {field.name: field for field in dataclasses.fields(group)}
        for name, option in options.items():
            default, written = fields[name].default, fields[name].type
            own.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=written))
            known = "" if default is None or default == () else f" By default {default!r}."
            given = "False: " if option.kind is NOT else ""
            lines += _wrapped(f"{name}: {given}{option.help}{known} Of {group.__name__}.")
    function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    function.__doc__ = f"{inspect.getdoc(function)}\n\n" + "\n".join(lines)
    return tells_keywords(function, hints)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 106, initial_indent="    ", subsequent_indent=" " * 8)
