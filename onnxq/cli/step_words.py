"""The steps of a run in words, as progress names them; observers in Python are told the short names."""

from __future__ import annotations

from onnxq.base.catalogue import Fact, table


def in_words(step: str) -> str:
    """A step, and the part of it that it is at, in words; what is not known stays as it is.

    `repair: bias` is "repairing the accuracy: bias".
    """
    name, colon, part = step.partition(":")
    return f"{Fact(name).text('steps') if name in table('steps') else name}{colon}{part}"
