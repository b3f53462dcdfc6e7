"""Samples crossed over: each fits what is judged by others, and judges what others fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LEAST_HALVED = 4  # samples: of fewer all fit and judge

FITTING = 16
"""With so many samples a candidate is fitted at most: what is written is fitted to more."""

_FIRST, _MORE = 16, 32  # samples that judge: what is clear is decided by the first


@dataclass(frozen=True, slots=True)
class Wave:
    """Samples that judge together.

    Attributes:
        fold: the number of the fold that fits what they judge.
        places: theirs among all samples of repair, ascending.
    """

    fold: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waves:
    """Which samples fit, and which judge what these fit.

    Attributes:
        folds: the places of the samples that fit, of each fold; ascending.
        waves: those that judge, one after another, as long as it is not clear what they say.
    """

    folds: tuple[tuple[int, ...], ...]
    waves: tuple[Wave, ...]

    @staticmethod
    def of(count: int, *, all_of_them: bool = False) -> Waves:
        """Those of so many samples.

        Half of the samples fit what the other half judges, first some of it, then more; then the other way
        round. The halves are drawn, so that both hold whatever follows each other in the data.

        Args:
            count: how many there are.
            all_of_them: whether all of a half fit and judge, whatever it takes.
        """
        if count < _LEAST_HALVED:
            every = tuple(range(count))
            return Waves((every,), (Wave(0, every),))
        order = np.random.default_rng(0).permutation(count).tolist()
        halves = order[0::2], order[1::2]
        fitting, first, most = (count, count, count) if all_of_them else (FITTING, _FIRST, _MORE)
        waves = [Wave(0, _sorted(halves[1][:first])), Wave(0, _sorted(halves[1][first:most]))]
        waves.append(Wave(1, _sorted(halves[0][:most])))
        return Waves(
            tuple(_sorted(half[:fitting]) for half in halves), tuple(wave for wave in waves if wave.places)
        )

    def judging(self, waves: int) -> int:
        """How many samples judge in the first waves."""
        return sum(len(wave.places) for wave in self.waves[:waves])


def _sorted(places: list[int]) -> tuple[int, ...]:
    return tuple(sorted(places))
