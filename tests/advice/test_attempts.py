"""Which of several attempts is the best."""

from __future__ import annotations

import random
from typing import Literal

from onnxq.advice.attempts import rank
from onnxq.documents.advice import Advice, AdviceFinding, Attempt


def tried(weights: str, figure: float | None = None, moved: float | None = None) -> Attempt:
    """One with findings: `b`ad, `o`pen, `t`old."""
    names: dict[str, Literal["bad", "open", "told"]] = {"b": "bad", "o": "open", "t": "told"}
    found = tuple(AdviceFinding(one, names[one], "") for one in weights)
    return Attempt("", "", Advice("not-known", "", "", "", "", found), figure, "%", moved, 1.0)


def test_what_speaks_against_it_counts_first_then_what_is_open_then_how_near_it_is_then_bytes() -> None:
    ended = Attempt("", "", None, 100.0, "%", 0.5, 1.0, "it ended")
    order = [
        tried("", 99.0, 0.8), tried("ttt", 99.0, 0.9), tried("", 98.0, 0.5), tried("", None, 0.4),
        tried("o", 100.0, 0.4), tried("oo", 100.0, 0.4), tried("b", 100.0, 0.4), tried("boo", 100.0, 0.4),
        tried("bb", 100.0, 0.4), ended,
    ]  # fmt: skip
    mixed = random.Random(0).sample(order, len(order))
    assert sorted(mixed, key=rank) == order
