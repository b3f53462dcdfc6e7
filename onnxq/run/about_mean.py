"""SQNR about the mean: the signal is what varies from sample to sample, a constant offset is none.

This is the one figure by which goals are set, reached and reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.run.compare import Reference, Runner, as_tensor, is_real
from onnxq.run.noise import BEST_DB, NOT_COMPARED
from onnxq.run.output_parts import OutputParts

NAME = "SQNR about the mean"
"""What it is called wherever it stands; its key in JSON is `sqnr_about_mean_db`."""

STILL = "it does not vary from sample to sample"
UNWEIGHED = "its weight is 0"

_NAMED = 3

_ALIKE = 1e-6  # of the greatest magnitude: what varies by less is one value, but for rounding


@dataclass(frozen=True, slots=True)
class OutputLeftOut(DocumentPart):
    """An output that does not count.

    Attributes:
        output: its name.
        why: why it does not.
    """

    output: str
    why: str


@dataclass(frozen=True, slots=True)
class LevelAboutMean(DocumentPart):
    """How near an output is, about its mean.

    Attributes:
        output: its name.
        sqnr_about_mean_db: its signal-to-noise ratio about the mean over samples, dB.
    """

    output: str
    sqnr_about_mean_db: float


@dataclass(frozen=True, slots=True)
class AboutMeanPart(DocumentPart):
    """How near the outputs are about their means, on the samples that verify.

    Attributes:
        sqnr_about_mean_db: of all outputs together, each scaled to unit power about its mean over samples:
            -10 log10 of the mean of their noise-to-signal ratios, dB. None where no output counts.
        worst_output: the output that is furthest off, None where none counts.
        worst_output_db: its ratio, dB.
        outputs: of each output that counts, the worst first.
        left_out: the outputs that do not count.
        samples: on how many samples.
    """

    sqnr_about_mean_db: float | None
    worst_output: str | None
    worst_output_db: float | None
    outputs: tuple[LevelAboutMean, ...]
    left_out: tuple[OutputLeftOut, ...]
    samples: int

    @classmethod
    def of(
        cls, level: float | None, levels: Mapping[str, float], left_out: Mapping[str, str], samples: int
    ) -> AboutMeanPart:
        """That of these levels, the worst first, and of what is left out, with the reason."""
        name, worst = next(iter(levels.items()), (None, None))
        outputs = tuple(LevelAboutMean(*one) for one in levels.items())
        silent = tuple(OutputLeftOut(*one) for one in left_out.items())
        return cls(level, name, worst, outputs, silent, samples)

    @property
    def levels(self) -> dict[str, float]:
        """That of each output that counts, dB, the worst first."""
        return {one.output: one.sqnr_about_mean_db for one in self.outputs}


@dataclass(slots=True)
class Signal:
    """An output of the float model over samples, in float64; what two of them saw can be joined.

    Attributes:
        count: how many samples.
        mean: the mean over samples, by element; None where there is no sample, or where shapes differ.
        power: the sum of squares about that.
        values: how many values in all.
        level: the mean of all values.
        spread: the sum of squares about that: the power of one sample, or of samples of different shapes.
        peak: the greatest magnitude.
        comparable: whether all were finite floats, of the shape that the candidates' had.
    """

    count: int = 0
    mean: np.ndarray | None = None
    power: float = 0.0
    values: int = 0
    level: float = 0.0
    spread: float = 0.0
    peak: float = 0.0
    comparable: bool = True

    @staticmethod
    def of(value: Any) -> Signal:
        """That of one sample."""
        array = as_tensor(value)
        if not is_real(array.dtype) or not np.isfinite(array).all():
            return Signal(1, comparable=False)
        exact = array.astype(np.float64)
        level = float(exact.mean()) if exact.size else 0.0
        apart = (exact - level).ravel()
        peak = float(np.abs(exact).max(initial=0.0))
        return Signal(1, exact, 0.0, exact.size, level, float(apart @ apart), peak)

    def joined(self, later: Signal) -> Signal:
        """That of the samples of both."""
        if not (self.count and later.count):
            return self if self.count else later
        if not (self.comparable and later.comparable):
            return Signal(self.count + later.count, comparable=False)
        count, values = self.count + later.count, self.values + later.values
        mean, power = None, 0.0
        if self.mean is not None and later.mean is not None and self.mean.shape == later.mean.shape:
            step = later.mean - self.mean
            mean = self.mean + step * (later.count / count)
            flat = step.ravel()
            power = self.power + later.power + float(flat @ flat) * (self.count * later.count / count)
        apart = later.level - self.level
        level, spread = self.level, self.spread + later.spread
        if values:
            level += apart * (later.values / values)
            spread += apart * apart * (self.values * later.values / values)
        return Signal(count, mean, power, values, level, spread, max(self.peak, later.peak))

    @property
    def about_mean(self) -> float:
        """The power about the mean over samples; of one, or of different shapes, about that of all values."""
        return self.spread if self.mean is None or self.count < 2 else self.power

    @property
    def why_not(self) -> str:
        """Why it does not count, "" where it does."""
        if not self.comparable or not self.values:
            return NOT_COMPARED
        return STILL if self.about_mean <= self.values * (_ALIKE * self.peak) ** 2 else ""


def not_compared(left_out: Sequence[OutputLeftOut]) -> str:
    """That no output could be compared, which ones there are, and why not, those of one reason together.

    Args:
        left_out: the outputs that do not count.
    """
    by_reason: dict[str, list[str]] = {}
    for one in left_out:
        by_reason.setdefault(one.why, []).append(repr(one.output))
    told = []
    for why, names in by_reason.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told.append(f"{', '.join(names[:_NAMED])}{more}: {why}")
    return "no output could be compared" + (f" ({'; '.join(told)})" if told else "")


def decibels(ratio: float) -> float:
    """A noise-to-signal ratio as an SQNR, dB, at most 200 either way."""
    if not ratio > 0:
        return -BEST_DB if np.isnan(ratio) else BEST_DB
    return float(np.clip(-10 * np.log10(ratio), -BEST_DB, BEST_DB))


class AboutMeanMeter:
    """Accumulates it, sample by sample, for one or several candidates."""

    def __init__(
        self,
        outputs: Sequence[str] | OutputParts,
        candidates: int = 1,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """For outputs of these names, or in these parts, each of which is like an output of its own.

        Raises:
            UserError: an output that is weighed does not exist.
        """
        self._parts = OutputParts.of(outputs)
        self._outputs, self._weights = self._parts.names, self._parts.weights(weights)
        self._signals = [Signal() for _ in self._outputs]
        self._noise = np.zeros((candidates, len(self._outputs)))
        self._samples = 0
        self._equal = True

    @property
    def equal(self) -> bool:
        """Whether all outputs of all candidates were the float model's, value by value."""
        return self._equal and self._samples > 0

    @property
    def samples(self) -> int:
        """How many samples it heard."""
        return self._samples

    def add(self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]]) -> None:
        """Adds a sample: the float outputs, and those of each candidate."""
        self._samples += 1
        heard = [self._parts.split(candidate) for candidate in candidates]
        for place, value in enumerate(self._parts.split(reference)):
            signal = Signal.of(value)
            given = [as_tensor(candidate[place]) for candidate in heard]
            self._equal = self._equal and all(np.array_equal(as_tensor(value), array) for array in given)
            if signal.comparable:
                signal.comparable = all(array.shape == as_tensor(value).shape for array in given)
            self._signals[place] = self._signals[place].joined(signal)
            if self._signals[place].comparable:
                exact = as_tensor(value).astype(np.float64)
                self._noise[:, place] += [_power(array - exact) for array in given]

    def joined(self, others: Iterable[AboutMeanMeter]) -> AboutMeanMeter:
        """One that heard what this one and the others heard, of the same outputs and candidates."""
        found = AboutMeanMeter(self._parts, len(self._noise), self._weights)
        for one in (self, *others):
            found._samples += one._samples
            found._equal &= one._equal
            found._signals = [a.joined(b) for a, b in zip(found._signals, one._signals, strict=True)]
            found._noise += one._noise
        return found

    def result(self, candidate: int = 0) -> AboutMeanPart:
        """What the samples so far say of a candidate."""
        ratios: dict[str, float] = {}
        left_out: dict[str, str] = {}
        for place, (name, signal) in enumerate(zip(self._outputs, self._signals, strict=True)):
            why = signal.why_not or ("" if self._weights[name] > 0 else UNWEIGHED)
            if why:
                left_out[name] = why
            else:
                ratios[name] = float(self._noise[candidate, place]) / signal.about_mean
        weighed = sum(self._weights[name] for name in ratios)
        total = sum(self._weights[name] * ratio for name, ratio in ratios.items())
        levels = {name: decibels(ratio) for name, ratio in ratios.items()}
        return AboutMeanPart.of(
            decibels(total / weighed) if ratios else None,
            dict(sorted(levels.items(), key=lambda entry: entry[1])),
            left_out,
            self._samples,
        )


