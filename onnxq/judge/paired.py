"""A score of samples, and what these tell apart: two models score the same samples, so that pairs differ."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from onnxq.judge.policies import SURE

_MOST = 20_000  # samples: a number that is a share of more of them is one by chance


@dataclass(frozen=True, slots=True, eq=False)
class SampleScores:
    """A score, and what it is the mean of.

    Attributes:
        value: the score, in its units.
        each: float64 `[samples]`, of which it is the mean; empty where only the score is known.
        step: by how much one sample changes it at least; 0 where that is not known.
        samples: how many there are; 0 where that is not known.
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

    @staticmethod
    def of_number(value: float) -> SampleScores:
        """That of a number alone: where it is a share or a percentage of few samples, that tells how many."""
        for unit in (1.0, 100.0):
            share = Fraction(value / unit).limit_denominator(_MOST)
            if 0 < share < 1 and math.isclose(float(share) * unit, value, rel_tol=1e-15):
                return SampleScores(value, step=unit / share.denominator, samples=share.denominator)
        return SampleScores(value)

    def step_with(self, other: SampleScores) -> float:
        """By how much one sample changes either; of two shares that are reduced, one of the samples of both."""
        if self.samples and other.samples and not (len(self.each) or len(other.each)):
            return self.step * self.samples / math.lcm(self.samples, other.samples)
        return max(self.step, other.step)

    def resolution(self, other: SampleScores) -> float | None:
        """The least difference to another score of the same samples that is none of chance; None: not known.

        One sample at least. Where only the scores are known, as few samples differ as can: one a step.
        """
        step, count = self.step_with(other), len(self.each)
        if count > 1 and count == len(other.each):
            error = float((self.each - other.each).std(ddof=1)) / math.sqrt(count)
        elif step:
            error = math.sqrt(abs(self.value - other.value) * step)
        else:
            return None
        return max(step, SURE * error)
