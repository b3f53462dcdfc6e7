"""Whether a candidate is better than what it would take the place of: one comparison, by a policy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.judge.about_mean import AboutMeanMeter, AboutMeanPart, without_each
from onnxq.judge.comparable import not_compared
from onnxq.judge.intervals import standard_error

GROUPS = 8
"""Into so many groups the samples are dealt: what the gain varies by without one is how sure it is."""

LEAST_DB = 0.01
"""A gain of less is rounding."""

_GROUPS_TELL = 6  # so many groups of samples, counted alike, tell whether nearly all of them are nearer


@dataclass(frozen=True, slots=True)
class Levels:
    """How near the outputs of a candidate are to the float model's.

    Attributes:
        of_all: over all samples.
        without: the SQNR of all outputs together without each group of samples, dB; empty where there are too
            few groups, or where a level is not known.
        each: that of each group alone, dB; empty likewise.
        wider: likewise over these samples and those that fit; None: it was not measured, or means little, as
            something is fitted to few rows of them.
    """

    of_all: AboutMeanPart
    without: tuple[float, ...] = ()
    each: tuple[float, ...] = ()
    wider: Levels | None = None

    @staticmethod
    def of(groups: Sequence[AboutMeanMeter]) -> Levels:
        """That of groups of samples, of one candidate."""
        some = [one for one in groups if one.samples]
        first, *more = some or list(groups[:1])
        of_all = first.joined(more).result()
        if len(some) < 3:
            return Levels(of_all)
        without = (one.sqnr_about_mean_db for one in without_each(some))
        return Levels(of_all, _known(without), _known(one.result().sqnr_about_mean_db for one in some))

    @property
    def sqnr_db(self) -> float | None:
        """Of all outputs together; None where none counts."""
        return self.of_all.sqnr_about_mean_db

    @property
    def error_db(self) -> float:
        """The standard error of that, dB, by what it varies without a group; 0 where it is not known."""
        return standard_error(self.without)


def _known(levels: Iterable[float | None]) -> tuple[float, ...]:
    """Levels, none where one of them is not known."""
    found = list(levels)
    known = tuple(level for level in found if level is not None)
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
        db: all outputs together, dB.
        lead: the same in standard errors over samples; infinite where these are not known.
        lead_alike: likewise where groups of samples count alike: a few do not make most of it.
        worst: the output that it lowers most; None where it lowers none.
    """

    db: float
    lead: float = np.inf
    lead_alike: float = -np.inf
    worst: OutputLowered | None = None

    @staticmethod
    def of(before: Levels, after: Levels) -> Gain:
        """That of levels that are known, of the same outputs."""
        assert before.sqnr_db is not None
        assert after.sqnr_db is not None
        db = after.sqnr_db - before.sqnr_db
        error = standard_error(_differences(before.without, after.without))
        each = _differences(before.each, after.each)
        alike = lead(each) if len(each) >= _GROUPS_TELL else -np.inf
        worst = _worst(before.of_all.levels, after.of_all.levels)
        return Gain(db, db / error if error else np.copysign(np.inf, db), alike, worst)


@dataclass(frozen=True, slots=True)
class Policy:
    """What is asked of a candidate that would take the place of what is there.

    Attributes:
        least_db: by how much all outputs together are to be nearer, dB; less than 0: how much they may lose.
        sure: by more than how many standard errors over samples they are to be;
        sure_alike: or by more than how many where groups of samples count alike.
        may_lose_db: how much a single output may lose, dB.
    """

    least_db: float = -math.inf
    sure: float = -math.inf
    sure_alike: float = math.inf
    may_lose_db: float = math.inf

    def refusal(self, gain: Gain) -> str:
        """Why a candidate is not taken; "" where it is."""
        if gain.db < min(self.least_db, LEAST_DB):
            return "it gains nothing" if gain.db > -LEAST_DB else f"it loses {-gain.db:.2f} dB"
        if gain.db < self.least_db:
            return f"a gain of {gain.db:.2f} dB is not worth what it costs"
        if gain.lead <= self.sure and gain.lead_alike <= self.sure_alike:
            error = gain.db / gain.lead if gain.lead else math.inf
            return f"a gain of {gain.db:.2f} dB may be chance: the standard error is {error:.2f} dB"
        if gain.worst is not None and gain.worst.change_db < -self.may_lose_db:
            return f"output {gain.worst.output!r} loses {-gain.worst.change_db:.2f} dB"
        return ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of a candidate.

    Attributes:
        kept: whether it is kept.
        why: why, or why not.
        gain_db: by how much it is nearer, over all outputs; -inf where that is not known.
        worst: the output that it lowers most; None where it lowers none.
    """

    kept: bool
    why: str
    gain_db: float
    worst: OutputLowered | None = None


def judged(before: Levels, after: Levels, policy: Policy, alone: Policy | None = None) -> Judgement:
    """Whether a candidate is kept, by the outputs on the samples that choose, without it and with it.

    On those that fit, too, where both were measured there: of few samples a handful makes most of the error,
    and more of them tell much more.

    Args:
        before: without it.
        after: with it.
        policy: what is asked of it.
        alone: what is asked on the samples that choose alone, where something of it was fitted to the samples
            that fit. It is not fitted to the outputs, but to means and moments of far more rows than it has
            numbers, so that these samples judge it nearly as others do.
    """
    if before.wider is not None and after.wider is not None:
        if alone is not None and before.sqnr_db is not None and after.sqnr_db is not None:
            gain = Gain.of(before, after)
            if alone.refusal(gain):
                return Judgement(False, f"it loses {-gain.db:.2f} dB", gain.db, gain.worst)
        wider = judged(before.wider, after.wider, policy)
        return replace(wider, why=f"{wider.why}, on the samples that fit and choose")
    if before.sqnr_db is None:
        return Judgement(False, not_compared(), -np.inf)
    lost = [name for name in before.of_all.levels if name not in after.of_all.levels]
    if after.sqnr_db is None or lost:
        return Judgement(False, f"output {lost[0]!r} cannot be compared any more" if lost else "", -np.inf)
    gain = Gain.of(before, after)
    why = policy.refusal(gain)
    return Judgement(not why, why or f"it gains {gain.db:.2f} dB", gain.db, gain.worst)


def lead(gains: np.ndarray) -> float:
    """The mean of gains in units of its standard error; 0 where there is one or none."""
    if len(gains) < 2:
        return 0.0
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    mean = float(gains.mean())
    return mean / error if error > 0 else float(np.sign(mean)) * np.inf if mean else 0.0


def _worst(before: Mapping[str, float], after: Mapping[str, float]) -> OutputLowered | None:
    change = {name: after[name] - level for name, level in before.items()}
    name = min(change, key=change.__getitem__, default="")
    return OutputLowered(name, change[name]) if change.get(name, 0.0) < 0 else None


def _differences(before: Sequence[float], after: Sequence[float]) -> np.ndarray:
    """What levels of the same groups differ by; none where some are not known."""
    return np.subtract(after, before) if len(before) == len(after) else np.empty(0)
