"""How far answers of the float model are from being others, and how far a candidate moves them.

Few answers say what moves them long before one of them is lost: their margins are counted, not only they.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from onnxq.judge.sqnr import power
from onnxq.task.boxes import MATCH_IOU, NONE, Detections, matched, overlaps

LOWEST = 0.02
"""The score of a detection that is not found again, about."""

_NEAR = 0.1  # what the float model detects with at least that score may become a detection
_SUREST = 1e-3  # of scores: their logits have ends


class Margins(NamedTuple):
    """Those of the answers of a sample.

    Attributes:
        apart: the sum of the squares of how far each is from being another one.
        moved: that of how far the candidate moves each, in the same units.
    """

    apart: float
    moved: float


def joined(some: Iterable[Margins]) -> Margins:
    """Those of several kinds of answers."""
    apart, moved = zip(*some, strict=True)
    return Margins(sum(apart), sum(moved))


def of_classes(wanted: np.ndarray, given: np.ndarray) -> Margins:
    """By how much the float model's class leads the next one, of scores `[..., classes]` that are finite."""
    best = wanted.argmax(-1)[..., None]

    def lead(scores: np.ndarray) -> np.ndarray:
        others = scores.astype(np.float64)
        own = np.take_along_axis(others, best, -1)[..., 0]
        np.put_along_axis(others, best, -np.inf, -1)
        return np.asarray(own - others.max(-1))

    with np.errstate(invalid="ignore"):
        margins = lead(wanted)
        moves = lead(given) - margins
    known = np.isfinite(margins)
    return Margins(power(margins[known]), power(moves[known]))


def of_boxes(wanted: Sequence[Detections], given: Sequence[Detections], score: float) -> Margins:
    """By how much scores are over a score, in logits, and boxes overlap more than those that match.

    A box that is moved until it hardly matches is moved by its whole margin. What is near to be a detection
    counts as well: what moves it may make it one.

    Args:
        wanted: the float model's, of at least `LOWEST`, a picture each.
        given: those of a candidate.
        score: over which they are answers.
    """
    apart = moved = 0.0
    threshold = float(_logit(np.array(score)))
    for one, other in zip_longest(wanted, given[: len(wanted)], fillvalue=NONE):
        near = one.over(_NEAR)
        found = matched(near, other)
        there = found >= 0
        scores, overlap = np.full(len(found), LOWEST), np.zeros(len(found))
        scores[there] = other.scores[found[there]]
        if there.any():
            overlap[there] = overlaps(near.boxes[there], other.boxes[found[there]]).diagonal()
        margins = _logit(near.scores) - threshold
        away = np.where(there & (near.scores > score), (1 - overlap) / (1 - MATCH_IOU), 0.0)
        apart += power(margins)
        moved += power(_logit(scores) - _logit(near.scores)) + power(margins * away)
        new = np.delete(other.scores, found[there])
        new = _logit(new[new > score])
        faint = float(_logit(np.array(_NEAR)))
        apart += len(new) * (faint - threshold) ** 2
        moved += power(new - faint)
    return Margins(apart, moved)


def _logit(scores: np.ndarray) -> np.ndarray:
    clipped = np.clip(scores, _SUREST, 1 - _SUREST)
    return np.asarray(np.log(clipped / (1 - clipped)))
