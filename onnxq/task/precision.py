"""Average precision of detections, as COCO defines it: over recall, classes and overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onnxq.task.boxes import Detections, overlaps

THRESHOLDS = np.linspace(0.5, 0.95, 10)
"""The IoUs from which on a detection is right."""

MOST = 100
"""Detections of a picture and class that count, the greatest scores."""

_RECALLS = np.linspace(0, 1, 101)


class BoxesThere(NamedTuple):
    """What is in a picture.

    Attributes:
        boxes: corners, float64 `[boxes, 4]`.
        classes: whole numbers `[boxes]`.
        crowd: bool `[boxes]`: whether one is of many together; what is found there counts for nothing.
    """

    boxes: np.ndarray
    classes: np.ndarray
    crowd: np.ndarray


class AveragePrecision:
    """Adds up pictures; of each its detections' scores are remembered, and whether they are right."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        self._there: dict[int, int] = {}

    def add(self, found: Detections, truth: BoxesThere) -> None:
        """Adds what is found in a picture, and what is there."""
        for label in np.union1d(found.classes, truth.classes).tolist():
            given = found.some(found.classes == label)
            given = given.some(np.argsort(-given.scores, kind="stable")[:MOST])
            mine = truth.classes == label
            boxes, crowd = truth.boxes[mine], truth.crowd[mine]
            order = np.argsort(crowd, kind="stable")
            boxes, crowd = boxes[order], crowd[order]
            self._there[label] = self._there.get(label, 0) + int((~crowd).sum())
            if len(given.scores):
                right, ignored = _matches(given.boxes, boxes, crowd)
                self._found.setdefault(label, []).append((given.scores, right, ignored))

    def by_threshold(self) -> np.ndarray | None:
        """The mean over the classes of the precision at 101 recalls, for each of `THRESHOLDS`, 0 to 1.

        None where there is nothing to find.
        """
        classes = [label for label, count in self._there.items() if count]
        if not classes:
            return None
        found: np.ndarray = np.mean(
            [_precisions(self._found.get(label, []), self._there[label]) for label in classes], 0
        )
        return found


def _matches(boxes: np.ndarray, truth: np.ndarray, crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which detections are right, and which count for nothing, bool `[thresholds, detections]`.

    The greatest score chooses first: of what is there and was not found, what it overlaps most. Crowds come
    last, and may be found again and again.
    """
    right, ignored = (np.zeros((len(THRESHOLDS), len(boxes)), bool) for _ in range(2))
    if not len(truth):
        return right, ignored
    iou = overlaps(boxes, truth)
    if crowd.any():
        iou[:, crowd] = _shares(boxes, truth[crowd])
    for row, least in enumerate(THRESHOLDS):
        taken = np.zeros(len(truth), bool)
        for place in range(len(boxes)):
            best, most = -1, least
            for other in range(len(truth)):
                if taken[other] and not crowd[other]:
                    continue
                if best >= 0 and not crowd[best] and crowd[other]:
                    break
                if iou[place, other] >= most:
                    best, most = other, iou[place, other]
            if best >= 0:
                taken[best] = True
                right[row, place], ignored[row, place] = not crowd[best], crowd[best]
    return right, ignored


def _shares(boxes: np.ndarray, crowds: np.ndarray) -> np.ndarray:
    """Which share of each box is in each crowd, `[boxes, crowds]`."""
    low = np.maximum(boxes[:, None, :2], crowds[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], crowds[None, :, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=-1)
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=-1)[:, None]
    found: np.ndarray = np.divide(both, areas, out=np.zeros_like(both), where=areas > 0)
    return found


def _precisions(found: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], there: int) -> np.ndarray:
    """The mean precision of a class at 101 recalls, `[thresholds]`."""
    if not found:
        return np.zeros(len(THRESHOLDS))
    order = np.argsort(-np.concatenate([scores for scores, _, _ in found]), kind="stable")
    right = np.concatenate([one for _, one, _ in found], 1)[:, order]
    ignored = np.concatenate([one for _, _, one in found], 1)[:, order]
    hits, misses = np.cumsum(right, 1, dtype=float), np.cumsum(~right & ~ignored, 1, dtype=float)
    means = []
    for hit, miss in zip(hits, misses, strict=True):
        precision = np.maximum.accumulate((hit / np.maximum(hit + miss, np.spacing(1)))[::-1])[::-1]
        places = np.searchsorted(hit / there, _RECALLS, side="left")
        means.append(np.where(places < len(hit), precision[np.minimum(places, len(hit) - 1)], 0.0).mean())
    return np.array(means)
