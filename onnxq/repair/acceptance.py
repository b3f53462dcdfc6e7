"""Whether a candidate is kept: by the outputs on the samples that choose, without it and with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.repair.ledger import MARGIN_DB, OutputLowered
from onnxq.run.about_mean import AboutMeanMeter, AboutMeanPart

GROUPS = 8
"""Into so many groups the samples are dealt: what the gain varies by without one is how sure it is."""

LEAST_DB = 0.01
"""A gain of less is rounding."""

_SURE = 0.5  # standard errors, by which the best of several is to be better: one of them is by chance
_SURELY, _GROUPS_TELL = 2.5, 6  # likewise, where groups of samples count alike; so many groups tell it


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
        rest = [some[:place] + some[place + 1 :] for place in range(len(some))]
        without = (one.joined(others).result().sqnr_about_mean_db for one, *others in rest)
        return Levels(of_all, _known(without), _known(one.result().sqnr_about_mean_db for one in some))

    @property
    def sqnr_db(self) -> float | None:
        """Of all outputs together; None where none counts."""
        return self.of_all.sqnr_about_mean_db


def _known(levels: Iterable[float | None]) -> tuple[float, ...]:
    """Levels, none where one of them is not known."""
    found = list(levels)
    known = tuple(level for level in found if level is not None)
    return known if len(known) == len(found) else ()


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


def judged(
    before: Levels,
    after: Levels,
    *,
    of_several: bool = False,
    least_db: float = LEAST_DB,
    seen: bool = False,
) -> Judgement:
    """Whether a candidate is kept.

    It is where all outputs together are nearer, and no output loses more than `MARGIN_DB`: on the samples
    that choose; on those that fit, too, where both were measured there. Of few samples a handful makes most
    of the error, and more of them tell much more.

    Args:
        before: without it.
        after: with it.
        of_several: whether it is the best of several, or was searched for: then all outputs together are to
            be nearer by more than half a standard error over the samples, or nearly all groups of samples.
        least_db: by how much it is to be nearer.
        seen: whether something of it was fitted to the samples that fit. It is not fitted to the outputs, but
            to means and moments of far more rows than it has numbers, so that these samples judge it nearly
            as others do; still, those that choose alone may not speak against it, by more than a standard
            error.
    """
    if before.wider is not None and after.wider is not None:
        if seen and (against := _against(before, after)):
            return against
        found = judged(before.wider, after.wider, of_several=of_several, least_db=least_db)
        return replace(found, why=f"{found.why}, on the samples that fit and choose")
    if before.sqnr_db is None:
        return Judgement(False, "no output could be compared", -np.inf)
    lost = [name for name in before.of_all.levels if name not in after.of_all.levels]
    if after.sqnr_db is None or lost:
        return Judgement(False, f"output {lost[0]!r} cannot be compared any more" if lost else "", -np.inf)
    gain = after.sqnr_db - before.sqnr_db
    worst = _worst(before.of_all.levels, after.of_all.levels)
    error = _error(before.without, after.without)
    if gain < LEAST_DB:
        why = "it gains nothing" if gain > -LEAST_DB else f"it loses {-gain:.2f} dB"
        return Judgement(False, why, gain, worst)
    if gain < least_db:
        return Judgement(False, f"a gain of {gain:.2f} dB is not worth what it costs", gain, worst)
    if of_several and gain <= _SURE * error and not _nearly_all(before.each, after.each):
        why = f"a gain of {gain:.2f} dB may be chance: the standard error is {error:.2f} dB"
        return Judgement(False, why, gain, worst)
    if worst is not None and worst.change_db < -MARGIN_DB:
        return Judgement(False, f"output {worst.output!r} loses {-worst.change_db:.2f} dB", gain, worst)
    return Judgement(True, f"it gains {gain:.2f} dB", gain, worst)


def _against(before: Levels, after: Levels) -> Judgement | None:
    """What the samples that choose say, where they alone are against a candidate."""
    if before.sqnr_db is None or after.sqnr_db is None:
        return None
    gain, error = after.sqnr_db - before.sqnr_db, _error(before.without, after.without)
    if gain >= -error:
        return None
    worst = _worst(before.of_all.levels, after.of_all.levels)
    return Judgement(False, f"it loses {-gain:.2f} dB", gain, worst)


def _worst(before: Mapping[str, float], after: Mapping[str, float]) -> OutputLowered | None:
    change = {name: after[name] - level for name, level in before.items()}
    name = min(change, key=change.__getitem__)
    return OutputLowered(name, change[name]) if change[name] < 0 else None


def _error(before: Sequence[float], after: Sequence[float]) -> float:
    """The standard error of the gain, dB (a jackknife over groups of samples); 0 where it is not known."""
    if len(before) != len(after) or not before:
        return 0.0
    gains = np.subtract(after, before)
    return float(np.sqrt((len(gains) - 1) * np.var(gains)))


def _nearly_all(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether groups of samples are surely nearer, each counted alike: a few do not make most of this."""
    if len(before) != len(after) or len(before) < _GROUPS_TELL:
        return False
    gains = np.subtract(after, before)
    return bool(gains.mean() > _SURELY * gains.std(ddof=1) / np.sqrt(len(gains)))
