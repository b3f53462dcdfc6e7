"""What repair may take, in runs of the model: on how many samples it fits and judges, what is left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.options.step import steps

LEAST_FITTING, LEAST_JUDGING = 8, 4
"""Fewer samples tell too little: where there are not so many, nothing is repaired unless it is asked for."""

_MOST_JUDGING = 64  # of those that choose, where effort counts
_SHRINK = 0.9

_FIXED = 40e9
"""Multiply-accumulates in the time of what is done once, whatever the samples: loading, proofs, compiling.

Measured: 9 CPU seconds of MobileNetV1 (41 M), where one of repair's runs takes 11 ms; this is two
thirds of it."""

_OF_A_LAYER = 1e6  # likewise, in what a run takes for each of its layers beside them

_FITTED = 2
"""What a sample takes that fits, in runs.

Measured: 2.1 to 2.8 of ResNet-18, 1.8 to 2.2 of MobileNetV1 (64 samples, two cores)."""

EDITED = 8
"""On how many samples an edited float model is compared with the one without edits."""

_ENOUGH = 48  # samples that fit: not fewer for the sake of the other steps


@dataclass(frozen=True, slots=True)
class Workload:
    """How much there is to be done.

    Attributes:
        fitting: how many samples fit.
        judging: how many judge.
        most: how many runs it may take; None: as many as it takes.
        wide: whether steps are judged on the samples that fit, too; what is fitted where runs are left.
    """

    fitting: int
    judging: int
    most: float | None = None
    wide: bool = False

    def cost(self, step: str, candidates: int = 1) -> float:
        """How many runs a step takes at most, about."""
        tried = steps()[step]
        first_fit = min(one.place for one in steps().values() if one.fits)
        fits = tried.fits or tried.place > first_fit  # behind it each candidate is fitted anew
        each = self.judging + (EDITED if tried.edit else 0)
        each += self.fitting * (_FITTED if fits else 1 if self.wide else 0)
        return tried.search + candidates * each

    @property
    def first(self) -> float:
        """What is taken before the first step: float and quantized, on the samples that judge."""
        return 2.0 * self.judging + (2.0 * self.fitting + self.judging if self.wide else 0.0)

    def reserved(self, names: Sequence[str], *, floats: bool = True) -> float:
        """What those of the steps take that are not to be left out.

        Args:
            names: their names.
            floats: whether the float model is still to be run, on samples that fit.
        """
        reserved = {"always": True, "many": self.fitting > _ENOUGH, "wide": self.wide, "": False}
        first = [name for name in names if reserved[steps()[name].reserved]]
        once = self.fitting if first and floats else 0
        return once + sum(map(self.cost, first))


def beside_runs(layers: Sequence[int | None]) -> float:
    """What is done once, whatever the samples, in runs of a model.

    Args:
        layers: the multiply-accumulates of each of its layers, None where they are not known.
    """
    if not layers or None in layers:
        return 0.0
    return _FIXED / (sum(filter(None, layers)) + _OF_A_LAYER * len(layers))


def workload_of(
    names: Sequence[str], fitting: int, judging: int, most: float | None, *, apart: bool = False
) -> Workload:
    """On how many samples steps fit and are judged.

    Args:
        names: their names.
        fitting: how many samples there are to fit with.
        judging: how many there are to judge with.
        most: how many runs it may take; None: as many as it takes.
        apart: whether those that judge are others than those that fit.
    """
    if most is None:
        return Workload(fitting, judging, wide=apart)
    workload = Workload(fitting, min(judging, _MOST_JUDGING), most)
    least = Workload(min(fitting, LEAST_FITTING), min(workload.judging, 2 * LEAST_JUDGING))
    wide = dataclasses.replace(workload, wide=True)
    if apart and wide.first + wide.reserved(names) <= most:
        return wide
    while workload.first + workload.reserved(names) > most:
        fewer = Workload(
            max(least.fitting, int(workload.fitting * _SHRINK)),
            max(least.judging, int(workload.judging * _SHRINK)),
            most,
        )
        if fewer == workload:
            break
        workload = fewer
    return workload
