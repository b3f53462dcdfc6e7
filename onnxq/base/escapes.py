"""Names in documents that people open, too: what a terminal or an editor would obey is escaped."""

from __future__ import annotations


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


def in_one_line(text: str) -> str:
    """A text as it may stand in a comment: in one line, without control characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _code(char: str, toml: bool) -> str:
    point = ord(char)
    if toml and 0xD800 <= point <= 0xDFFF:
        return char
    if point <= 0xFFFF:
        return f"\\u{point:04x}"
    if toml:
        return f"\\U{point:08x}"
    return "".join(f"\\u{half:04x}" for half in (0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF)))
