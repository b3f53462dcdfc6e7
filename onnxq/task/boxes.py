"""Boxes as corners: how much two overlap, which of several say the same, and which are found again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MATCH_IOU = 0.5
"""A detection is found again by one of its class that overlaps it so much: PASCAL VOC's criterion."""

MOST = 1000
"""Candidates of a picture that are looked at, the greatest scores: 100 detections are many."""

_TOGETHER = 64
"""So many candidates suppress those behind them at once; what is suppressed is the same of any number."""

_FEW = 0.2
"""Of pairs of boxes: where no more meet, those alone are measured, which takes less time."""


class Detections(NamedTuple):
    """What is detected in a picture, the greatest score first.

    Attributes:
        boxes: corners, float64 `[detections, 4]`: left, top, right, bottom.
        scores: float64 `[detections]`.
        classes: whole numbers `[detections]`.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray

    def some(self, chosen: np.ndarray) -> Detections:
        """Those that are chosen, by indices or truths."""
        return Detections(self.boxes[chosen], self.scores[chosen], self.classes[chosen])

    def over(self, score: float) -> Detections:
        """Those of a greater score."""
        return self.some(self.scores > score)


NONE = Detections(np.empty((0, 4)), np.empty(0), np.empty(0, int))
"""Where nothing is."""


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of each of some boxes with each of others, `[boxes, others]`; 0 of no area."""
    (left, top, right, bottom), (start, above, end, below) = boxes.T[:, :, None], others.T
    meet = (left < end) & (right > start) & (top < below) & (bottom > above)
    if np.count_nonzero(meet) > _FEW * meet.size:
        return paired_overlaps(boxes[:, None], others)
    rows, columns = np.nonzero(meet)
    found = np.zeros(meet.shape)
    found[rows, columns] = paired_overlaps(boxes[rows], others[columns])
    return found


def paired_overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """That of each of some boxes with the other one of its place, of `[..., 4]` that broadcast."""
    (left, top, right, bottom), (start, above, end, below) = (
        np.moveaxis(one, -1, 0) for one in (boxes, others)
    )
    wide = np.minimum(right, end) - np.maximum(left, start)
    high = np.minimum(bottom, below) - np.maximum(top, above)
    both = np.maximum(wide, 0) * np.maximum(high, 0)
    union = area(boxes) + area(others) - both
    found: np.ndarray = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    return found


def area(boxes: np.ndarray) -> np.ndarray:
    """The area of each of some boxes, `[..., 4]`."""
    left, top, right, bottom = np.moveaxis(boxes, -1, 0)
    found: np.ndarray = np.maximum(right - left, 0) * np.maximum(bottom - top, 0)
    return found


def suppressed(found: Detections, most_iou: float) -> Detections:
    """Without those that overlap a greater score of their class by more (greedy non-maximum suppression).

    Args:
        found: candidates, in any order; of more than `MOST` the greatest scores.
        most_iou: by how much two of a class may overlap.
    """
    found = ordered(found)
    kept = np.ones(len(found.scores), bool)
    for label in np.unique(found.classes):
        left = np.flatnonzero(found.classes == label)
        while len(left):
            some, left = left[:_TOGETHER], left[_TOGETHER:]
            apart = overlaps(found.boxes[some], found.boxes[some]) <= most_iou
            stay = np.ones(len(some), bool)
            for place in range(len(some)):
                if stay[place]:
                    stay[place + 1 :] &= apart[place, place + 1 :]
            kept[some[~stay]] = False
            apart = np.all(overlaps(found.boxes[some[stay]], found.boxes[left]) <= most_iou, axis=0)
            kept[left[~apart]] = False
            left = left[apart]
    return found.some(kept)


def ordered(found: Detections) -> Detections:
    """By their scores, the greatest first, `MOST` at most."""
    return found.some(np.argsort(-found.scores, kind="stable")[:MOST])


def matched(wanted: Detections, given: Detections) -> np.ndarray:
    """By which of those that are given each one that is wanted is found again, -1 by none; each once.

    Those of the greatest score choose first, and take what overlaps them most.

    Args:
        wanted: the greatest score first.
        given: in any order.
    """
    found = np.full(len(wanted.scores), -1)
    if not len(found) or not len(given.scores):
        return found
    iou = overlaps(wanted.boxes, given.boxes)
    iou[wanted.classes[:, None] != given.classes[None]] = 0
    for row in range(len(found)):
        best = int(iou[row].argmax())
        if iou[row, best] >= MATCH_IOU:
            found[row] = best
            iou[:, best] = 0
    return found
