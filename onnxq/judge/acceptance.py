"""Whether a candidate is better than what it would take the place of: one comparison, by a policy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.judge.about_mean import AboutMeanMeter, AboutMeanPart, without_each
from onnxq.judge.answers import Answers, AnswersChange
from onnxq.judge.comparable import not_compared
from onnxq.judge.intervals import Interval, standard_error
from onnxq.judge.loss import ENOUGH_DB, Loss
from onnxq.judge.sqnr import limited_db, nsr_of

GROUPS = 8
"""Into so many groups the samples are dealt: what the gain varies by without one is how sure it is."""

LEAST_DB = 0.01
"""A gain of less is rounding."""

CLEAR = 3.0
"""Standard errors: what gains or loses more, others of its samples would say as well."""

LITTLE_DB = 0.25
"""A standard error of less, of what is kept or gains nothing: whatever more samples say, little is lost."""

SHOWN = 2.0
"""Standard errors: a loss of decibels that is more is none of chance, whatever else is gained."""

_SEEMS = 1.0  # standard errors by which answers seem to be lost: more samples are to say

_GROUPS_TELL = 6  # so many groups of samples, counted alike, tell whether nearly all of them are nearer


@dataclass(frozen=True, slots=True)
class Levels:
    """How near the outputs of a candidate are to the float model's.

    Attributes:
        of_all: that of the outputs, over all samples.
        loss: what is lost of outputs and answers, by which candidates are compared; None where none counts.
        without: the same without each group of samples; empty where there are too few groups, or where one
            of them does not tell.
        each: that of each group alone; empty likewise.
        answers: how many of the float model's answers are kept, by sample; None where that is not known.
    """

    of_all: AboutMeanPart
    loss: Loss | None
    without: tuple[Loss, ...] = ()
    each: tuple[Loss, ...] = ()
    answers: Answers | None = None

    @staticmethod
    def of(groups: Sequence[AboutMeanMeter]) -> Levels:
        """That of groups of samples, of one candidate."""
        return Levels.of_each(groups)[0]

    @staticmethod
    def of_each(groups: Sequence[AboutMeanMeter]) -> list[Levels]:
        """Those of groups of samples, of each candidate."""
        some = [one for one in groups if one.samples]
        first, *more = some or list(groups[:1])
        joined = first.joined(more)
        of_all, lost, answers = joined.results(), joined.losses(), joined.answers
        kept = answers or (None,) * len(of_all)
        if len(some) < 3:
            return [Levels(a, b, answers=c) for a, b, c in zip(of_all, lost, kept, strict=True)]
        without, each = (
            zip(*(one.losses() for one in dealt), strict=True) for dealt in (without_each(some), some)
        )
        return [
            Levels(a, b, _known(c), _known(d), e)
            for a, b, c, d, e in zip(of_all, lost, without, each, kept, strict=True)
        ]

    @property
    def sqnr_db(self) -> float | None:
        """Of all outputs together; None where none counts."""
        return self.of_all.sqnr_about_mean_db

    @property
    def answers_db(self) -> float:
        """How far the answers are moved of what keeps them apart, dB: as noise; infinite: not known."""
        moved = None if self.answers is None else self.answers.moved_share
        return math.inf if moved is None else limited_db(moved)

    @property
    def error_db(self) -> float:
        """The standard error of the loss, dB, by what it varies without a group; 0 where it is not known."""
        return standard_error([one.db for one in self.without])


def _known(losses: Iterable[Loss | None]) -> tuple[Loss, ...]:
    """Losses, none where one of them is not known."""
    found = list(losses)
    known = tuple(loss for loss in found if loss is not None)
    return known if len(known) == len(found) else ()


@dataclass(frozen=True, slots=True)
class OutputLowered(DocumentPart):
    """An output that a step moves further off.

    Attributes:
        output: its name.
        change_db: by how much, dB (negative).
    """

    output: str
    change_db: float


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much a candidate is nearer than what it would take the place of.

    Attributes:
        db: by how much less is lost of outputs and answers, dB (`Loss.gained_db`).
        lead: the same in standard errors over samples; infinite where these are not known.
        lead_alike: likewise where groups of samples count alike: a few do not make most of it.
        worst: the output to which it adds most noise; None where it adds none.
        price: that noise, as a share of what it takes off all outputs; infinite where that is nothing.
        interval: where `db` lies with other samples, dB; None of too few.
        answers: what is kept of the float model's answers beyond that; None where that is not known.
        outputs_db: by how much the outputs alone are nearer, dB; None: `db` is about these.
    """

    db: float
    lead: float = np.inf
    lead_alike: float = -np.inf
    worst: OutputLowered | None = None
    price: float = 0.0
    interval: Interval | None = None
    answers: AnswersChange | None = None
    outputs_db: float | None = None

    @staticmethod
    def of(before: Levels, after: Levels) -> Gain:
        """That of levels that are known, of the same outputs."""
        assert before.loss is not None
        assert after.loss is not None
        assert before.sqnr_db is not None
        assert after.sqnr_db is not None
        beyond = not (before.loss.is_enough and after.loss.is_enough)
        db = before.loss.gained_db(after.loss, beyond=beyond)
        without = _differences(before.without, after.without, beyond)
        error = standard_error(without)
        each = _differences(before.each, after.each, beyond)
        alike = lead(each) if len(each) >= _GROUPS_TELL else -np.inf
        worst, added = _worst(before.of_all.levels, after.of_all.levels, beyond=beyond)
        less = before.loss.beyond - after.loss.beyond if beyond else before.loss.all - after.loss.all
        price = added / less if less > 0 else math.inf
        leading = db / error if error else float(np.copysign(np.inf, db)) if db else 0.0
        answers = AnswersChange.of(before.answers, after.answers)
        outputs_db = after.sqnr_db - before.sqnr_db
        interval = Interval.of_change(db, without)
        return Gain(db, leading, alike, worst, price, interval, answers, outputs_db)

    @property
    def error_db(self) -> float:
        """The standard error of `db`; infinite where it is not known, and `db` is not sure."""
        return abs(self.db / self.lead) if self.lead else math.inf

    @property
    def nearer_db(self) -> float:
        """By how much the outputs alone are nearer, dB: what is told of what is taken."""
        return self.db if self.outputs_db is None else self.outputs_db

    @property
    def said(self) -> str:
        """`1.20 dB`, or `1.20 dB (the outputs alone -0.10 dB)`: answers have a say, or enough is enough."""
        if self.outputs_db is None or abs(self.db - self.outputs_db) < LEAST_DB:
            return f"{abs(self.db):.2f} dB"
        return f"{abs(self.db):.2f} dB (the outputs alone {self.outputs_db:+.2f} dB)"


