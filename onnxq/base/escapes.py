"""Names in documents that people open, too: what a terminal or an editor would obey is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable

# What those who read logs of CI obey: GitHub at the start of a line, it and others (`##vso[`) anywhere.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\w*\[)", re.MULTILINE)


def escaped(document: str, *, toml: bool = False) -> str:
    r"""A text of JSON or TOML in which all characters but line ends and tabs are printable.

    Control characters, marks that turn text around and the like stand in its strings as `\u202e`, which is
    the same string to who reads it. A lone surrogate stays in TOML, which cannot say it.

    Args:
        document: the text, whose strings are in double quotes.
        toml: whether it is TOML, where what lies above U+FFFF is `\U000e0001`; in JSON it is two.
    """
    if document.isascii():
        return document.replace("\x7f", "\\u007f")
    found = {char for char in set(document) if not char.isprintable() and char not in "\n\t"}
    return document.translate({ord(char): _code(char, toml) for char in found}) if found else document


def visible(text: str, spelled: Callable[[str], str] = lambda char: "?", *, kept: str = "") -> str:
    """A text without characters that are not seen, end a line, turn others around or are obeyed.

    Args:
        text: names of the user's files among it.
        spelled: what stands in the place of one; `?` is what it is in a pattern of names.
        kept: those that stay.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else spelled(char) for char in text)


def in_python(char: str) -> str:
    r"""A character as Python's strings have it: `\n`, `\x1b`."""
    return repr(char)[1:-1]


def in_one_line(text: str) -> str:
    """A text as it may stand in a comment: in one line, nothing of it lost."""
    return visible(text, in_python)


def obeyed_by_none(printed: str) -> str:
    """What is printed, without what a log's reader takes for a command: `::set-output`, `##vso[`."""
    return _COMMAND.sub(r"\1?", printed)


def _code(char: str, toml: bool) -> str:
    point = ord(char)
    if toml and 0xD800 <= point <= 0xDFFF:
        return char
    if point <= 0xFFFF:
        return f"\\u{point:04x}"
    if toml:
        return f"\\U{point:08x}"
    return "".join(f"\\u{half:04x}" for half in (0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF)))
