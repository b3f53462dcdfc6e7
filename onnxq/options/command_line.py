"""Command lines that are printed: none is that would be refused when it is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onnxq.base.errors import UserError
from onnxq.options.exclusions import settled
from onnxq.options.option import Option, read_options
from onnxq.options.settings import GROUPS, Calibration, Common
from onnxq.options.verbs import VERBS

Takes = Mapping[str, Callable[[str], bool]]
"""By flag: whether what is known of the model lets a value of it stand."""


def accepted(command: str, takes: Takes) -> bool:
    """Whether a command line would be taken.

    Its verb and flags exist, their values are read as the command line reads them, none excludes another,
    and the model has what they name.

    Args:
        command: the command line.
        takes: what is known of the model.
    """
    try:
        typed = _typed(shlex.split(command))
    except (UserError, ValueError, IndexError):
        return False
    return all(takes[flag](value) for flag, values in typed.items() if flag in takes for value in values)


_FLAG = re.compile(r"(--[a-z][a-z-]*) ('[^']*'|[^\s;,)]+)")
_BEFORE = re.compile(r": | \(|, or | or ")


def without_refused(text: str, takes: Takes) -> str:
    """A sentence without what it says to type of flags whose values the model does not let stand.

    Args:
        text: parts with a `;` between, each of which may say flags, behind a colon or in brackets.
        takes: what is known of the model.
    """
    parts = (_settled(part, takes) for part in text.split("; "))
    return "; ".join(filter(None, parts))


def _settled(part: str, takes: Takes) -> str:
    for flag in _FLAG.finditer(part):
        if flag[1] in takes and not takes[flag[1]](flag[2].strip("'").rstrip(".")):
            places = [one.start() for one in _BEFORE.finditer(part, 0, flag.start())]
            return part[: places[-1]] if places else ""
    return part


def kept(parts: Iterable[Sequence[str]], verb: str) -> list[str]:
    """Of the flags of a command line, each with its values, those that another verb has, as words."""
    known = {*_options(verb), *["--config"] * VERBS[verb].config}
    return [word for part in parts if part[0] in known for word in part]


def _options(verb: str) -> dict[str, tuple[type, str, Option]]:
    """The options of a verb by flag: their group, and the name of their field."""
    declared = VERBS[verb]
    return {
        flag: (group, field, said)
        for group in (Common, *declared.groups)
        for field, said in declared.flags(group).items()
        for flag in said.flag
    }


def _typed(words: list[str]) -> dict[str, list[str]]:
    """The values of each flag of a command line.

    Raises:
        UserError: a flag is of other verbs, has a value that it does not take, or excludes another.
        ValueError: there is no such verb, or a value is no number.
        IndexError: a value is missing.
    """
    verb, *rest = words[1:]
    if verb not in VERBS:  # it is a group of them
        verb = f"{verb} {rest.pop(0)}"
    if words[0] != "onnxq" or verb not in VERBS:
        raise ValueError(f"{shlex.join(words[:2])} is no command")
    known, others = _options(verb), {flag for name in VERBS for flag in _options(name)}
    others |= {flag for group in GROUPS for said in read_options(group).values() for flag in said.flag}
    typed: dict[str, list[str]] = {}
    while rest:
        flag, is_joined, value = rest.pop(0).partition("=")
        if not flag.startswith("-"):
            continue
        if flag not in known and flag in others:
            raise UserError(f"onnxq {verb} has no {flag}")
        values = typed.setdefault(flag, [])
        is_switch = known[flag][2].kind.typed is bool if flag in known else not rest or rest[0][:2] == "--"
        if not is_switch:
            values.append(value if is_joined else rest.pop(0))
    found: dict[type, dict[str, Any]] = {}
    for flag, values in typed.items():
        if flag in known:
            group, field, said = known[flag]
            found.setdefault(group, {})[field] = _read(said, flag, values)
    settled(found.get(Calibration, {}), {}, str)
    return typed


def _read(said: Option, flag: str, values: list[str]) -> Any:
    """The value of a flag, as the command line reads it.

    Raises:
        UserError: it is not understood.
        ValueError: it is no number.
    """
    kind = said.kind
    if kind.typed is bool:
        return kind.of_flag(flag, True)
    is_list = getattr(kind.typed, "__origin__", kind.typed) is list
    return kind.of_flag(flag, values if is_list else kind.typed(values[-1]))
