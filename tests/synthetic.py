"""Meters that hear outputs with noise of wanted powers, as if models had run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxq.judge.about_mean import AboutMeanGroups, AboutMeanMeter
from onnxq.judge.acceptance import Levels
from onnxq.judge.answers import AnswerCounter, Answers
from onnxq.judge.intervals import GROUPS

_SIZE = 64


def reference(number: int) -> np.ndarray:
    """A sample's output, of unit power; about their mean as well, of an even number of samples in order.

    Rows of a Hadamard matrix: no two of 126 samples are alike, and numbers 2 n and 2 n + 1 are opposite.
    """
    row = 1 + number // 2 % (_SIZE - 1)
    signs = [(-1) ** (number + (row & column).bit_count()) for column in range(_SIZE)]
    return np.array(signs, np.float64)


def heard(
    ratios: np.ndarray,
    outputs: Sequence[str] = ("y",),
    numbers: Sequence[int] | None = None,
    counter: AnswerCounter | None = None,
    weights: Mapping[str, float] | None = None,
    groups: int = GROUPS,
) -> list[AboutMeanMeter]:
    """What groups of samples say of candidates.

    Args:
        ratios: the noise-to-signal ratio of each, `[candidates, samples, outputs]`; infinite: so are its
            values; NaN: it has another shape.
        outputs: their names.
        numbers: those of the samples; None: from 0 on.
        counter: counts answers.
        weights: what outputs weigh.
        groups: into so many groups samples are dealt, at most.
    """
    dealt = AboutMeanGroups(outputs, weights, groups, len(ratios), counter)
    for place, number in enumerate(range(ratios.shape[1]) if numbers is None else numbers):
        exact = reference(number)
        given = [[_with(exact, one) for one in row] for row in ratios[:, place]]
        dealt.add([exact] * len(outputs), given, {})
    return dealt.meters


def _with(exact: np.ndarray, ratio: float) -> np.ndarray:
    """An output with noise."""
    return exact[1:] if np.isnan(ratio) else exact + np.sqrt(ratio)


def alike(
    candidates: Sequence[Mapping[str, float]],
    moved: Sequence[float] = (),
    numbers: Sequence[int] = range(16),
    weights: Mapping[str, float] | None = None,
) -> list[AboutMeanMeter]:
    """The same of candidates of which all samples say the same.

    Args:
        candidates: of each the SQNR of its outputs, dB.
        moved: by which share of their margins each moves the answers; none: these are not known.
        numbers: those of the samples.
        weights: what outputs weigh.
    """
    ratios = np.array([[10 ** (-db / 10) for db in one.values()] for one in candidates])

    def counter(exact: Any, given: Any, feeds: Any) -> list[Answers]:
        return [Answers("classes", (1.0,), (1.0,), (0.0,), (1.0,), (share,)) for share in moved]

    every = np.repeat(ratios[:, None], len(numbers), 1)
    return heard(every, [*candidates[0]], numbers, counter if moved else None, weights)


def levels(
    *candidates: Mapping[str, float], moved: Sequence[float] = (), weights: Mapping[str, float] | None = None
) -> list[Levels]:
    """How near such candidates are."""
    return Levels.of_each(alike(candidates, moved, weights=weights))
