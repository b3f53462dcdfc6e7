"""Many candidates for the scales of one quantized model: the noise that each adds to the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.run.compare import Reference, as_tensor, is_real
from onnxq.run.ort import Session

BEST_DB = 200.0
"""What counts as no noise at all, dB."""

_LOUDEST = 1e6  # times the signal: noise that is infinite counts as so much


@dataclass(frozen=True, slots=True)
class Noise:
    """Signal and noise of outputs, by sample.

    Attributes:
        signal: sum of the squares of the float output, float64 [samples, outputs].
        noise: sum of the squared differences, float64 [candidates, samples, outputs]; infinite where a
            candidate's output is not finite. Both are 0 where an output is no float, or differs in
            shape for any candidate, and then it does not count.
    """

    signal: np.ndarray
    noise: np.ndarray

    def sqnr_db(self) -> np.ndarray:
        """Each candidate's SQNR, float64 [candidates]: the mean over outputs that count, NaN without any."""
        signal = self.signal.sum(0)
        counts = signal > 0
        if not counts.any():
            return np.full(len(self.noise), np.nan)
        decibels: np.ndarray = _decibels(signal[counts], self.noise.sum(1)[:, counts]).mean(1)
        return decibels

    def advantages(self, base: np.ndarray) -> np.ndarray:
        """How much less noise each candidate adds than another one, by sample.

        Args:
            base: the noise of the other one, [samples, outputs].

        Returns:
            float64 [candidates, samples], in units of the other one's mean noise, the mean over the
            outputs that count: the mean over the samples is the fraction of noise that is saved.
        """
        counts = self.signal.sum(0) > 0
        if not counts.any():
            return np.zeros(self.noise.shape[:2])
        signal = self.signal.sum(0)[counts]
        limit = _LOUDEST * signal
        ours, theirs = (np.minimum(noise[..., counts], limit) for noise in (self.noise, base))
        unit = np.maximum(theirs.sum(0), signal * 10 ** (-BEST_DB / 10)) / len(theirs)
        found: np.ndarray = ((theirs - ours) / unit).mean(2)
        return found

    def joined(self, later: Noise) -> Noise:
        """The noise over the samples of both."""
        return Noise(
            np.concatenate([self.signal, later.signal]), np.concatenate([self.noise, later.noise], axis=1)
        )

    def of(self, candidates: Sequence[int]) -> Noise:
        """That of some of the candidates."""
        return Noise(self.signal, self.noise[list(candidates)])


def _decibels(signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 10.0 * np.log10(signal / noise)
    limited: np.ndarray = np.clip(
        np.nan_to_num(found, nan=0.0, posinf=BEST_DB, neginf=-BEST_DB), -BEST_DB, BEST_DB
    )
    return limited


def measure(
    reference: Reference,
    candidate: Session,
    samples: Iterable[Mapping[str, np.ndarray]],
    settings: Sequence[Mapping[str, np.ndarray]],
) -> Noise:
    """Runs a float model once on each sample, and a quantized one with each setting of its scales.

    Args:
        reference: the float model, or what it gave for the same samples.
        candidate: the quantized model; its scales are inputs that may be left out.
        samples: feeds of the float model.
        settings: the scales, by input, for each candidate.

    Raises:
        RunError: a model does not run.
    """
    signals, noises = [], []
    for feeds in samples:
        wanted = [as_tensor(value) for value in reference.run(feeds)]
        taken = {name: array for name, array in feeds.items() if name in candidate.inputs}
        given = [candidate.run({**taken, **setting}, reference.outputs) for setting in settings]
        columns = [_column(ours, [as_tensor(g[i]) for g in given]) for i, ours in enumerate(wanted)]
        signals.append([signal for signal, _ in columns])
        noises.append([noise for _, noise in columns])
    shape = (len(signals), len(reference.outputs))
    noise = np.array(noises, np.float64).reshape(*shape, len(settings))
    return Noise(np.array(signals, np.float64).reshape(shape), noise.transpose(2, 0, 1))


def _column(reference: np.ndarray, candidates: Sequence[np.ndarray]) -> tuple[float, list[float]]:
    """The power of an output, and of the noise in each candidate's; zeros where it cannot be compared."""
    comparable = (
        is_real(reference.dtype)
        and bool(np.isfinite(reference).all())
        and all(candidate.shape == reference.shape for candidate in candidates)
    )
    if not comparable:
        return 0.0, [0.0] * len(candidates)
    exact = reference.astype(np.float64)
    return _power(exact), [_power(exact - candidate) for candidate in candidates]


def _power(values: np.ndarray) -> float:
    flat = values.ravel()
    power = float(flat @ flat)
    return power if np.isfinite(power) else np.inf
