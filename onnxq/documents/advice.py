"""What to do about a result: the answer, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from onnxq.base.catalogue import Fact
from onnxq.base.plain import DocumentPart

Answer = Literal["ship", "do-not-ship", "not-known"]
Weight = Literal["bad", "open", "told"]


@dataclass(frozen=True, slots=True)
class LikelyCause(DocumentPart):
    """What may be behind a finding.

    Attributes:
        code: a word for it, for programs.
        said: what it is, with its figures.
        test: what tells it from the other causes; "" where the figures do.
        do: what to do, in a sentence.
        command: the command line that does it, as it stands; "" where only the user can act, and of a run
            that was no command line.
    """

    code: str
    said: str
    test: str = ""
    do: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class AdviceFinding(DocumentPart):
    """Something that was measured, and speaks against the result or leaves it open.

    Attributes:
        code: a word for it, for programs.
        weight: "bad": it must not be shipped like that; "open": what is to be known is not; "told": neither.
        said: what was found, with its figures.
        causes: what may be behind it, the likeliest first.
    """

    code: str
    weight: Weight
    said: str
    causes: tuple[LikelyCause, ...] = ()


def cause(code: str, command: str = "", /, **values: object) -> LikelyCause:
    """A cause in the words of the catalogue.

    Args:
        code: a row of `base/catalogue/answers.toml`, behind points forms of it; the row is its code.
        command: the command line that does it.
        values: names and numbers of the texts.
    """
    fact = Fact(code, values=values)
    said, test, do = (fact.text("answers", part) for part in ("says", "test", "do"))
    return LikelyCause(fact.row, said, test, do, command)


def advised(
    code: str, weight: Weight, causes: Iterable[LikelyCause] = (), /, **values: object
) -> AdviceFinding:
    """A finding in the words of the catalogue, likewise."""
    fact = Fact(code, values=values)
    return AdviceFinding(fact.row, weight, fact.text("answers"), tuple(causes))


@dataclass(frozen=True, slots=True)
class Advice(DocumentPart):
    """What to do about a result.

    Attributes:
        answer: "ship", "do-not-ship" or "not-known".
        because: what decides that, with figures.
        cause: the likeliest cause; "" where there is none.
        do: what to do, in a sentence.
        command: the command line that does it, as it stands; "" where only the user can act, and of a run
            that was no command line.
        findings: all that was found, what decides first.
    """

    answer: Answer
    because: str
    cause: str
    do: str
    command: str
    findings: tuple[AdviceFinding, ...]

    @property
    def words(self) -> str:
        """The answer, for people."""
        return {"ship": "Ship it", "do-not-ship": "Do not ship it", "not-known": "Not known"}[self.answer]
