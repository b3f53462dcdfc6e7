"""Answers of the float model that candidates keep, sample by sample, and what two candidates differ by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onnxq.base.plain import DocumentPart
from onnxq.judge.intervals import Interval

LEAST_SHARE = 1e-3
"""Of all answers: what changes less of them, the overlap of masks say, is rounding."""


@dataclass(frozen=True, slots=True)
class Answers:
    """How many of the float model's answers a candidate keeps.

    Attributes:
        what: what they are, in the plural: `detections`.
        kept: in each sample, less those that the float model does not give.
        whole: how many it gives in each.
    """

    what: str
    kept: tuple[float, ...]
    whole: tuple[float, ...]


class AnswerCounter(Protocol):
    """What counts them."""

    def __call__(
        self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]], feeds: Mapping[str, Any], /
    ) -> Sequence[Answers]:
        """What each candidate keeps in a sample; none where that cannot be told."""
        ...


def over_samples(some: Iterable[Sequence[Answers]]) -> tuple[Answers, ...]:
    """What each candidate keeps in all samples; none where one of them does not tell.

    Args:
        some: of some samples each, the same candidates.
    """
    parts = list(some)
    if not parts or not all(parts):
        return ()
    return tuple(
        Answers(
            each[0].what,
            tuple(kept for one in each for kept in one.kept),
            tuple(whole for one in each for whole in one.whole),
        )
        for each in zip(*parts, strict=True)
    )


@dataclass(frozen=True, slots=True)
class AnswersChange(DocumentPart):
    """What a candidate keeps of the float model's answers beyond what another one keeps of them.

    Attributes:
        what: what they are, in the plural: `detections`.
        change: how many more it keeps; of those that the float model does not give, how many fewer it gives.
        whole: how many the float model gives.
        lead: that in standard errors, as if neither kept more; 0 where no answer is another one.
        interval: where the change lies with other samples; None where too few differ to tell.
    """

    what: str
    change: float
    whole: float
    lead: float
    interval: Interval | None

    @staticmethod
    def of(before: Answers | None, after: Answers | None) -> AnswersChange | None:
        """That of two candidates on the same samples; None where that is not known."""
        if before is None or after is None or before.whole != after.whole or not sum(before.whole):
            return None
        each = [now - was for was, now in zip(before.kept, after.kept, strict=True)]
        power = math.sqrt(sum(one**2 for one in each))
        change, whole = sum(each), sum(before.whole)
        return AnswersChange(
            before.what, change, whole, change / power if power else 0.0, Interval.of_changes(each)
        )

    @property
    def shown(self) -> int:
        """1 where answers are shown to be gained, -1 where they are shown to be lost, else 0."""
        if self.interval is None or abs(self.change) < LEAST_SHARE * self.whole:
            return 0
        return (self.interval.low > 0) - (self.interval.high < 0)

    @property
    def said(self) -> str:
        """`keeps 12 more of 300 detections`, `loses 9 of 412 detections`."""
        count, of = f"{abs(self.change):,.4g}", f"of {self.whole:,.0f} {self.what}"
        return f"keeps {count} more {of}" if self.change > 0 else f"loses {count} {of}"
