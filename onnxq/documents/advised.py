"""What was tried because of the advice, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.documents.advice import Advice


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
