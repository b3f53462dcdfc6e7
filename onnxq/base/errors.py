"""What onnxq raises: the user's errors and faults of its own, each with an exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OnnxqError(Exception):
    """An error with a message for the user: what, where and why, and what to do about it.

    Attributes:
        hint: what the user can do, or an empty string.
        exit_code: the exit code of the command line that ends with this error.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UserError(OnnxqError):
    """The user's input (model, data, flag, file) cannot be used."""

    exit_code = 2


class Fault(OnnxqError):
    """A fault of onnxq itself; `reproducer` is the file or folder that shows it.

    Attributes:
        reproducer: path of what was saved to reproduce the fault, or None.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", reproducer: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reproducer = reproducer


def cause_of(error: BaseException) -> str:
    """What an error says; where it is no `OnnxqError`, its type, too."""
    return str(error) if isinstance(error, OnnxqError) else f"{type(error).__name__}: {error}"


def fault_of(error: Exception) -> str:
    """A fault of ours, in words."""
    return f"a fault of onnxq ({cause_of(error)})"


def in_short(value: object) -> str:
    """A value as a message shows it, in 60 characters."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # a number of thousands of digits; lists inside of lists
        return f"{type(value).__name__} too large to be shown"


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """Names of `known` that `name` may have meant, as the tail of a message ("" where none is near)."""
    names = list(dict.fromkeys(known))
    found = difflib.get_close_matches(name, names, n=count, cutoff=0.6)
    if not found and len(names) <= count:
        found = names
    return f"did you mean {', '.join(map(repr, found))}?" if found else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the three nearest that do."""
    names = list(known)
    hint = nearest(name, names) or (f"known: {', '.join(sorted(names)[:20])}" if names else "")
    return UserError(f"there is no {kind} {name!r}", hint=hint)
