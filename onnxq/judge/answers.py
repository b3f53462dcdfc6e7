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
        kept: in each sample.
        whole: how many the float model gives in each.
        new: how many there are in each that the float model does not give.
        apart: what keeps them apart from other answers, in each: the sum of the squares of their margins.
        moved: how far the candidate moves them in each, likewise. Few answers tell what moves them, long
            before one of them is lost.
    """

    what: str
    kept: tuple[float, ...]
    whole: tuple[float, ...]
    new: tuple[float, ...]
    apart: tuple[float, ...] = ()
    moved: tuple[float, ...] = ()

    @property
    def moved_share(self) -> float | None:
        """How far they are moved of what keeps them apart, as a ratio of powers; None where nothing tells."""
        apart = sum(self.apart)
        return sum(self.moved) / apart if apart > 0 else None

    @property
    def net(self) -> tuple[float, ...]:
        """In each sample, how many are kept, less those that are new: either is an error of one."""
        return tuple(kept - new for kept, new in zip(self.kept, self.new, strict=True))


class AnswerCounter(Protocol):
    """What counts them."""

    def __call__(
        self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]], feeds: Mapping[str, Any], /
    ) -> Sequence[Answers]:
        """What each candidate keeps in a sample; none where that cannot be told."""


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
            tuple(new for one in each for new in one.new),
            tuple(apart for one in each for apart in one.apart),
            tuple(moved for one in each for moved in one.moved),
        )
        for each in zip(*parts, strict=True)
    )


@dataclass(frozen=True, slots=True)
class AnswersChange(DocumentPart):
    """What a candidate keeps of the float model's answers beyond what another one keeps of them.

    Attributes:
        what: what they are, in the plural: `detections`.
        kept: how many more it keeps.
        whole: how many the float model gives.
        new: how many more it gives that the float model does not give.
        lead: what is kept more, less what is new more, in standard errors, as if the two kept the same; 0
            where no answer is another one.
        interval: where that difference lies with other samples; None where too few differ to tell.
    """

    what: str
    kept: float
    whole: float
    new: float
    lead: float
    interval: Interval | None

    @staticmethod
    def of(before: Answers | None, after: Answers | None) -> AnswersChange | None:
        """That of two candidates on the same samples; None where that is not known."""
        if before is None or after is None or before.whole != after.whole or not sum(before.whole):
            return None
        each = [now - was for was, now in zip(before.net, after.net, strict=True)]
        power = math.sqrt(sum(one**2 for one in each))
        return AnswersChange(
            before.what, sum(after.kept) - sum(before.kept), sum(before.whole),
            sum(after.new) - sum(before.new), sum(each) / power if power else 0.0, Interval.of_changes(each),
        )  # fmt: skip

    @property
    def shown(self) -> int:
        """1 where answers are shown to be gained, -1 where they are shown to be lost, else 0."""
        if self.interval is None or abs(self.kept - self.new) < LEAST_SHARE * self.whole:
            return 0
        return (self.interval.low > 0) - (self.interval.high < 0)

    @property
    def said(self) -> str:
        """`keeps 12 more of 300 detections`, `loses 9 of 412 detections, with 3 more new ones`."""
        of = f"of {self.whole:,.0f} {self.what}"
        kept = f"loses {-self.kept:,.4g} {of}" if self.kept < 0 else f"keeps as many {of}"
        kept = f"keeps {self.kept:,.4g} more {of}" if self.kept > 0 else kept
        if not self.new:
            return kept
        return f"{kept}, with {abs(self.new):,.4g} {'more' if self.new > 0 else 'fewer'} new ones"