@dataclass(frozen=True, slots=True)
class Policy:
    """What is asked of a candidate that would take the place of what is there.

    Answers that are shown to be lost refuse it, whatever decibels say. Where these do not tell, as what they
    gain or lose may be chance, answers that are shown to be gained take it.

    Attributes:
        least_db: by how much all outputs together are to be nearer, dB; less than 0: how much they may lose.
        sure: by more than how many standard errors over samples they are to be;
        sure_alike: or by more than how many where groups of samples count alike.
        may_lose_db: how much a single output may lose, dB,
        price: unless the noise that it gains is no more than this share of what all outputs together lose.
        by_answers: whether answers take it; not of so many candidates that one seems to gain them by chance.
        cost: in words, what `least_db` is asked for.
    """

    least_db: float = -math.inf
    sure: float = -math.inf
    sure_alike: float = math.inf
    may_lose_db: float = math.inf
    price: float = 0.0
    by_answers: bool = True
    cost: str = "what it costs"

    @property
    def costs_db(self) -> float:
        """What a candidate has to gain for what it costs, dB; 0 where it costs nothing."""
        return self.least_db if self.least_db > LEAST_DB else 0.0

    def refusal(self, gain: Gain) -> str:
        """Why a candidate is not taken; "" where it is."""
        if gain.answers is not None and gain.answers.shown < 0:
            return _with_answers(gain, gain.answers)
        if not self._has_answers(gain) and (why := self._refusal_by_db(gain)):
            return why
        lowered = gain.worst
        if lowered is not None and lowered.change_db < -self.may_lose_db and gain.price > self.price:
            return f"output {lowered.output!r} loses {-lowered.change_db:.2f} dB"
        return ""

    def _has_answers(self, gain: Gain) -> bool:
        """Whether answers are shown to be gained where decibels do not tell; no price is paid for them."""
        gained = self.by_answers and gain.answers is not None and gain.answers.shown > 0
        priced = self.costs_db > 0 and gain.db < self.costs_db
        return gained and gain.lead > -SHOWN and not priced

    def _refusal_by_db(self, gain: Gain) -> str:
        """Why decibels of all outputs together do not take it; "" where they do."""
        if gain.db < min(self.least_db, LEAST_DB):
            return "it gains nothing" if gain.db > -LEAST_DB else f"it loses {gain.said}"
        if gain.db < self.least_db:
            return noted("candidate.unworth", gain=gain.said, cost=self.cost)
        if gain.lead <= self.sure and gain.lead_alike <= self.sure_alike:
            return noted("candidate.chance", gain=gain.said, error=gain.error_db)
        return ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of a candidate.

    Attributes:
        kept: whether it is kept.
        why: why, or why not.
        gain_db: by how much it is nearer, over all outputs; -inf where that is not known.
        worst: the output to which it adds most noise; None where it adds none.
        clear: whether more samples of the kind would hardly say otherwise, or little of it.
        answers: what it keeps of the float model's answers beyond that; None where that is not known.
    """

    kept: bool
    why: str
    gain_db: float
    worst: OutputLowered | None = None
    clear: bool = True
    answers: AnswersChange | None = None


def judged(before: Levels, after: Levels, policy: Policy) -> Judgement:
    """Whether a candidate is kept, by the outputs on the same samples, without it and with it.

    Args:
        before: without it.
        after: with it.
        policy: what is asked of it.
    """
    if before.sqnr_db is None:
        return Judgement(False, not_compared(), -np.inf)
    lost = [name for name in before.of_all.levels if name not in after.of_all.levels]
    if after.sqnr_db is None or lost:
        return Judgement(False, noted("candidate.not-comparable", output=lost[0]) if lost else "", -np.inf)
    gain = Gain.of(before, after)
    why = policy.refusal(gain)
    over, error = gain.db - policy.costs_db, gain.error_db
    clear = over < -CLEAR * error or gain.db == 0 if why else over > CLEAR * error
    if not why or over <= 0:
        clear = clear or error < LITTLE_DB
    answers = gain.answers
    if answers is not None and not why:
        clear = clear and answers.lead > -_SEEMS
    elif answers is not None and answers.shown < 0:
        clear = clear or answers.lead < -CLEAR
    return Judgement(not why, why or _told(gain), gain.db, gain.worst, clear, answers)


def _told(gain: Gain) -> str:
    """What a candidate that is kept does."""
    answers = gain.answers
    if answers is not None and answers.shown > 0:
        return _with_answers(gain, answers)
    if gain.db > -LEAST_DB:
        return f"it gains {gain.said}"
    return noted("candidate.fitted", loss=gain.said)


def _with_answers(gain: Gain, answers: AnswersChange) -> str:
    """What a candidate does in dB, and to answers that are shown to be gained or lost."""
    if abs(gain.db) < LEAST_DB:
        return f"it {answers.said}"
    if gain.db < 0 < answers.shown:
        return noted("candidate.answers", answers=answers.said, loss=gain.said)
    if gain.db < 0:
        return f"it loses {gain.said} and {answers.said.removeprefix('loses ')}"
    return f"it gains {gain.said} and {answers.said}"


def lead(gains: np.ndarray) -> float:
    """The mean of gains in units of its standard error; 0 where there is one or none."""
    if len(gains) < 2:
        return 0.0
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    mean = float(gains.mean())
    return mean / error if error > 0 else float(np.sign(mean)) * np.inf if mean else 0.0


def _worst(
    before: Mapping[str, float], after: Mapping[str, float], *, beyond: bool
) -> tuple[OutputLowered | None, float]:
    """The output that gains most noise, in parts of its signal, and how much; see `Loss.gained_db`."""
    most = ENOUGH_DB if beyond else math.inf
    was, now = ({name: min(level, most) for name, level in one.items()} for one in (before, after))
    added = {name: nsr_of(now[name]) - nsr_of(level) for name, level in was.items()}
    name = max(added, key=added.__getitem__, default="")
    if added.get(name, 0.0) <= 0:
        return None, 0.0
    return OutputLowered(name, now[name] - was[name]), added[name]


def _differences(before: Sequence[Loss], after: Sequence[Loss], beyond: bool) -> np.ndarray:
    """What is gained of the same groups, dB; none where some are not known."""
    if len(before) != len(after):
        return np.empty(0)
    both = zip(before, after, strict=True)
    return np.array([one.gained_db(other, beyond=beyond) for one, other in both])
