"""Where a figure lies with other samples of the kind: 95 % intervals, of decibels, shares and means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.judge.sqnr import nsr_of, power_db

GROUPS = 32
"""Into so many groups samples are dealt at most; of fewer samples each is a group of its own."""

LEAST_GROUPS = 4
"""Of fewer there is no interval: how far they are apart says next to nothing."""

_KURTOSIS = 5.4
"""That of the logarithm of a power which is exponential (Gumbel's law)."""

_UNSEEN = 3

_NORMAL = 1.96
_STUDENT = {2: 4.303, 3: 3.182, 4: 2.776, 6: 2.447, 10: 2.228, 30: 2.042, math.inf: _NORMAL}
"""The 97.5 % quantile of Student's t by its degrees of freedom, of the usual tables."""


@dataclass(frozen=True, slots=True)
class Interval(DocumentPart):
    """Where a figure lies in 95 of 100 cases, judged by how much samples differ.

    Attributes:
        low: the lower end, in the figure's units.
        high: the upper one.
    """

    low: float
    high: float

    @staticmethod
    def of_level(level_db: float | None, without: Sequence[float]) -> Interval | None:
        """That of a level in dB, by a jackknife over groups of samples.

        The standard error times Student's t. Noise is rare and loud: a few samples make most of it, and know
        their own spread badly. Two things make up for that. The degrees of freedom are those of a variance of
        such tails, 2 n / (kurtosis - 1), at most n - 1 (Satterthwaite's; 2 n / (3 - 1) is n of normal ones).
        Few groups seem to have lighter tails than they have: the kurtosis is at least that of a power's
        logarithm. And the lower end leaves room for three more groups like the loudest: what n did not show
        may be 3 in n (the rule of three).

        Args:
            level_db: of all samples; None: it is not known.
            without: that without each group, dB; none where one is not known.

        Returns:
            None of fewer than 4 groups, where they do not differ, and where a level is not finite.
        """
        count = len(without)
        if level_db is None or count < LEAST_GROUPS or not np.isfinite([level_db, *without]).all():
            return None
        apart = np.subtract(without, np.mean(without))
        variance = float(np.mean(apart**2))
        if not variance > 0:
            return None
        kurtosis = max(float(np.mean(apart**4)) / variance**2, _KURTOSIS)
        half = _student(min(count - 1, 2 * count / (kurtosis - 1))) * standard_error(without)
        loudest = 1 - min(1.0, nsr_of(max(without) - level_db))  # of the noise
        return Interval(level_db - half - power_db(1 + _UNSEEN * loudest), level_db + half)

    @staticmethod
    def of_share(share: float | None, trials: float) -> Interval | None:
        """That of a share of 1, by the score of a binomial (Wilson 1927).

        Args:
            share: of what is counted, 0 to 1; None: it is not known.
            trials: how many are independent: the samples, whatever the rows of each, or what they count as.

        Returns:
            None of fewer than 4 trials.
        """
        if share is None or trials < LEAST_GROUPS:
            return None
        return _score(share, trials, _NORMAL)

    @staticmethod
    def trials(share: float, low: float) -> float:
        """How many trials a share needs for the lower end of `of_share` to be `low`: that, solved for them.

        Args:
            share: 0 to 1.
            low: the lower end, above 0 and below the share.
        """
        return _NORMAL**2 * low * (1 - low) / (share - low) ** 2

    @staticmethod
    def of_ratio(parts: Sequence[float], wholes: Sequence[float]) -> Interval | None:
        """That of a share that is counted in samples of several each: the ratio of two sums.

        As `of_share`, with as many trials as would spread as much as the samples do, by a jackknife over
        them: what is counted in one sample may be alike. Of few samples this is not known well, so that what
        is above their number counts by the square of the normal over Student's quantile (Korn and Graubard
        1998), and there are no more trials than there is to be counted. Where samples do not spread at all,
        each is one trial.

        Args:
            parts: of each sample, how much of the whole counts.
            wholes: of each sample, how much there is.

        Returns:
            None of fewer than 4 samples that have anything.
        """
        part, whole = (np.asarray(one, np.float64) for one in (parts, wholes))
        part, whole = part[whole > 0], whole[whole > 0]
        count, all_of_it = len(whole), float(whole.sum())
        if count < LEAST_GROUPS:
            return None
        share = float(part.sum()) / all_of_it
        without = (part.sum() - part) / (all_of_it - whole)
        variance = standard_error(without) ** 2 * (count - 1) / count  # p (1 - p) / n of one each
        trials = share * (1 - share) / variance if variance > 0 else count
        if trials > count:
            trials = count + (trials - count) * (_NORMAL / _student(count - 1)) ** 2
        return Interval.of_share(share, min(trials, all_of_it))

    @staticmethod
    def of_mean(values: Sequence[float], low: float, high: float) -> Interval | None:
        """That of a mean of samples: its standard error times Student's t.

        Args:
            values: one of each sample.
            low: the least that one can be.
            high: the greatest.

        Returns:
            None of fewer than 4 samples, and where they do not differ.
        """
        spread = float(np.std(values, ddof=1)) if len(values) >= LEAST_GROUPS else 0.0
        if not spread > 0:
            return None
        half = _student(len(values) - 1) * spread / math.sqrt(len(values))
        mean = float(np.mean(values))
        return Interval(max(low, mean - half), min(high, mean + half))

    @staticmethod
    def of_change(change: float, without: Sequence[float] | np.ndarray) -> Interval | None:
        """That of a difference of levels of the same samples: by a jackknife, its error times Student's t.

        Args:
            change: of all samples, dB.
            without: that without each group, dB.

        Returns:
            None of fewer than 4 groups, and where they do not differ.
        """
        error = standard_error(without) if len(without) >= LEAST_GROUPS else 0.0
        if not error > 0 or not math.isfinite(change):
            return None
        half = _student(len(without) - 1) * error
        return Interval(change - half, change + half)

    @staticmethod
    def of_changes(changes: Sequence[float]) -> Interval | None:
        """That of the sum of what each sample changes, of two candidates on the same samples.

        Samples that change nothing say nothing: it is the share of gains among those that do, by the score of
        a binomial (McNemar 1947), with Student's quantile. A sample of several answers may change several
        alike: there are as many trials as weigh like the samples do, (sum |d|)^2 / sum d^2 (Kish 1965), which
        are the samples where each changes one.

        Args:
            changes: what each sample gains.

        Returns:
            None of fewer than 4 trials.
        """
        sizes, powers = sum(map(abs, changes)), sum(one**2 for one in changes)
        trials = sizes**2 / powers if powers else 0.0
        if trials < LEAST_GROUPS:
            return None
        share = _score((1 + sum(changes) / sizes) / 2, trials, _student(trials - 1))
        return Interval((2 * share.low - 1) * sizes, (2 * share.high - 1) * sizes)

    def times(self, factor: float) -> Interval:
        """The same in other units."""
        return Interval(factor * self.low, factor * self.high)


def _score(share: float, trials: float, quantile: float) -> Interval:
    """The interval of a binomial's share by its score, of a quantile of the normal or Student's."""
    square = quantile**2
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    spread = math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    half = quantile * spread / (1 + square / trials)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def standard_error(without: Sequence[float] | np.ndarray) -> float:
    """That of what was measured without each group of samples (a jackknife); 0 of none."""
    return float(np.sqrt((len(without) - 1) * np.var(without))) if len(without) else 0.0


def _student(freedom: float) -> float:
    """The quantile of Student's t, between tables by the inverse of the degrees of freedom, 2 and more."""
    places = sorted(_STUDENT, reverse=True)
    return float(np.interp(1 / freedom, [1 / one for one in places], [_STUDENT[one] for one in places]))
