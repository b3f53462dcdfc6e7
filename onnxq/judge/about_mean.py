"""SQNR about the mean: the signal is what varies from sample to sample, a constant offset is none.

This is the one figure by which goals are set, reached and reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.judge.answers import AnswerCounter, Answers, over_samples
from onnxq.judge.comparable import OutputLeftOut, as_tensor, without_masks
from onnxq.judge.intervals import GROUPS, Interval
from onnxq.judge.loss import Loss
from onnxq.judge.output_parts import OutputParts
from onnxq.judge.sqnr import Signal, limited_db, power

Feeds = Mapping[str, Any]

NAME = "SQNR about the mean"
"""What it is called wherever it stands; its key in JSON is `sqnr_about_mean_db`."""

_REMEMBERED = 1 << 22
"""So many values of outputs groups of samples remember, float64, if that leaves them eight."""

_FEWEST = 8


@dataclass(frozen=True, slots=True)
class LevelAboutMean(DocumentPart):
    """How near an output is, about its mean.

    Attributes:
        output: its name.
        sqnr_about_mean_db: its signal-to-noise ratio about the mean over samples, dB.
        interval: where that lies with other samples, dB; None where too few tell.
    """

    output: str
    sqnr_about_mean_db: float
    interval: Interval | None = None


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
        interval: where `sqnr_about_mean_db` lies with other samples, dB; None where too few tell.
    """

    sqnr_about_mean_db: float | None
    worst_output: str | None
    worst_output_db: float | None
    outputs: tuple[LevelAboutMean, ...]
    left_out: tuple[OutputLeftOut, ...]
    samples: int
    interval: Interval | None = None

    @classmethod
    def of(
        cls,
        level: float | None,
        levels: Mapping[str, float],
        left_out: Iterable[OutputLeftOut],
        samples: int,
    ) -> AboutMeanPart:
        """That of these levels, the worst first, and of what is left out."""
        name, worst = next(iter(levels.items()), (None, None))
        outputs = tuple(LevelAboutMean(*one) for one in levels.items())
        return cls(level, name, worst, outputs, tuple(left_out), samples)

    @property
    def levels(self) -> dict[str, float]:
        """That of each output that counts, dB, the worst first."""
        return {one.output: one.sqnr_about_mean_db for one in self.outputs}

    @property
    def worst_interval(self) -> Interval | None:
        """Where the level of the worst output lies, dB."""
        return self.outputs[0].interval if self.outputs else None

    def within(self, without: Sequence[AboutMeanPart]) -> AboutMeanPart:
        """The same with intervals; `without`: what the samples say without each group of them."""
        of_all = [one.sqnr_about_mean_db for one in without]
        each = [one.levels for one in without]
        outputs = tuple(
            replace(one, interval=_interval(one.sqnr_about_mean_db, [some.get(one.output) for some in each]))
            for one in self.outputs
        )
        return replace(self, outputs=outputs, interval=_interval(self.sqnr_about_mean_db, of_all))


def _interval(level: float | None, without: Sequence[float | None]) -> Interval | None:
    known = [one for one in without if one is not None]
    return Interval.of_level(level, known if len(known) == len(without) else ())


