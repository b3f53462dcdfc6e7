"""Boxes: overlaps and suppression are those of the plain definition, of any number of candidates."""

from __future__ import annotations

import numpy as np
import pytest

from onnxq.task.boxes import Detections, overlaps, suppressed
from tests.task import plain


def drawn(seed: int, count: int, classes: int = 1) -> Detections:
    """Candidates of which some meet, some have no area, and none have the same score."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 1, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(-0.02, 0.4, (count, 2))], 1)
    scores = rng.permutation(count) / max(count, 1)
    return Detections(boxes, scores, rng.integers(0, classes, count))


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 300])
@pytest.mark.parametrize("most", [0.0, 0.3, 1.0])
def test_greater_scores_suppress_what_overlaps_them(count: int, most: float) -> None:
    for seed, classes in ((0, 1), (1, 3)):
        found = drawn(seed, count, classes)
        boxes = [plain.Box(tuple(box), *rest) for box, *rest in zip(*found, strict=True)]
        wanted = plain.suppressed(boxes, most)
        given = suppressed(found, most)
        assert [tuple(box) for box in given.boxes] == [box.corners for box in wanted]
        assert given.scores.tolist() == [box.score for box in wanted]
        assert given.classes.tolist() == [box.label for box in wanted]


def test_overlaps_are_of_each_with_each() -> None:
    boxes, others = drawn(0, 40).boxes, drawn(1, 30).boxes
    boxes[3], others[5] = np.nan, (-np.inf, 0, np.inf, 1)
    expected = [[plain.iou(box, other) for other in others] for box in boxes]
    expected[3] = [0.0] * 30
    for row in range(40):
        expected[row][5] = 0.0  # of an area that is not known
    assert np.array_equal(overlaps(boxes, others), expected)


def test_boxes_of_which_most_meet_are_measured_likewise() -> None:
    boxes, others = drawn(0, 40).boxes * 0.1, drawn(1, 30).boxes * 0.1
    boxes[:, 2:] += 0.3
    others[:, 2:] += 0.3
    assert np.array_equal(
        overlaps(boxes, others), [[plain.iou(box, other) for other in others] for box in boxes]
    )
