"""How what a function returns looks in an interpreter and in a notebook: its words, and its worst rows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from onnxq.base.escapes import visible
from onnxq.base.reason import say

_WIDE = 300
_LONG = 120
_SHORT = 16  # characters of a word that is not cut
_ANYWHERE, _FAR = 60.0, 20.0  # dB: from one end to the other, a millionfold power; at the lower end


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of a result.

    Attributes:
        head: what it is, in one line.
        facts: its figures and verdicts, each a few words; "" for none.
        columns: the titles of the table.
        rows: the table, the worst first.
        alarms: what nobody may overlook.
    """

    head: str
    facts: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    alarms: Sequence[str] = ()

    def text(self) -> str:
        """Two lines at most, of at most 300 characters each."""
        said = "; ".join(_plain(fact) for fact in (*self.alarms, *self.facts) if fact)
        return "\n  ".join(cut(line, _WIDE) for line in (_plain(self.head), said) if line)

    def html(self) -> str:
        """A head, the figures and the table. Names in models are hostile: all text is escaped."""
        parts = [f"<div><p><b>{_escaped(self.head)}</b></p>"]
        parts += [f'<p style="color:#b00"><b>{_escaped(alarm)}</b></p>' for alarm in self.alarms]
        facts = "".join(f"<li>{_escaped(fact)}</li>" for fact in self.facts if fact)
        parts += [f"<ul>{facts}</ul>"] * bool(facts)
        if self.rows:
            head = "".join(f"<th>{_escaped(title)}</th>" for title in self.columns)
            body = "".join(f"<tr>{''.join(f'<td>{_escaped(c)}</td>' for c in row)}</tr>" for row in self.rows)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join(parts) + "</div>"


class Shown:
    """What is shown by the words of its `words`."""

    __slots__ = ()

    def words(self) -> Words:
        """What is said of it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            return self.words().text()
        except Exception:  # a debugger asks for one that is half made
            return f"<{type(self).__name__}>"

    def _repr_html_(self) -> str:
        return self.words().html()


class Ends(Protocol):
    """Between which a figure lies."""

    @property
    def low(self) -> float:
        """The lower end."""

    @property
    def high(self) -> float:
        """The upper end."""


INTERVALS = "in brackets: 95 % intervals"
"""What the reader has to know of figures with their ends."""


def decibels(level: object, interval: Ends | None = None) -> str:
    """A level of a report: a number, or the text of an infinite one, or None; and where it lies."""
    if level is None:
        return "not measured"
    shown = f"{round(level, 1) + 0.0:.1f}" if isinstance(level, int | float) else level  # no "-0.0"
    return f"{shown} dB" + within_db(interval)


def within_db(interval: Ends | None) -> str:
    """Where a level in dB lies, to be put behind it; in words where others may be near, or far off."""
    if interval is not None and interval.high - interval.low > _ANYWHERE and interval.low < _FAR:
        return " (these samples differ too much to tell that of others)"
    return within(interval)


def within(interval: Ends | None, factor: float = 1.0) -> str:
    """Where a figure lies, to be put behind it, in other units by a factor; "" where that is not known."""
    return "" if interval is None else f" ({factor * interval.low:.1f} to {factor * interval.high:.1f})"


def count(number: int, noun: str) -> str:
    """A number of things, in words: "1 node", "2 nodes"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counted(number: int, noun: str) -> str:
    """The same without commas, as it stands on screens: "1 node", "1200 nodes"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def number(value: float | None) -> str:
    """A number in four digits; "?" where it is not known."""
    return "?" if value is None else f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share, 0 to 1, in percent; "?" where it is not known."""
    return "?" if share is None else "0 %" if not share else f"{100 * share:.3g} %"


def tally(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, most often first."""
    count: dict[str, int] = {}
    for name in names:
        count[name] = count.get(name, 0) + 1
    return dict(sorted(count.items(), key=lambda item: (-item[1], item[0])))


def decimal(count: float) -> str:
    """A number with a decimal prefix: `12.3 M`, `940 k`, `7`."""
    for prefix, unit in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= unit:
            value = count / unit
            return f"{value:.3g} {prefix}" if value < 999.5 else f"{value:.0f} {prefix}"
    return f"{count:g}"


def size(count: float) -> str:
    """A number of bytes."""
    return f"{count:.0f} B" if count < 1000 else f"{decimal(count)}B"


def model_name(file: object) -> str:
    """The file of a model, or that it has none."""
    return str(file or say("model.memory"))


def capitalized(text: str) -> str:
    """A text with a capital first letter; the others as they are."""
    return text[:1].upper() + text[1:]


def shorten(name: str, width: int = 60) -> str:
    """A name of at most `width` characters; what is left out is in its middle."""
    if len(name) <= width:
        return name
    tail = (width - 3) * 2 // 3
    return f"{name[: width - 3 - tail]}...{name[-tail:]}"


def _plain(text: str) -> str:
    """Text in one line."""
    return visible(str(text), lambda char: " " if char == "\n" else "?")


def assumed(by: str, what: str = "") -> str:
    """That a value is taken for granted, and what states it: flags to type, or what the data would have.

    Args:
        by: what one gives to state the value, as `--batch MIN:OPT:MAX`.
        what: the value, where it does not stand in front.
    """
    return f"({f'{what} ' * bool(what)}assumed; to state it: {by})"


def cut(text: str, width: int) -> str:
    """A sentence of at most `width` characters; its end is left out, from where a part or a word ends."""
    if len(text) <= width:
        return text
    head = text[: width - 3]
    part = max(head.rfind("; "), head.rfind(" ("))
    if 2 * part > width:
        return f"{head[:part]} ..."
    words = head.rpartition(" ")[0]
    return f"{words if words and len(head) - len(words) <= _SHORT else head}..."


def _escaped(text: str) -> str:
    return html.escape(cut(_plain(text), _LONG))
