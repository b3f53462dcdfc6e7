"""What to do about a result: the answer, what it rests on, and what was tried."""

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


@dataclass(frozen=True, slots=True)
class Attempt(DocumentPart):
    """A command line that was tried.

    Attributes:
        command: the command line.
        why: what it was tried for.
        answer: what came of it; None where it ended in an error.
        figure: how near it is: percent of the task's answers that are kept, else dB of the worst output;
            None: not measured.
        unit: "%" or "dB".
        moved: what int8 moves of the bytes of plain float16; None: not known.
        seconds: how long it took.
        error: what ended it, "" for nothing.
    """

    command: str
    why: str
    answer: Advice | None
    figure: float | None
    unit: str
    moved: float | None
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Untried(DocumentPart):
    """A command line that was not tried.

    Attributes:
        command: the command line; "" where only the user can act.
        why: what it is for.
        because: why it was not tried.
    """

    command: str
    why: str
    because: str


@dataclass(frozen=True, slots=True)
class Advised(DocumentPart):
    """What `onnxq quantize --budget` tried.

    Attributes:
        kind: "advised".
        schema: 1.
        output: the file that was written, of the best attempt.
        best: its place in `attempts`.
        attempts: all that was tried, in order.
        untried: what was not.
    """

    kind: str
    schema: int
    output: str
    best: int
    attempts: tuple[Attempt, ...]
    untried: tuple[Untried, ...]
