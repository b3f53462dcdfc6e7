"""Boxes with classes and scores: which are the same, which are right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.packages.net import Figure, share

SAME = 0.5
"""How much of what two boxes cover is covered by both, where they are the same."""

Found = np.ndarray
"""Rows of left, top, right, bottom, score, class, float64 [boxes, 6], best first."""


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How much of what two boxes cover is covered by both, [boxes, other boxes]."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:4], other[None, :, 2:4])
    both = (high - low).clip(0).prod(-1)
    areas = [(each[:, 2:4] - each[:, :2]).clip(0).prod(-1) for each in (one, other)]
    return np.asarray(both / np.maximum(areas[0][:, None] + areas[1][None] - both, 1e-9))


def cornered(middle_and_size: np.ndarray) -> np.ndarray:
    """Boxes as left, top, right, bottom, of x, y, width, height, [boxes, 4]."""
    middle, size = middle_and_size[:, :2], middle_and_size[:, 2:4]
    return np.hstack([middle - size / 2, middle + size / 2])


def suppressed(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, least: float, at: float) -> Found:
    """Boxes with a score of at least `least`, without what overlaps a better one of its class by `at`."""
    chosen = np.flatnonzero(scores >= least)
    order = chosen[np.argsort(-scores[chosen], kind="stable")]
    rows = np.column_stack([boxes[order], scores[order], classes[order]]).astype(np.float64)
    left = np.ones(len(rows), bool)
    covered = (overlap(rows, rows) > at) & (rows[:, None, 5] == rows[None, :, 5])
    for place in range(len(rows)):
        if left[place]:
            left[place + 1 :] &= ~covered[place, place + 1 :]
    return np.asarray(rows[left])


def kept(exact: Sequence[Found], given: Sequence[Found], least: float) -> Figure:
    """How many of the float model's boxes over a threshold a candidate has over it too, and has beside."""
    whole = there = new = 0
    for one, other in zip(exact, given, strict=True):
        wanted, made = one[one[:, 4] >= least], other[other[:, 4] >= least]
        pairs = _matched(wanted, made)
        whole, there, new = whole + len(wanted), there + pairs, new + len(made) - pairs
    return {"kept %": share(there, whole), "of": whole, "new": new}


def _matched(wanted: Found, made: Found) -> int:
    """How many boxes of one list have one of their own in another, of their class."""
    shared = np.where(wanted[:, None, 5] == made[None, :, 5], overlap(wanted, made), 0)
    count = 0
    while shared.size and shared.max() >= SAME:
        row, column = np.unravel_index(shared.argmax(), shared.shape)
        shared[row], shared[:, column] = 0, 0
        count += 1
    return count


def average_precision(truths: Sequence[np.ndarray], given: Sequence[Found]) -> float:
    """The mean over classes of the area under precision by recall, percent.

    Args:
        truths: of each image left, top, right, bottom, class, [objects, 5].
        given: what was found in each.
    """
    classes = sorted({number for truth in truths for number in truth[:, 4]})
    return 100 * float(np.mean([_of_class(number, truths, given) for number in classes]))


def _of_class(number: float, truths: Sequence[np.ndarray], given: Sequence[Found]) -> float:
    rows: list[tuple[float, bool]] = []
    objects = 0
    for truth, found in zip(truths, given, strict=True):
        wanted, made = truth[truth[:, 4] == number], found[found[:, 5] == number]
        objects += len(wanted)
        rows += zip(made[:, 4], _right(wanted, made), strict=True)
    right = np.array([hit for _, hit in sorted(rows, key=lambda row: -row[0])], bool)
    if not len(right):
        return 0.0
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(right) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((precision * right).sum() / objects)


def _right(wanted: np.ndarray, made: Found) -> list[bool]:
    """Whether each box, best first, is of an object that no better one has."""
    shared, hits = overlap(made, wanted), list[bool]()
    for row in shared:
        best = int(row.argmax()) if row.size else 0
        hits.append(bool(row.size and row[best] >= SAME))
        if hits[-1]:
            shared[:, best] = 0
    return hits
