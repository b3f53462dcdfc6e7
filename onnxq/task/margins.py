"""How far answers of the float model are from being others, and how far a candidate moves them.

Few answers say what moves them long before one of them is lost: their margins are counted, not only they.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from onnxq.judge.sqnr import LOUDEST, power
from onnxq.task.boxes import MATCH_IOU, NONE, Detections, matched, paired_overlaps
from onnxq.task.detections import PictureCandidates

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


def of_candidates(
    wanted: Sequence[PictureCandidates], given: Sequence[PictureCandidates], score: float
) -> Moves:
    """By how much scores are over a score, in logits, and boxes overlap more than those that match.

    Candidates of one place in both models are compared, before any suppresses another: those of an object
    all tell what moves it, and which one of them is the greatest is a matter of chance. See `of_boxes`.

    Args:
        wanted: the float model's, a picture each.
        given: those of a candidate for its place.
        score: over which they are answers.
    """
    found = [
        _of_places(one, other, score)
        for one, other in zip_longest(wanted, given[: len(wanted)], fillvalue=None)
        if one is not None
    ]
    return joined(found) if found else Moves(0.0, 0.0)


def _of_places(wanted: PictureCandidates, given: PictureCandidates | None, score: float) -> Moves:
    near, best = np.flatnonzero(wanted.scores.max(1, initial=0.0) > _NEAR), wanted.best
    others, overlap, new = np.full(len(near), LOWEST), np.zeros(len(near)), np.empty(0)
    if given is not None and given.scores.shape == wanted.scores.shape:
        others = np.nan_to_num(given.scores[near, best[near]])
        with np.errstate(over="ignore", invalid="ignore"):
            overlap = paired_overlaps(wanted.corners(near), given.corners(near))
        new = np.delete(given.scores.max(1, initial=0.0), near)
    return _moved(wanted.scores[near, best[near]], others, overlap, new[new > score], score)


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
    moves = [Moves(0.0, 0.0)]
    for one, other in zip_longest(wanted, given[: len(wanted)], fillvalue=NONE):
        near = one.over(_NEAR)
        found = matched(near, other)
        there = found >= 0
        scores, overlap = np.full(len(found), LOWEST), np.zeros(len(found))
        scores[there] = other.scores[found[there]]
        overlap[there] = paired_overlaps(near.boxes[there], other.boxes[found[there]])
        new = np.delete(other.scores, found[there])
        moves.append(_moved(near.scores, scores, overlap, new[new > score], score))
    return joined(moves)


def _moved(
    scores: np.ndarray, others: np.ndarray, overlap: np.ndarray, new: np.ndarray, score: float
) -> Moves:
    """Those of detections, and of what is near to be one; `new`: scores of detections that were none."""
    threshold, faint = _logit(np.array([score, _NEAR]))
    margins = _logit(scores) - threshold
    most = np.abs(margins) + _BEYOND
    moves = np.clip(_logit(others) - _logit(scores), np.where(margins > 0, -most, margins), most)
    away = np.where((overlap > 0) & (margins > 0), (1 - overlap) / (1 - MATCH_IOU), 0.0)
    moved = power(moves) + power(margins * away)
    moved += power(np.minimum(_logit(new) - faint, threshold - faint + _BEYOND))
    return Moves(power(margins), moved)


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
