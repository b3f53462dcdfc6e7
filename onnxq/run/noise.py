"""Many candidates for the scales of one quantized model: the noise that each adds to the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from onnxq.judge.answers import AnswerCounter, Answers, AnswersChange, over_samples
from onnxq.judge.comparable import (
    CONSTANT,
    NOT_COMPARED,
    UNCHANGED,
    OutputLeftOut,
    as_tensor,
    is_comparable,
)
from onnxq.judge.output_parts import OutputParts
from onnxq.judge.sqnr import ALIKE, BEST_DB, LOUDEST, ROUNDING, limited_db, power, power_db
from onnxq.run.compare import Reference

_FAINT = 1e-6  # noise-to-signal ratio, -60 dB: less than int8 leaves


@dataclass(frozen=True, slots=True)
class Outputs:
    """What is known of outputs over the samples so far.

    Attributes:
        names: theirs.
        low: the least value of each float output, float64 [outputs]; inf where none was compared.
        high: the greatest; -inf where none was compared.
        changed: whether any candidate's differed by more than rounding, bool [outputs].
    """

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    changed: np.ndarray

    def joined(self, later: Outputs) -> Outputs:
        """What is known after the samples of both."""
        return Outputs(
            self.names,
            np.minimum(self.low, later.low),
            np.maximum(self.high, later.high),
            self.changed | later.changed,
        )


@dataclass(frozen=True, slots=True)
class Noise:
    """Signal and noise of outputs, by sample.

    What counts is the noise-to-signal ratio (NSR) of each float output that quantization changes and
    that varies: an output that no candidate changes tells nothing of them, and where all values are one,
    any noise is beyond comparison.

    Several outputs are one figure by the mean of what their noise costs, `_cost`: the logarithm of the
    NSR, which bends where an output is as good as unharmed (below -60 dB) or lost (above 0 dB). So an
    output with much noise does not hide the others, as it would in a mean of the ratios, and neither does
    one with next to none, as it would in a mean of decibels. Of one output the figure is its SQNR.

    Attributes:
        signal: sum of the squares of the float output, float64 [samples, outputs].
        noise: sum of the squared differences, float64 [candidates, samples, outputs]; infinite where a
            candidate's output is not finite. Both are 0 where an output is no float, or differs in
            shape for any candidate, and then it does not count.
        outputs: the outputs.
        answers: how many of the float model's answers each candidate keeps; none where that is not known.
    """

    signal: np.ndarray
    noise: np.ndarray
    outputs: Outputs
    answers: tuple[Answers, ...] = ()

    @property
    def counts(self) -> np.ndarray:
        """Which outputs count, bool [outputs]."""
        counts: np.ndarray = (self.signal.sum(0) > 0) & self.outputs.changed & self._varies
        return counts

    @property
    def _varies(self) -> np.ndarray:
        if len(self.signal) < 2:  # one value of one sample may be any
            return np.ones(len(self.outputs.names), bool)
        low, high = self.outputs.low, self.outputs.high
        varies: np.ndarray = high - low > ALIKE * np.maximum(np.abs(low), np.abs(high))
        return varies

    def left_out(self) -> tuple[OutputLeftOut, ...]:
        """The outputs that do not count."""
        whys = np.where(self.outputs.changed, CONSTANT, UNCHANGED)
        whys = np.where(self.outputs.low > self.outputs.high, NOT_COMPARED, whys)
        silent = np.flatnonzero(~self.counts).tolist()
        return tuple(OutputLeftOut(self.outputs.names[i], str(whys[i])) for i in silent)

    def levels(self, candidate: int) -> dict[str, float]:
        """The SQNR of each output that counts, dB, with a candidate; the worst first."""
        names = [name for name, counts in zip(self.outputs.names, self.counts, strict=True) if counts]
        levels = limited_db(self._ratios(self.noise)[candidate]).tolist()
        return dict(sorted(zip(names, levels, strict=True), key=lambda entry: entry[1]))

    def sqnr_db(self) -> np.ndarray:
        """Each candidate's SQNR, float64 [candidates]: over the outputs that count, NaN without any."""
        if not self.counts.any():
            return np.full(len(self.noise), np.nan)
        ratios = self._ratios(self.noise)
        if ratios.shape[1] == 1:
            return limited_db(ratios[:, 0])
        cost = 10 ** (_cost(np.minimum(ratios, LOUDEST)).mean(1) / 10)
        found = limited_db((cost - _FAINT) / (1 - cost))
        return np.where(np.isinf(ratios).any(1), -BEST_DB, found)

    def advantages(self, base: np.ndarray) -> np.ndarray:
        """How much less noise each candidate adds than another one, by sample.

        Args:
            base: the noise of the other one, [samples, outputs].

        Returns:
            float64 [candidates, samples]: what the noise that is saved in each sample is worth, dB. The
            mean over the samples is by how much less the candidate costs. Of one output it is the noise
            that is saved, but for a factor, so that its mean in standard errors depends on nothing else.
        """
        counts = self.counts
        if not counts.any():
            return np.zeros(self.noise.shape[:2])
        signal = self.signal.sum(0)[counts]
        ours, theirs = (np.minimum(n[..., counts] / signal, LOUDEST) for n in (self.noise, base))
        worth = _slope(theirs.sum(0), ours.sum(1))
        found: np.ndarray = ((theirs - ours) * worth[:, None]).mean(2) * len(theirs)
        return found

    def joined(self, later: Noise) -> Noise:
        """The noise over the samples of both."""
        return Noise(
            np.concatenate([self.signal, later.signal]),
            np.concatenate([self.noise, later.noise], axis=1),
            self.outputs.joined(later.outputs),
            over_samples(one.answers for one in (self, later) if len(one.signal)),
        )

    def of(self, candidates: Sequence[int]) -> Noise:
        """That of some of the candidates; which outputs count stays."""
        answers = tuple(self.answers[place] for place in candidates) if self.answers else ()
        return replace(self, noise=self.noise[list(candidates)], answers=answers)

    def change(self, candidate: int, base: int = 0) -> AnswersChange | None:
        """What a candidate keeps of the answers beyond another one; None where that is not known."""
        return AnswersChange.of(self.answers[base], self.answers[candidate]) if self.answers else None

    def _ratios(self, noise: np.ndarray) -> np.ndarray:
        """The NSR over all samples, [candidates, outputs that count]."""
        counts = self.counts
        ratios: np.ndarray = noise[..., counts].sum(-2) / self.signal.sum(0)[counts]
        return ratios


