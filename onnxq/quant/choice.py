"""Choosing scales by what they do to the model's outputs, on samples that calibration did not see.

No calibration method is best for every model. Each candidate is tried: a method for the whole
model first, then other thresholds for the tensors that quantization hurts most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted, reason
from onnxq.data.split import BLOCKS
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import Gain, Levels
from onnxq.judge.answers import AnswersChange
from onnxq.judge.comparable import OutputLeftOut, not_compared
from onnxq.judge.policies import HOPELESS, INSTEAD_OF_PRIOR, PROMISING, THRESHOLD, TOGETHER
from onnxq.judge.sqnr import ROUNDING
from onnxq.quant.mse import sqnr_at
from onnxq.quant.plan import ScaleGroup
from onnxq.quant.ranges import Range, Ranges, Scales, scales_of
from onnxq.quant.thresholds import Method, automatic, searched
from onnxq.run.ort import Feeds

Measure = Callable[[Iterable[Feeds], Sequence[Mapping[int, np.float32]]], Sequence[AboutMeanMeter]]
"""Runs the model on samples with each candidate for its scales; what groups of the samples say of all."""

SEARCH = searched()
"""What `search` tries, of all methods whose parameter it finds."""

_CLOSE = 0.1  # dB: methods that differ by less are equally good
_SAME = 0.01  # thresholds that differ by less are one
_WORST = 0.1  # of the tensors are tried with other thresholds
_VARIANTS = 16
_REFINED_WITH = 32  # samples at least: fewer tell too little of single tensors
_TELLING = 50  # answers
_CLEAR = 2.0  # standard errors: of a method that is surely better or worse than the prior


@dataclass(frozen=True, slots=True)
class Trial(DocumentPart):
    """A method that was tried for the whole model.

    Attributes:
        method: in words.
        sqnr_db: of the outputs, about the mean.
        samples: how many samples it was tried on.
        answers: what it is shown to do to the float model's answers, beside the method that is taken in
            doubt: `loses 9 of 412 detections`; "" where nothing is shown.
    """

    method: str
    sqnr_db: float
    samples: int
    answers: str = ""


@dataclass(frozen=True, slots=True)
class Refinement(DocumentPart):
    """A group of tensors that got another threshold than the chosen method's.

    Attributes:
        tensors: its tensors.
        before: the threshold of the chosen method.
        after: the one that it got.
        method: which method gives it.
        gain_db: how much better the outputs are with it alone.
    """

    tensors: tuple[str, ...]
    before: float
    after: float
    method: str
    gain_db: float


@dataclass(slots=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        method: the method for the whole model.
        ranges: of each measured tensor.
        trials: the methods that were tried, best first.
        refined: the groups with another threshold.
        samples: how many samples chose.
        sqnr_db: of the outputs, about the mean, with all that was chosen, on these samples; None if nothing
            could be compared.
        outputs: likewise of each output that chose, dB, the worst first.
        left_out: the outputs that did not choose.
        why: where it was not chosen by its outputs.
        runs: how many runs of the model that took.
    """

    method: Method
    ranges: dict[str, Range]
    trials: list[Trial] = field(default_factory=list)
    refined: list[Refinement] = field(default_factory=list)
    samples: int = 0
    sqnr_db: float | None = None
    outputs: dict[str, float] = field(default_factory=dict)
    left_out: tuple[OutputLeftOut, ...] = ()
    why: str = ""
    runs: float = 0.0


