"""What a candidate loses: one figure of outputs and answers, by which whatever decides compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.judge.sqnr import limited_db, nsr_of

ENOUGH_DB = 30.0
"""A part of the outputs that is so near is near enough: what is beyond buys nothing of a part that is not."""

_ENOUGH = nsr_of(ENOUGH_DB)


@dataclass(frozen=True, slots=True)
class Loss:
    """What is lost, as noise-to-signal ratios: 0 is nothing, 1 as much as there is.

    A sum of ratios is what its worst part is: a rich part cannot pay for a lost one, as it could in a mean of
    decibels. Where the answers are known, what moves them is a part that weighs as much as all outputs
    together: noise that moves no answer is not all that counts, and few answers alone are noisy.

    Attributes:
        all: the weighed mean of the ratios of the outputs' parts, and what the answers are moved by.
        beyond: the same where each of them counts as enough at least.
        least: what that is where all are near enough.
    """

    all: float
    beyond: float
    least: float

    @staticmethod
    def of(ratios: Mapping[str, float], weights: Mapping[str, float], moved: float | None) -> Loss:
        """That of parts of outputs, and of answers.

        Args:
            ratios: the noise-to-signal ratio of each part that counts, one at least.
            weights: what parts weigh.
            moved: how far the answers are moved of what keeps them apart from others, as a ratio of powers;
                None: that is not known.
        """
        weighed = sum(weights[name] for name in ratios)

        def total(least: float) -> float:
            parts = sum(weights[name] * max(ratio, least) for name, ratio in ratios.items()) / weighed
            return parts if moved is None else parts + max(moved, least)

        return Loss(total(0.0), total(_ENOUGH), _ENOUGH if moved is None else 2 * _ENOUGH)

    @property
    def db(self) -> float:
        """The figure, dB: as of outputs alone, where no answers are known, their SQNR about the mean."""
        return limited_db(self.all)

    @property
    def is_enough(self) -> bool:
        """Whether all of it is near enough."""
        return self.beyond <= self.least * (1 + 1e-9)

    @property
    def order(self) -> tuple[float, float]:
        """By which candidates are sorted, the best first: what is lost beyond enough, then all of it."""
        return (0.0 if self.is_enough else self.beyond, self.all)

    def gained_db(self, other: Loss, *, beyond: bool) -> float:
        """By how much the other one loses less, dB.

        Args:
            other: it.
            beyond: whether what is near enough counts as enough: nothing that is nearer is gained.
        """
        if beyond:
            return limited_db(other.beyond) - limited_db(self.beyond)
        return other.db - self.db
