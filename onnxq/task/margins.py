"""How far answers of the float model are from being others, and how far a candidate moves them.

Few answers say what moves them long before one of them is lost: their margins are counted, not only they.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from onnxq.judge.sqnr import LOUDEST, power
from onnxq.task.boxes import MATCH_IOU, NONE, Detections, matched, overlaps

LOWEST = 0.02
"""The score of a detection that is not found again, about."""

_NEAR = 0.1  # what the float model detects with at least that score may become a detection
_BEYOND = 1.0  # logits beyond its margin that an answer is moved by at most
_SUREST = 1e-3  # of scores: their logits have ends


class Moves(NamedTuple):
    """How far the answers of a sample are apart from others, and moved.

    Attributes:
        apart: the sum of the squares of how far each is from being another one.
        moved: that of how far the candidate moves each, in the same units.
    """

    apart: float
    moved: float


def joined(some: Iterable[Moves]) -> Moves:
    """Those of several kinds of answers."""
    apart, moved = zip(*some, strict=True)
    return Moves(sum(apart), sum(moved))


def of_classes(wanted: np.ndarray, given: np.ndarray) -> Moves:
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
    return Moves(power(margins[known]), power(moves[known]))


def of_boxes(wanted: Sequence[Detections], given: Sequence[Detections], score: float) -> Moves:
    """By how much scores are over a score, in logits, and boxes overlap more than those that match.

    A box that is moved until it hardly matches is moved by its whole margin. What is near to be a detection
    counts as well: what moves it may make it one. None is moved by more than its margin and one beyond, and
    what is none by no more than its margin away from being one.

    Args:
        wanted: the float model's, of at least `LOWEST`, a picture each.
        given: those of a candidate.
        score: over which they are answers.
    """
    apart = moved = 0.0
    threshold, faint = _logit(np.array([score, _NEAR]))
    for one, other in zip_longest(wanted, given[: len(wanted)], fillvalue=NONE):
        near = one.over(_NEAR)
        found = matched(near, other)
        there = found >= 0
        scores, overlap = np.full(len(found), LOWEST), np.zeros(len(found))
        scores[there] = other.scores[found[there]]
        if there.any():
            overlap[there] = overlaps(near.boxes[there], other.boxes[found[there]]).diagonal()
        margins = _logit(near.scores) - threshold
        most = np.abs(margins) + _BEYOND
        moves = np.clip(_logit(scores) - _logit(near.scores), np.where(margins > 0, -most, margins), most)
        away = np.where(there & (margins > 0), (1 - overlap) / (1 - MATCH_IOU), 0.0)
        apart += power(margins)
        moved += power(moves) + power(margins * away)
        new = np.delete(other.scores, found[there])
        new = _logit(new[new > score])
        moved += power(np.minimum(new - faint, threshold - faint + _BEYOND))
    return Moves(apart, moved)


def lost(margins: Moves) -> Moves:
    """Those of answers of which nothing is left."""
    return Moves(margins.apart, LOUDEST * margins.apart)


def of_mask(wanted: np.ndarray, given: np.ndarray, over: float) -> Moves:
    """By how much values are over a value, or under it, of pixels."""
    margins = wanted.astype(np.float64) - over
    return Moves(power(margins), power(given.astype(np.float64) - wanted))


def _logit(scores: np.ndarray) -> np.ndarray:
    clipped = np.clip(scores, _SUREST, 1 - _SUREST)
    return np.asarray(np.log(clipped / (1 - clipped)))