def choose(
    ranges: Ranges,
    methods: Sequence[Method],
    samples: Callable[[], Iterable[Feeds]],
    measure: Measure,
    *,
    prior: Method,
    refine: bool = True,
) -> Choice:
    """The method with whose scales the least is lost (`judge.loss`), the prior in doubt.

    Noise is rare and large where values are clipped, so that the least noise over some samples may be
    chance: a method is preferred to the prior if it is better by half a standard error over the
    samples. Those that are behind by 1 dB, and by two standard errors, after 16 samples are tried no
    further. Where 50 answers of the model's task make the order sure by then, they decide; after 64 samples
    those do, or all that there are where the order is not sure. A method that is shown to lose answers is
    none of them. Where halves of the samples were taken apart, each is judged by the ranges of the other.

    Then other methods' thresholds are tried, one at a time, for the tenth of the tensors with the
    least SQNR of their own; those that surely improve the outputs are taken, if together they do, too.

    Args:
        ranges: of the tensors.
        methods: the candidates.
        samples: gives the samples, as often as it is called, in blocks of `BLOCKS` that are each spread
            over all of them.
        measure: runs the model.
        prior: the method that is taken in doubt, or where no output can be compared.
        refine: whether single tensors are tried.
    """
    candidates = _different({method: ranges.all(method) for method in (prior, *methods)})
    race = _Race([_scales(ranges, method) for method in candidates], measure)
    race.run(samples())
    if race.is_void:
        left_out = race.of(0).of_all.left_out
        return Choice(prior, ranges.all(prior), left_out=left_out, why=not_compared(left_out))
    if race.is_unchanged:
        return Choice(prior, ranges.all(prior), why=noted("unchanged-outputs"))
    best = race.best()
    method = list(candidates)[best]
    trials = [Trial(str(list(candidates)[i]), *race.results[i], race.said(i)) for i in race.order(best)]
    (level, count), of_all = race.results[best], race.of(best).of_all
    choice = Choice(
        method, dict(candidates[method]), trials, samples=count, sqnr_db=level,
        outputs=of_all.levels, left_out=of_all.left_out,
    )  # fmt: skip
    if refine and choice.samples >= _REFINED_WITH:
        _Refiner(ranges, methods, samples, measure, choice).run()
    return choice


def refined_ranges(
    ranges: Ranges,
    current: Mapping[str, Range],
    samples: Callable[[], Iterable[Feeds]],
    measure: Measure,
    count: int,
) -> dict[str, Range]:
    """Ranges with other thresholds for single tensors where these surely improve the outputs; see `choose`.

    Args:
        ranges: of the tensors; those that are not free stay.
        current: the ranges as they are.
        samples: gives the samples, as often as it is called.
        measure: runs the model.
        count: how many samples there are; fewer than 32 tell too little.
    """
    choice = Choice(ranges.default, dict(current), samples=count)
    if count >= _REFINED_WITH:
        _Refiner(ranges, automatic(ranges.plan.formats, ranges.samples), samples, measure, choice).run()
    return choice.ranges


def _scales(ranges: Ranges, method: Method) -> Scales:
    """Those of a method, as the halves of the samples judge each other's where they were taken apart."""
    found = Scales(scales_of(ranges.plan, ranges.all(method)))
    found.without = tuple(scales_of(ranges.plan, half.all(method)) for half in reversed(ranges.halves))
    return found


def _different(found: Mapping[Method, dict[str, Range]]) -> dict[Method, dict[str, Range]]:
    """Methods without those that give nearly the same scales as one before."""
    kept: dict[Method, dict[str, Range]] = {}
    for method, new in found.items():
        if not any(all(_same(old[n].amax, new[n].amax) for n in new) for old in kept.values()):
            kept[method] = new
    return kept


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME * max(one, other)


