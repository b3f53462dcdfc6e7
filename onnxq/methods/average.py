"""The moving average of the samples' greatest magnitudes (onnxruntime, `CalibMovingAverage`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.options.method import Parameter, method

if TYPE_CHECKING:
    from onnxq.calib.stats import TensorStats

_TRIED = 0.01, 0.05, 0.1, 0.5


def _by_samples(samples: int) -> Sequence[float]:
    """Those whose average reaches over no more samples than there are: of a lesser one the first is most."""
    return [constant for constant in _TRIED if constant * samples >= 1] or _TRIED[-1:]


_CONSTANT = Parameter(
    "constant", 0.01, 1, "Weight of a new sample in the moving average.", "C",
    words="moving average constant",
    hint="0.01 averages over about a hundred samples; 1 takes the last sample only",
    auto=_by_samples,
)  # fmt: skip


@method(parameter=_CONSTANT, auto=True, place=2)
def average(stats: TensorStats, constant: float) -> float:
    """T <- (1 - constant) T + constant x amax of the sample, from the first one's.

    Over samples by a hash of their amax: the order of the data is chance.
    """
    import hashlib
    import struct

    first, *others = sorted(
        stats.amaxes.tolist(), key=lambda amax: hashlib.blake2b(struct.pack("<d", amax)).digest()
    )
    mean: float = first
    for amax in others:
        mean = (1 - constant) * mean + constant * amax
    return mean
