"""What repair may take, in runs of the model: on how many samples it fits, what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.options.step import steps
from onnxq.repair.waves import Waves

LEAST = 12
"""Fewer samples tell too little: where there are not so many, nothing is repaired unless it is asked for."""

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

_MANY = 48
"""So many samples are many: a step that is kept for such is not tried with fewer."""

_MOST_FITTING = 128  # at the end, where effort counts


@dataclass(frozen=True, slots=True)
class Workload:
    """How much there is to be done.

    Attributes:
        fitting: how many samples fit what is written.
        trial: how many fit a candidate.
        judging: how many judge one at first.
        most: how many runs the steps may take that are not always tried; None: as many as they take.
    """

    fitting: int
    trial: int
    judging: int
    most: float | None = None

    def is_sure(self, step: str) -> bool:
        """Whether a step is tried whatever it takes: it fits, or looks, or many samples tell.

        A fit is a few passes over the samples, and no search.
        """
        tried = steps()[step]
        return (
            tried.fits or tried.reserved == "always" or (tried.reserved == "many" and self.fitting >= _MANY)
        )

    def cost(self, step: str, candidates: int = 1) -> float:
        """How many runs a step takes at most, about, where the first samples that judge make it clear."""
        tried = steps()[step]
        first_fit = min(one.place for one in steps().values() if one.fits)
        fits = tried.fits or tried.place > first_fit  # behind it each candidate is fitted anew
        each = self.judging + (EDITED if tried.edit else 0) + (self.fit_of(self.trial) if fits else 0)
        return tried.search + candidates * each

    def fit_of(self, samples: int) -> float:
        """How many runs a fit takes."""
        return float(_FITTED * samples)


def beside_runs(layers: Sequence[int | None]) -> float:
    """What is done once, whatever the samples, in runs of a model.

    Args:
        layers: the multiply-accumulates of each of its layers, None where they are not known.
    """
    if not layers or None in layers:
        return 0.0
    return _FIXED / (sum(filter(None, layers)) + _OF_A_LAYER * len(layers))


def workload_of(samples: int, waves: Waves, before: float | None) -> Workload:
    """On how many samples steps fit.

    Args:
        samples: how many there are.
        waves: which of them try.
        before: how many runs those may take that are not always tried; None: effort does not count.
    """
    trial, judging = len(waves.folds[0]), len(waves.waves[0].places)
    return Workload(samples if before is None else min(samples, _MOST_FITTING), trial, judging, before)