class AboutMeanMeter:
    """Accumulates it, sample by sample, for one or several candidates."""

    def __init__(
        self,
        outputs: Sequence[str] | OutputParts,
        candidates: int = 1,
        weights: Mapping[str, float] | None = None,
        counter: AnswerCounter | None = None,
    ) -> None:
        """For outputs of these names, or in these parts, each of which is like an output of its own.

        `counter`: counts the answers that are kept, too; None: nobody asks.

        Raises:
            UserError: an output that is weighed does not exist.
        """
        self._parts = OutputParts.of(outputs)
        self._outputs, self._weights = self._parts.names, self._parts.weights(weights)
        self._signals = [Signal() for _ in self._outputs]
        self._noise = np.zeros((candidates, len(self._outputs)))
        self._samples = 0
        self._equal = True
        self._counter, self._kept = counter, list[Sequence[Answers]]()  # of each sample, by candidate

    @property
    def equal(self) -> bool:
        """Whether all outputs of all candidates were the float model's, value by value."""
        return self._equal and self._samples > 0

    @property
    def samples(self) -> int:
        """How many samples it heard."""
        return self._samples

    @property
    def answers(self) -> Sequence[Answers]:
        """How many answers each candidate keeps; none where that is not known."""
        return over_samples(self._kept)

    def add(
        self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]], feeds: Feeds | None = None
    ) -> None:
        """Adds a sample: the float outputs, those of each candidate, what is fed: answers may hang on it."""
        self._samples += 1
        if self._counter is not None:
            self._kept.append(self._counter(reference, candidates, feeds or {}))
        heard = [self._parts.split(candidate) for candidate in candidates]
        for place, value in enumerate(self._parts.split(reference)):
            exact, given = as_tensor(value), [as_tensor(candidate[place]) for candidate in heard]
            self._equal = self._equal and all(np.array_equal(exact, array) for array in given)
            exact, given = without_masks(exact, given)
            self._signals[place] = self._signals[place].joined(Signal.of(exact, given))
            if self._signals[place].comparable:
                self._noise[:, place] += [power(array - exact.astype(np.float64)) for array in given]

    def of(self, candidates: Sequence[int]) -> AboutMeanMeter:
        """What it heard of some of the candidates."""
        found = self.joined(())
        found._noise = found._noise[list(candidates)]
        found._kept = [[each[place] for place in candidates] if each else each for each in found._kept]
        return found

    def joined(self, others: Iterable[AboutMeanMeter]) -> AboutMeanMeter:
        """One that heard what this one and the others heard, of the same outputs and candidates."""
        found = AboutMeanMeter(self._parts, len(self._noise), self._weights)
        for one in (self, *others):
            found._samples += one._samples
            found._equal &= one._equal
            found._signals = [a.joined(b) for a, b in zip(found._signals, one._signals, strict=True)]
            found._noise += one._noise
            found._kept += one._kept
        return found

    def results(self) -> list[AboutMeanPart]:
        """What the samples so far say of each candidate."""
        return [self.result(place) for place in range(len(self._noise))]

    def result(self, candidate: int = 0) -> AboutMeanPart:
        """What the samples so far say of a candidate."""
        ratios, left_out = self._ratios(candidate)
        weighed = sum(self._weights[name] for name in ratios)
        total = sum(self._weights[name] * ratio for name, ratio in ratios.items())
        levels = {name: limited_db(ratio) for name, ratio in ratios.items()}
        return AboutMeanPart.of(
            limited_db(total / weighed) if ratios else None,
            dict(sorted(levels.items(), key=lambda entry: entry[1])),
            left_out,
            self._samples,
        )

    def losses(self) -> list[Loss | None]:
        """What each candidate loses of outputs and answers; None where no output counts."""
        answers = self.answers or (None,) * len(self._noise)
        each = [self._ratios(place)[0] for place in range(len(self._noise))]
        return [
            Loss.of(ratios, self._weights, None if kept is None else kept.moved_share) if ratios else None
            for ratios, kept in zip(each, answers, strict=True)
        ]

    def _ratios(self, candidate: int) -> tuple[dict[str, float], list[OutputLeftOut]]:
        """The noise-to-signal ratio of each part that counts, and those that do not."""
        ratios: dict[str, float] = {}
        left_out: list[OutputLeftOut] = []
        for place, (name, signal) in enumerate(zip(self._outputs, self._signals, strict=True)):
            why = signal.why_not(self._weights[name])
            if why:
                left_out.append(OutputLeftOut(name, why))
            else:
                ratios[name] = float(self._noise[candidate, place]) / signal.about_mean
        return ratios, left_out


class AboutMeanGroups:
    """Accumulates it, the samples dealt to groups: they tell where it lies with others.

    Attributes:
        meters: those of all groups, one before the first sample.
    """

    def __init__(
        self,
        outputs: Sequence[str] | OutputParts,
        weights: Mapping[str, float] | None = None,
        groups: int = GROUPS,
        candidates: int = 1,
        counter: AnswerCounter | None = None,
    ) -> None:
        """As a meter; `groups`: so many, 8 where outputs are large.

        Raises:
            UserError: an output that is weighed does not exist.
        """
        self._of, self._most, self._samples = (outputs, candidates, weights, counter), groups, 0
        self.meters = [AboutMeanMeter(*self._of)]
        self._found: AboutMeanPart | None = None

    def add(
        self, reference: Sequence[Any], candidates: Sequence[Sequence[Any]], feeds: Feeds | None = None
    ) -> None:
        """Adds a sample; see `AboutMeanMeter.add`."""
        if not self._samples:  # each group remembers means as large as the outputs
            most = _REMEMBERED // max(1, sum(as_tensor(value).size for value in reference))
            more = min(self._most, max(_FEWEST, most)) - 1
            self.meters += [AboutMeanMeter(*self._of) for _ in range(more)]
        self.meters[self._samples % len(self.meters)].add(reference, candidates, feeds)
        self._samples, self._found = self._samples + 1, None

    @property
    def groups(self) -> list[AboutMeanMeter]:
        """Those that heard a sample, of one at least."""
        return [one for one in self.meters if one.samples] or self.meters[:1]

    @property
    def samples(self) -> int:
        """How many samples they heard."""
        return self._samples

    @property
    def equal(self) -> bool:
        """Whether all outputs were the float model's, value by value."""
        return self._samples > 0 and all(one.equal for one in self.groups)

    def result(self) -> AboutMeanPart:
        """What the samples so far say of one candidate, the first."""
        if self._found is None:
            first, *more = self.groups
            of_all = first.joined(more).result()
            without = without_each([first, *more]) if more else ()
            self._found = of_all.within([one.result() for one in without])
        return self._found


def without_each(groups: Sequence[AboutMeanMeter]) -> Iterator[AboutMeanMeter]:
    """Two groups of samples and more, joined without each of them."""
    behind = [groups[-1]]
    for one in reversed(groups[1:-1]):
        behind.append(one.joined([behind[-1]]))
    before = groups[0]
    yield behind.pop()
    for one in groups[1:-1]:
        yield before.joined([behind.pop()])
        before = before.joined([one])
    yield before
