"""The noise model: how sources of noise add up at the outputs, with sign.

Of each source the signed error of the outputs is measured with it alone on, E_i. Noise is nearly linear in what causes
it, so that the noise of a set S is 1ᵀ·G_S·1, with G = E·Eᵀ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxq.noise.sources import Sources


@dataclass(frozen=True, slots=True)
class Effort:
    """What measuring took; never seconds.

    Attributes:
        samples: how many samples.
        runs: runs of the quantized model, in parts of its layers: what was run of all pieces, over how many there are,
            over all samples.
        sources: how many sources.
    """

    samples: int
    runs: float
    sources: int

    @property
    def runs_per_source(self) -> float:
        """Runs of the quantized model for each source and sample."""
        return self.runs / max(1, self.sources * self.samples)


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """Predicts the outputs' noise.

    Attributes:
        sources: the sources.
        gram: G in parts of the power of the outputs: float64 [sources, sources]; the outputs' weights sum to 1.
        by_output: likewise of each output that counts, not weighed.
        left_out: outputs that do not count, and why.
        weights: what each output that counts weighs, sum 1.
        body: the noise of the body in half precision over the signal, 0 where it is not measured.
        effort: what that took.
    """

    sources: Sources
    gram: np.ndarray
    by_output: Mapping[str, np.ndarray]
    left_out: Mapping[str, str]
    weights: Mapping[str, float]
    effort: Effort
    body: float = 0.0
    body_by_output: Mapping[str, float] = field(default_factory=dict)

    def noise(self, floats: Collection[str] = ()) -> float:
        """The predicted noise-to-signal ratio with some nodes in float, the body's included."""
        raise NotImplementedError

    def noises(self, on: np.ndarray) -> np.ndarray:
        """That of sets of sources, bool [sets, sources], without the body: float64 [sets]."""
        raise NotImplementedError

    def sqnr_db(self, floats: Collection[str] = ()) -> float:
        """The predicted SQNR about the mean, dB."""
        raise NotImplementedError

    def output_db(self, floats: Collection[str] = ()) -> dict[str, float]:
        """That of each output that counts, the worst first."""
        raise NotImplementedError

    def alone_db(self) -> np.ndarray:
        """The SQNR with each source alone, dB, float64 [sources]."""
        raise NotImplementedError

    def reliable(self, floats: Collection[str] = ()) -> bool:
        """False where the body's noise is within 15 dB of what int8 adds: adding powers may be wrong then."""
        raise NotImplementedError

    def with_body(self, body: Mapping[str, float]) -> NoiseModel:
        """The same with the noise-to-signal ratio of the body, by output."""
        raise NotImplementedError


def refined(models: Sequence[NoiseModel]) -> NoiseModel:
    """The last of several measurements, blocks first."""
    return models[-1]
