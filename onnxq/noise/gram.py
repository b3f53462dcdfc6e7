"""The noise model: how sources of noise add up at the outputs, with sign.

Of each source the signed error of the outputs is measured with it alone on, E_i. What the outputs make of
small errors is nearly linear, so that the noise of a set S is 1ᵀ·G_S·1, with G = E·Eᵀ. Of large errors it is
less: a Softmax cannot be further off than all that it has. So a noise of N is taken for N / (1 + bend·N);
the bend is what a few sets of sources say that are measured as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from onnxq.judge.comparable import OutputLeftOut
from onnxq.judge.policies import BODY_APART_DB, LOST_DB
from onnxq.judge.sqnr import limited_db
from onnxq.noise.sources import Sources


@dataclass(frozen=True, slots=True)
class Effort:
    """What measuring took; never seconds.

    Attributes:
        samples: how many samples.
        runs: runs of the quantized model over all samples, by pieces of a layer each: where only half of the
            pieces run, that is half a run. The float model's own run, one a sample, is not among them.
        sources: how many sources.
    """

    samples: int
    runs: float
    sources: int

    @property
    def runs_per_source(self) -> float:
        """Runs of the quantized model for each source and sample."""
        return self.runs / max(1, self.sources * self.samples)


@dataclass(frozen=True)
class NoiseModel:
    """Predicts the outputs' noise.

    Attributes:
        sources: the sources.
        by_output: G of each output that counts, in parts of its power: float64 [sources, sources].
        weights: what each of them weighs; the sum is 1.
        left_out: the outputs that do not count.
        effort: what measuring took.
        body: the noise of the body in half precision, in parts of each output's power; none where it is not
            measured.
        bend: how noise that is great falls behind what superposition says, 0 where it does not.
    """

    sources: Sources
    by_output: Mapping[str, np.ndarray]
    weights: Mapping[str, float]
    left_out: tuple[OutputLeftOut, ...]
    effort: Effort
    body: Mapping[str, float] = field(default_factory=dict)
    bend: float = 0.0

    def __post_init__(self) -> None:
        gram = np.zeros((len(self.sources), len(self.sources)))
        for name, weight in self.weights.items():
            gram += weight * self.by_output[name]
        object.__setattr__(self, "gram", gram)

    gram: np.ndarray = field(init=False, repr=False)
    """G of all outputs, as they weigh."""

    @property
    def body_noise(self) -> float:
        """The body's noise in parts of the signal."""
        return sum(self.weights[name] * self.body.get(name, 0.0) for name in self.weights)

    def noises(self, on: np.ndarray) -> np.ndarray:
        """The noise of sets of sources in parts of the signal, without the body's.

        Args:
            on: bool [sets, sources].

        Returns:
            float64 [sets]; 0 at least.
        """
        return _bent(noises(self.gram, on), self.bend)

    def noise(self, floats: Collection[str] = ()) -> float:
        """The noise in parts of the signal with some nodes in float, with the body's."""
        return float(self.noises(self.sources.on_each([floats]))[0]) + self.body_noise

    def sqnr_db(self, floats: Collection[str] = ()) -> float:
        """The predicted SQNR about the mean with some nodes in float, dB."""
        return limited_db(self.noise(floats))

    def alone_db(self) -> np.ndarray:
        """The SQNR with each source alone, dB, float64 [sources]."""
        return limited_db(np.diag(self.gram))

    def shares(self) -> np.ndarray:
        """What the noise falls by when a source goes, in parts of all, float64 [sources]; or rises."""
        on = self.sources.on(()).astype(np.float64)
        total = max(float(on @ self.gram @ on), 1e-300)
        shares: np.ndarray = on * (2 * (self.gram @ on) - np.diag(self.gram)) / total
        return shares

    def share(self, removed: np.ndarray, on: np.ndarray) -> float:
        """Which part of the noise of the sources that are on goes with some of them, bool [sources] both."""
        total, rest = noises(self.gram, np.array([on, on & ~removed])).tolist()
        return 1 - rest / total if total > 0 else 0.0

    def views(self) -> dict[str, NoiseModel]:
        """All outputs together, by "", then each output alone that is lost beside others, by its name."""
        on = np.ones((1, len(self.sources)), bool)
        lost = [name for name in self.weights if limited_db(noises(self.by_output[name], on)[0]) < LOST_DB]
        alone = {name: replace(self, weights={name: 1.0}) for name in lost if len(self.weights) > 1}
        return {"": self, **alone}

    def loudness(self) -> np.ndarray:
        """The greatest of a source's shares in any of the views, float64 [sources]."""
        loudness: np.ndarray = np.max([view.shares() for view in self.views().values()], axis=0)
        return loudness

    def reliable(self, floats: Collection[str] = ()) -> bool:
        """Whether the body's noise is 15 dB under that of int8: else adding powers may be wrong."""
        noise = self.noise(floats) - self.body_noise
        return self.body_noise == 0 or limited_db(self.body_noise) - limited_db(noise) >= BODY_APART_DB

    def with_body(self, body: Mapping[str, float]) -> NoiseModel:
        """The same with the body's noise, in parts of each output's power."""
        return replace(self, body=dict(body))


def noises(gram: np.ndarray, on: np.ndarray) -> np.ndarray:
    """1ᵀ·G·1 of sets of sources, bool [sets, sources]: float64 [sets], 0 at least."""
    held = np.flatnonzero(on.any(0))
    if 2 * len(held) < len(gram):  # those that none has add nothing
        on, gram = on[:, held], gram[np.ix_(held, held)]
    wide = on.astype(np.float64)
    noise: np.ndarray = np.maximum(np.einsum("ij,ij->i", wide @ gram, wide), 0.0)
    return noise


def _bent(noise: np.ndarray, bend: float) -> np.ndarray:
    bent: np.ndarray = noise / np.maximum(1 + bend * noise, 0.5)
    return bent


_BENDS = np.concatenate([np.linspace(-0.3, 0.0, 31), np.geomspace(1e-3, 10.0, 120)])


def bend_of(predicted: np.ndarray, measured: np.ndarray) -> float:
    """The bend that makes predictions fit best, in the mean of squared dB; 0 where there are fewer than two.

    Args:
        predicted: the noise of sets by superposition, float64 [sets].
        measured: their noise.
    """
    both = (predicted > 0) & (measured > 0)
    if both.sum() < 2:
        return 0.0
    predicted, measured = predicted[both], measured[both]
    tried = _BENDS / predicted.max()
    off = [np.square(np.log(_bent(predicted, bend)) - np.log(measured)).sum() for bend in tried]
    return float(tried[int(np.argmin(off))])
