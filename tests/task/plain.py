"""The measures of tasks once more, plainly: loops over numbers, for the tests to compare with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A detection."""

    corners: tuple[float, float, float, float]
    score: float
    label: int


def iou(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    both = wide * high if wide > 0 and high > 0 else 0.0
    areas = [max(0.0, c[2] - c[0]) * max(0.0, c[3] - c[1]) for c in (a, b)]
    union = areas[0] + areas[1] - both
    return both / union if union > 0 else 0.0


def suppressed(boxes: Sequence[Box], most: float) -> list[Box]:
    """Greedy non-maximum suppression by class."""
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda one: -one.score):
        if all(one.label != box.label or iou(one.corners, box.corners) <= most for one in kept):
            kept.append(box)
    return kept


def found_again(wanted: Sequence[Box], given: Sequence[Box], least: float = 0.5) -> int:
    """How many are found again: the greatest score chooses first, what overlaps it most."""
    left, count = list(given), 0
    for box in sorted(wanted, key=lambda one: -one.score):
        some = [(iou(box.corners, one.corners), one) for one in left if one.label == box.label]
        best = max(some, key=lambda one: one[0], default=None)
        if best is not None and best[0] >= least:
            left.remove(best[1])
            count += 1
    return count


def sigmoid(value: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + math.exp(-value))


def mean_iou(a: Sequence[int], b: Sequence[int]) -> float:
    """The mean of each class's IoU, of the classes that either has."""
    shares = []
    for label in {*a, *b}:
        both = sum(x == label and y == label for x, y in zip(a, b, strict=True))
        either = sum(x == label or y == label for x, y in zip(a, b, strict=True))
        shares.append(both / either)
    return sum(shares) / len(shares)
