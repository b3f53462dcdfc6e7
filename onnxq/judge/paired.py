"""A score of samples, and what these tell apart: two models score the same samples, so that pairs differ."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from onnxq.judge.policies import SURE

_SHARES = range(16, 20_001)  # samples: a number is a share of fewer where it is rounded, of more by chance


class Resolution(NamedTuple):
    """What samples tell apart.

    Attributes:
        least: the least difference that is none of chance, in the units of the score.
        samples: how many there are; None where that is not known.
    """

    least: float
    samples: int | None


@dataclass(frozen=True, slots=True, eq=False)
class SampleScores:
    """A score, and what it is the mean of.

    Attributes:
        value: the score, in its units.
        each: float64 `[samples]`, of which it is the mean; empty where only the score is known.
        step: by how much one sample changes it at least; 0 where that is not known.
        samples: how many there are, rows of samples counted; 0 likewise.
    """

    value: float
    each: np.ndarray = field(default_factory=lambda: np.empty(0))
    step: float = 0.0
    samples: int = 0

    @staticmethod
    def of(each: np.ndarray) -> SampleScores:
        """That of one number a sample, at least one."""
        distinct, count = np.unique(each), len(each)
        gap = float(np.diff(distinct).min()) if len(distinct) > 1 else abs(float(distinct[0]))
        return SampleScores(float(each.mean()), each, gap / count, count)

    def resolution(self, other: SampleScores) -> Resolution | None:
        """What tells another score of the same samples apart; None: that is not known.

        One sample at least. Two numbers that are shares, or percentages, of few samples tell how many these
        are at least; as few of them differ then as can.
        """
        count = len(self.each)
        if count > 1 and count == len(other.each):
            error = float((self.each - other.each).std(ddof=1)) / math.sqrt(count)
            return Resolution(max(self.step, other.step, SURE * error), max(self.samples, other.samples))
        unit = 100.0 if max(self.value, other.value) > 1 else 1.0
        shares = [Fraction(one.value / unit).limit_denominator(_SHARES[-1]) for one in (self, other)]
        count = math.lcm(*(share.denominator for share in shares))
        exact = all(
            0 <= share <= 1 and math.isclose(share * unit, one.value, rel_tol=1e-15)
            for share, one in zip(shares, (self, other), strict=True)
        )
        if not exact or count not in _SHARES or self.value == other.value:
            return None
        step = unit / count
        return Resolution(max(step, SURE * math.sqrt(abs(self.value - other.value) * step)), None)
