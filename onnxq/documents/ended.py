"""The document of a verb that ends in an error, with --json."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart


@dataclass(frozen=True, slots=True)
class ErrorSaid(DocumentPart):
    """What is wrong.

    Attributes:
        message: what, where and why.
        hint: what to do, "" where nothing is known.
        exit_code: that of the command: 2 of input, 3 of a fault of onnxq, 130 of an interruption.
    """

    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class ErrorEnd(DocumentPart):
    """That a verb ended in an error.

    Attributes:
        kind: "error".
        schema: 2.
        error: what is wrong.
    """

    kind: str
    schema: int
    error: ErrorSaid
