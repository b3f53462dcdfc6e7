"""Reasons as data: what decides reads the code, a person reads the text."""

from __future__ import annotations

from onnxq.base.catalogue import Fact


class Reason(str):
    """A reason, which reads as its text.

    Attributes:
        code: what kind of reason it is: a word that stays, however the text is put.
        by: who gives it: `user`, `model`, a rule's name, a tool's; `onnxq` otherwise.
    """

    code: str
    by: str

    def __new__(cls, code: str, text: str, by: str = "onnxq") -> Reason:
        """A reason of a kind, in words, by somebody."""
        reason = super().__new__(cls, text)
        reason.code, reason.by = code, by
        return reason

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        return self.code, str(self), self.by

    def __repr__(self) -> str:
        return f"Reason({self.code!r}, {str(self)!r}, {self.by!r})"


def code_of(reason: str) -> str:
    """The code of a reason, "" of a text that is none."""
    return reason.code if isinstance(reason, Reason) else ""


def by_of(reason: str) -> str:
    """Who gives a reason, "" of a text that is none."""
    return reason.by if isinstance(reason, Reason) else ""


def noted(code: str, /, **values: object) -> str:
    """What is noted of a run, by a row of `base/catalogue/notes.toml`, behind a point a form of it."""
    return Fact(code, values=values).text("notes")


def say(code: str, /, **values: object) -> str:
    """What a screen or the page says, by a row of `base/catalogue/screens.toml`, likewise."""
    return Fact(code, values=values).text("screens")


def reason(code: str, by: str = "onnxq", /, **values: object) -> Reason:
    """A reason whose text the catalogue has.

    Args:
        code: a row of `base/catalogue/reasons.toml`, and behind a point a form of it; the row is the code.
        by: who gives it.
        values: names and numbers of the text.
    """
    fact = Fact(code, values=values)
    return Reason(fact.row, fact.text("reasons"), by)