def _cost(ratios: np.ndarray) -> np.ndarray:
    """What an NSR costs, -60 to 0 dB: about its logarithm between the two."""
    return power_db((ratios + _FAINT) / (ratios + 1))


def _slope(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The difference of the costs of two NSRs in units of that of the NSRs, dB; exact where they are near."""
    apart = other - one
    near = np.abs(apart) <= 1e-9 * one
    step = np.where(near, one + 1, apart)
    chord = (np.log1p(step / (one + _FAINT)) - np.log1p(step / (one + 1))) / step
    tangent = (1 - _FAINT) / ((one + _FAINT) * (one + 1))
    slope: np.ndarray = 10 / np.log(10) * np.where(near, tangent, chord)
    return slope


_Setting = TypeVar("_Setting", contravariant=True)


class Candidates(Protocol[_Setting]):
    """Many models of the same outputs, one for each setting: of scales, say."""

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the inputs."""
        ...

    def run_each(
        self,
        feeds: Mapping[str, np.ndarray],
        settings: Sequence[_Setting],
        outputs: Sequence[str] | None = None,
    ) -> list[list[Any]]:
        """The outputs wanted, or all, with each setting."""
        ...


def measure(
    reference: Reference,
    candidates: Candidates[_Setting],
    samples: Iterable[Mapping[str, np.ndarray]],
    settings: Sequence[_Setting],
    parts: OutputParts | None = None,
    counter: AnswerCounter | None = None,
) -> Noise:
    """Runs a float model once on each sample, and a quantized one with each setting.

    Args:
        reference: the float model, or what it gave for the same samples.
        candidates: the quantized model.
        samples: feeds of the float model.
        settings: what makes a candidate of it.
        parts: in which the outputs are judged; None: each as a whole.
        counter: counts the answers that are kept, too; None: nobody asks.

    Raises:
        RunError: a model does not run.
    """
    heard = OutputParts.of(parts or reference.outputs)
    rows, kept = [], list[Sequence[Answers]]()
    for feeds in samples:
        exact = reference.run(feeds)
        wanted = [as_tensor(value) for value in heard.split(exact)]
        taken = {name: array for name, array in feeds.items() if name in candidates.inputs}
        ran = candidates.run_each(taken, settings, reference.outputs)
        if counter is not None:
            kept.append(counter(exact, ran, feeds))
        given = [heard.split(one) for one in ran]
        rows.append([_powers(ours, [as_tensor(g[i]) for g in given]) for i, ours in enumerate(wanted)])
    table = np.array(rows, np.float64).reshape(len(rows), len(heard.parts), 3 + len(settings))
    signal, low, high = np.moveaxis(table[..., :3], 2, 0)
    noise = np.moveaxis(table[..., 3:], 2, 0)
    changed = (noise.sum(1) > ROUNDING * signal.sum(0)).any(0)
    outputs = Outputs(heard.names, low.min(0, initial=np.inf), high.max(0, initial=-np.inf), changed)
    return Noise(signal, noise, outputs, over_samples(kept))


def _powers(reference: np.ndarray, candidates: Sequence[np.ndarray]) -> list[float]:
    """Of an output in a sample: its power, its ends, and the power of each candidate's noise.

    Zeros and no ends where it cannot be compared.
    """
    if not is_comparable(reference, candidates):
        return [0.0, np.inf, -np.inf, *(0.0 for _ in candidates)]
    exact = reference.astype(np.float64)
    ends = float(exact.min(initial=np.inf)), float(exact.max(initial=-np.inf))
    return [power(exact), *ends, *(power(exact - candidate) for candidate in candidates)]
