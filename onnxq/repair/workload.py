"""What repair may take, in runs of the model: on how many samples it fits and judges, what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_FITTING, LEAST_JUDGING = 8, 4
"""Fewer samples tell too little: where there are not so many, nothing is repaired unless it is asked for."""

_MOST_JUDGING = 64  # of those that choose, where effort counts
_SHRINK = 0.75
_SEARCH = 100  # runs with which a step searches, about
SEARCHING = ("split", "thresholds")
"""Steps that run the model before they know what they propose."""
REFITS = ("bias", "shift", "gptq")
"""The steps that gain most: samples become fewer before one of them is left out."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How much there is to be done.

    Attributes:
        fitting: how many samples fit.
        judging: how many judge.
        most: how many runs it may take; None: as many as it takes.
    """

    fitting: int
    judging: int
    most: float | None = None

    def cost(self, step: str, candidates: int = 1) -> float:
        """How many runs a step takes at most, about."""
        fits = step in REFITS or step in SEARCHING
        search = _SEARCH if step in SEARCHING else 0
        return search + candidates * (self.judging + (self.fitting if fits else 0))

    @property
    def first(self) -> float:
        """What is taken before the first step: float and quantized, on the samples that judge."""
        return 2.0 * self.judging

    def reserved(self, steps: Sequence[str], *, floats: bool = True) -> float:
        """What those of the steps take that gain most; `floats`: and the float model, on samples that fit."""
        refits = [step for step in steps if step in REFITS]
        once = self.fitting if refits and floats else 0
        return once + sum(map(self.cost, refits))


def workload_of(steps: Sequence[str], fitting: int, judging: int, most: float | None) -> Workload:
    """On how many samples steps fit and are judged.

    Args:
        steps: their names.
        fitting: how many samples there are to fit with.
        judging: how many there are to judge with.
        most: how many runs it may take; None: as many as it takes.
    """
    if most is None:
        return Workload(fitting, judging)
    found = Workload(fitting, min(judging, _MOST_JUDGING), most)
    least = Workload(min(fitting, LEAST_FITTING), min(found.judging, 2 * LEAST_JUDGING))
    while found.first + found.reserved(steps) > most:
        fewer = Workload(
            max(least.fitting, int(found.fitting * _SHRINK)),
            max(least.judging, int(found.judging * _SHRINK)),
            most,
        )
        if fewer == found:
            break
        found = fewer
    return found