class _Race:
    """Candidates on ever more samples; the first one is the prior, which stays.

    Attributes:
        results: SQNR about the mean and number of samples of each candidate.
    """

    def __init__(self, scales: Sequence[Mapping[int, np.float32]], measure: Measure) -> None:
        self._scales, self._measure = scales, measure
        self._alive = list(range(len(scales)))
        self._groups: list[AboutMeanMeter] = []
        self._levels: dict[int, Levels] = {}  # of those that stayed
        self._said: dict[int, str] = {}  # of those that did not
        self.results: dict[int, tuple[float, int]] = {}

    def run(self, samples: Iterable[Feeds]) -> None:
        """Runs the candidates until it is clear which is best, or to the last sample."""
        rest = iter(samples)
        first, enough = BLOCKS
        self._more(itertools.islice(rest, first))
        if self.is_void:
            return
        self._leave_out()
        if self._answers_tell() and self._is_clear():
            return
        self._more(itertools.islice(rest, enough - first))
        if not (self.is_void or self._is_clear()):
            self._more(rest)

    def _more(self, samples: Iterable[Feeds]) -> None:
        new = self._measure(samples, [self._scales[i] for i in self._alive])
        self._groups = _joined(self._groups, new)
        self._tell()

    def _tell(self) -> None:
        """What the groups say of those that stayed."""
        each = Levels.of_each(self._groups)
        self._levels = dict(zip(self._alive, each, strict=True))
        told = {i: (one.sqnr_db, one.of_all.samples) for i, one in self._levels.items()}
        self.results.update({i: (db, count) for i, (db, count) in told.items() if db is not None})

    @property
    def is_void(self) -> bool:
        """Whether no output could be compared."""
        return any(one.loss is None for one in self._levels.values())

    @property
    def is_unchanged(self) -> bool:
        """Whether no candidate changes any output that counts by more than rounding."""
        return all(one.loss is not None and one.loss.all <= ROUNDING for one in self._levels.values())

    def of(self, candidate: int) -> Levels:
        """How near the outputs are with a candidate that stayed."""
        return self._levels[candidate]

    def best(self) -> int:
        """The best of those that are better than the prior beyond doubt; else the prior."""
        if not self.of(0).without:  # nothing tells doubt
            return 0
        better = [i for i, gain in self._gains(0).items() if not INSTEAD_OF_PRIOR.refusal(gain)]
        return min(better, key=self._order, default=0)

    def _order(self, candidate: int) -> tuple[float, float]:
        loss = self.of(candidate).loss
        assert loss is not None
        return loss.order

    def order(self, best: int) -> list[int]:
        """All candidates: the chosen one, those that stayed, the others; each with the best first."""
        return sorted(self.results, key=lambda i: (i != best, i not in self._alive, -self.results[i][0]))

    def _gains(self, other: int) -> dict[int, Gain]:
        """By how much each candidate that stayed is better than another one; nothing of itself."""
        return {i: Gain.of(self.of(other), self.of(i)) for i in self._alive if i != other}

    def said(self, candidate: int) -> str:
        """What a candidate is shown to do to the answers, beside the prior; "": nothing."""
        if candidate not in self._alive:
            return self._said[candidate]
        return _of_answers(self._gains(0)[candidate].answers) if candidate else ""

    def _leave_out(self) -> None:
        """Leaves out what is surely hopeless beside the best of those that lose no answers."""
        answers = {i: gain.answers for i, gain in self._gains(0).items()}
        self._said = {i: _of_answers(change) for i, change in answers.items()}
        keeping = [i for i, change in answers.items() if change is None or change.shown >= 0]
        top = min([0, *keeping], key=self._order)
        lost = {i: Gain.of(self.of(i), self.of(top)) for i in self._alive if i != top}
        kept = [n for n, i in enumerate(self._alive) if i in (0, top) or HOPELESS.refusal(lost[i])]
        self._groups = [one.of(kept) for one in self._groups]
        self._alive = [self._alive[n] for n in kept]
        self._levels = {i: self._levels[i] for i in self._alive}

    def _answers_tell(self) -> bool:
        """Whether there are answers, and not so few that those of other samples would say otherwise."""
        answers = self.of(0).answers
        return answers is not None and sum(answers.whole) >= _TELLING

    def _is_clear(self) -> bool:
        """Whether each candidate is surely better or worse than the prior, or as good."""
        gains = self._gains(0).values()
        return all(abs(gain.lead) > _CLEAR or abs(gain.db) < _CLOSE for gain in gains)


def _of_answers(change: AnswersChange | None) -> str:
    """What is shown to become of answers; "": nothing."""
    return change.said if change is not None and change.shown else ""


def _joined(groups: Sequence[AboutMeanMeter], later: Sequence[AboutMeanMeter]) -> list[AboutMeanMeter]:
    """Groups of samples, of which each hears what some later samples say, too."""
    if not groups or not any(one.samples for one in later):
        return list(groups or later)
    both = itertools.zip_longest(groups, later)
    return [one.joined([other] if other else []) if one else other for one, other in both]


@dataclass(frozen=True, slots=True)
class _Variant:
    """Another threshold for a group."""

    group: int
    tensors: tuple[str, ...]
    before: float
    after: float
    method: Method

    def apply(self, ranges: dict[str, Range]) -> dict[str, Range]:
        new = {name: Range(self.after, reason("chosen", method=self.method)) for name in self.tensors}
        return {**ranges, **new}


