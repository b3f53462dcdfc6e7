"""Words of the page: figures with their units, and names that come from a model."""

from __future__ import annotations

import math
import os
from urllib.parse import quote

from onnxq.base import escapes, shown
from onnxq.base.reason import say as say  # which the sections ask for here

_LONGEST = 160

counted, within, within_db = shown.count, shown.within, shown.within_db


def visible(text: str) -> str:
    """A text whose characters are all seen: others as their codes."""
    return escapes.visible(text, lambda char: f"\\u{{{ord(char):x}}}", kept="\n\t")


def tail(name: str, width: int = _LONGEST) -> str:
    """A name of at most `width` characters; what is left out is its beginning, which names have in common."""
    return name if len(name) <= width else f"...{name[3 - width :]}"


def fragment(name: str) -> str:
    """A name as it stands in a link to its layer."""
    return quote(name, safe="", errors="replace")


def file_name(path: str) -> str:
    """The last part of a path."""
    return os.path.basename(path.replace("\\", "/")) or path


def level(value: float | None, unit: str = " dB") -> str:
    """A level in dB; "" for none."""
    if value is None:
        return ""
    if math.isinf(value):
        return "equal" if value > 0 else "not finite"
    return f"{value:.1f}{unit}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 in percent; "" for none."""
    return "" if share is None else f"{100 * share:.{digits}f} %"


def decimal(count: float | None) -> str:
    """A number with a decimal prefix: `12.3 M`, `940 k`, `7`; "" for none."""
    return "" if count is None else shown.decimal(count)


def size(count: float | None) -> str:
    """A number of bytes; "" for none."""
    return "" if count is None else shown.size(count)


def figure(value: float | None) -> str:
    """A number in four digits; "" for none."""
    return "" if value is None else f"{value:.4g}"


def cell(value: str | float | None) -> str:
    """A value of a table: a number in four digits, else as it is; "" for none."""
    return figure(value) if isinstance(value, float) else "" if value is None else str(value)
