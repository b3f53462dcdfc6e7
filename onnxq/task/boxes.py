"""Boxes as corners: how much two overlap, which of several say the same, and which are found again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MATCH_IOU = 0.5
"""A detection is found again by one of its class that overlaps it so much: PASCAL VOC's criterion."""

MOST = 1000
"""Candidates of a picture that are looked at, the greatest scores: 100 detections are many."""


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
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=-1)
    areas, other_areas = (np.prod(np.maximum(one[:, 2:] - one[:, :2], 0), axis=-1) for one in (boxes, others))
    union = areas[:, None] + other_areas[None] - both
    found: np.ndarray = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    return found


def suppressed(found: Detections, most_iou: float) -> Detections:
    """Without those that overlap a greater score of their class by more (greedy non-maximum suppression).

    Args:
        found: candidates, in any order; of more than `MOST` the greatest scores.
        most_iou: by how much two of a class may overlap.
    """
    found = ordered(found)
    kept = np.zeros(len(found.scores), bool)
    for label in np.unique(found.classes):
        left = np.flatnonzero(found.classes == label)
        while len(left):
            best, left = left[0], left[1:]
            kept[best] = True
            left = left[overlaps(found.boxes[best : best + 1], found.boxes[left])[0] <= most_iou]
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