def about_mean(
    reference: Reference,
    candidate: Runner,
    samples: Iterable[Mapping[str, np.ndarray]],
    weights: Mapping[str, float] | None = None,
    parts: OutputParts | None = None,
) -> AboutMeanPart:
    """Compares two models on samples; `parts`: in which the outputs are judged, each as a whole by default.

    Raises:
        RunError: one of them does not run.
        UserError: an output that is weighed does not exist.
    """
    meter = AboutMeanMeter(parts or reference.outputs, 1, weights)
    for feeds in samples:
        wanted = reference.run(feeds)
        taken = {name: array for name, array in feeds.items() if name in candidate.inputs}
        meter.add(wanted, [candidate.run(taken, reference.outputs)])
    return meter.result()


def standard_error_db(groups: Sequence[AboutMeanMeter]) -> float:
    """How far off a SQNR about the mean is, dB: by what it varies where one group of samples is left out.

    Args:
        groups: what heard as many samples each, of one candidate.

    Returns:
        The standard error of the SQNR over all of them (a jackknife); 0 where it cannot be told.
    """
    some = [one for one in groups if one.samples]
    if len(some) < 3:
        return 0.0
    levels = []
    for place in range(len(some)):
        first, *rest = some[:place] + some[place + 1 :]
        level = first.joined(rest).result().sqnr_about_mean_db
        if level is None:
            return 0.0
        levels.append(level)
    return float(np.sqrt((len(some) - 1) * np.var(levels)))


def _power(values: np.ndarray) -> float:
    flat = values.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        power = float(flat @ flat)
    return power if np.isfinite(power) else np.inf