class _Refiner:
    """Tries other thresholds for the tensors that quantization hurts most."""

    def __init__(
        self,
        ranges: Ranges,
        methods: Sequence[Method],
        samples: Callable[[], Iterable[Feeds]],
        measure: Measure,
        choice: Choice,
    ) -> None:
        self._ranges, self._methods, self._samples, self._measure = ranges, methods, samples, measure
        self._choice = choice

    def run(self) -> None:
        """Changes the choice for the better, or not at all."""
        variants = self._variants()
        if not variants:
            return
        taken = list(_best_of_groups(self._tested(variants)))
        if not taken:
            return
        ways = [[variant] for variant, _ in taken] + ([[v for v, _ in taken]] if len(taken) > 1 else [])
        base, *each = Levels.of_each(self._heard(self._again(), ways))
        found = [Gain.of(base, one) for one in each]
        best = max(range(len(found)), key=lambda place: found[place].db)
        if TOGETHER.refusal(found[best]):
            return
        gains = dict(taken)
        for variant in ways[best]:
            self._choice.ranges = variant.apply(self._choice.ranges)
            self._choice.refined.append(
                Refinement(
                    variant.tensors, variant.before, variant.after, str(variant.method), gains[variant]
                )
            )
        of_all = each[best].of_all
        self._choice.sqnr_db = of_all.sqnr_about_mean_db
        self._choice.outputs, self._choice.left_out = of_all.levels, of_all.left_out

    def _variants(self) -> list[_Variant]:
        """The thresholds to try, those of the worst groups first."""
        used = {site.group for site in self._ranges.plan.sites if site.kind == "activation"}
        groups = [g for g in self._ranges.plan.groups if g.id in used]
        free = [g for g in groups if all(self._ranges.is_free(name) for name in g.sources)]
        quality = {g.id: self._quality(g) for g in free}
        worst = sorted(free, key=lambda g: quality[g.id])[: max(2, round(_WORST * len(groups)))]
        found: list[_Variant] = []
        for group in worst:
            before = max(self._choice.ranges[name].amax for name in group.sources)
            seen = [before]
            for method in self._methods:
                after = max(self._ranges.measured(name, method) for name in group.sources)
                if not any(_same(after, other) for other in seen):
                    seen.append(after)
                    found.append(_Variant(group.id, group.sources, before, after, method))
        return found[:_VARIANTS]

    def _quality(self, group: ScaleGroup) -> float:
        """The least SQNR of a group's tensors, dB."""
        levels, numbers = [], self._ranges.plan.numbers_of[group.id]
        for name in group.sources:
            histogram = self._ranges.tensors[name].histogram
            if histogram is not None:
                levels.append(sqnr_at(histogram, self._choice.ranges[name].amax, numbers))
        return min(levels, default=np.inf)

    def _tested(self, variants: Sequence[_Variant]) -> list[tuple[_Variant, float]]:
        """The variants that are surely better, and by how much, dB."""
        rest = iter(self._again())
        groups = self._heard(itertools.islice(rest, BLOCKS[0]), [[v] for v in variants])
        alive = [place for place, gain in enumerate(_over_first(groups)) if not PROMISING.refusal(gain)]
        if not alive:
            return []
        later = self._heard(rest, [[variants[i]] for i in alive])
        groups = _joined([one.of([0, *(i + 1 for i in alive)]) for one in groups], later)
        return [
            (variants[i], gain.db)
            for i, gain in zip(alive, _over_first(groups), strict=True)
            if not THRESHOLD.refusal(gain)
        ]

    def _again(self) -> Iterable[Feeds]:
        """The samples that chose the method."""
        return itertools.islice(self._samples(), self._choice.samples)

    def _heard(
        self, samples: Iterable[Feeds], ways: Sequence[Sequence[_Variant]]
    ) -> Sequence[AboutMeanMeter]:
        """What groups of samples say of the choice as it is, and with each set of variants.

        All in one call, as what differs in shape from the float output in one of them counts in none.
        """
        settings = []
        for way in ([], *ways):
            ranges = self._choice.ranges
            for variant in way:
                ranges = variant.apply(ranges)
            settings.append(scales_of(self._ranges.plan, ranges))
        return self._measure(samples, settings)


def _over_first(groups: Sequence[AboutMeanMeter]) -> list[Gain]:
    """By how much each candidate but the first is better than that; nothing where no output counts."""
    base, *others = Levels.of_each(groups)
    return [Gain(-math.inf) if base.loss is None else Gain.of(base, one) for one in others]


def _best_of_groups(found: Iterable[tuple[_Variant, float]]) -> Iterator[tuple[_Variant, float]]:
    """The best variant of each group."""
    for _, same in itertools.groupby(sorted(found, key=lambda e: e[0].group), key=lambda e: e[0].group):
        yield max(same, key=lambda entry: entry[1])
