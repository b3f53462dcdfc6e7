"""Which outputs have little to do with the float model's: the limits and words of screen and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number, part_of
from onnxq.base.reason import noted
from onnxq.documents.accuracy import OutputOfRun
from onnxq.judge.about_mean import NAME, AboutMeanPart

LEAST_SQNR, LEAST_COSINE = 10.0, 0.9
LEAST_ABOUT_MEAN = 0.0
"""dB: below it the error is greater than what varies from sample to sample."""
LEAST_AGREEMENT = 0.5
_SMALL_ERROR = 0.1
"""Of what an output can be at all (`onnxq.graph.spans`): a probability of 0.02 may become one of 0.06."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How near an output is to the float model's.

    Attributes:
        output: its name, "" for all outputs together.
        level_db: its SQNR about the mean, else its SQNR; None for neither.
        lost: whether it has little to do with the float model's.
        why: the figure that says so, where it is not the SQNR or the cosine; "" for none.
    """

    output: str
    level_db: float | None
    lost: bool
    why: str = ""


def judged(accuracy: Sequence[OutputOfRun], about_mean: AboutMeanPart | None) -> tuple[Judged, ...]:
    """Each output of a report: those that are lost first, of these and of the others the worst first.

    Args:
        accuracy: the outputs, as the report has them.
        about_mean: their levels about the mean, or None.
    """
    part = part_of(AboutMeanPart, about_mean)
    levels = {
        one.output: level for one in part.outputs if (level := number(one.sqnr_about_mean_db)) is not None
    }
    verdicts = [_judged(entry, levels.get(entry.output)) for entry in accuracy]
    together = number(part.sqnr_about_mean_db)
    of_none = all(level >= LEAST_ABOUT_MEAN for level in levels.values())  # it is of none that is listed
    if together is not None and together < LEAST_ABOUT_MEAN and of_none:
        verdicts.append(Judged("", together, True))
    return tuple(sorted(verdicts, key=_rank))


def _rank(one: Judged) -> tuple[bool, float]:
    return not one.lost, math.inf if one.level_db is None else one.level_db


def _judged(entry: OutputOfRun, about: float | None) -> Judged:
    output, same = entry.output, number(entry.top1)
    sqnr, cosine = number(entry.sqnr_db), number(entry.cosine)
    level = sqnr if about is None else about
    if sqnr is None or sqnr == math.inf or _is_small(entry):
        return Judged(output, level, False)
    if sqnr < LEAST_SQNR or (cosine is not None and cosine < LEAST_COSINE):
        return Judged(output, level, True)
    if about is not None and about < LEAST_ABOUT_MEAN:
        return Judged(output, level, True, f"{NAME} {about:.1f} dB")
    if same is not None and same < LEAST_AGREEMENT:
        return Judged(output, level, True, noted("outputs-lost.argmax", percent=100 * same))
    return Judged(output, level, False)


def _is_small(entry: OutputOfRun) -> bool:
    """Whether the greatest error is small beside what the output can be."""
    span, most = number(entry.span), number(entry.max_abs)
    return span is not None and most is not None and most <= _SMALL_ERROR * span


def lost_words(outputs: Sequence[Judged], shown: Callable[[str], str] = str) -> str:
    """That outputs are lost, in words; "" where none is.

    Args:
        outputs: what `judged` gives.
        shown: how a name is shown.
    """
    lost = [one for one in outputs if one.lost]
    if not lost:
        return ""
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    who = shown(lost[0].output) or "the outputs together"
    have = "has" if lost[0].output and not more else "have"
    why = f" ({lost[0].why})" if lost[0].why else ""
    return noted("outputs-lost", who=f"{who}{more}", have=have, why=why)
