"""Average precision, against a plain reckoning and, where it is installed, against pycocotools."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from plain import iou

from onnxq.task.boxes import Detections
from onnxq.task.precision import THRESHOLDS, AveragePrecision, BoxesThere

COCO = os.environ.get("ONNXQ_PYCOCOTOOLS", "")
"""The Python of an environment with pycocotools."""

Picture = tuple[Detections, BoxesThere]


def pictures(seed: int, count: int = 12, crowds: bool = False) -> list[Picture]:
    """Boxes of three classes, and detections near some of them; no two scores are the same."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        corner, size = random.uniform(0, 60, (5, 2)), random.uniform(8, 40, (5, 2))
        boxes = np.concatenate([corner, corner + size], 1)
        classes = random.integers(0, 3, 5)
        near = np.concatenate([boxes, boxes[:3]]) + random.normal(0, 3, (8, 4))
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        labels = np.where(random.uniform(size=8) < 0.8, np.concatenate([classes, classes[:3]]), 1)
        scores = random.uniform(0, 1, 8)
        crowd = random.uniform(size=5) < 0.3 if crowds else np.zeros(5, bool)
        some = random.permutation(8)[: random.integers(3, 9)]
        found.append((Detections(near[some], scores[some], labels[some]), BoxesThere(boxes, classes, crowd)))
    return found


def measured(some: list[Picture]) -> np.ndarray:
    precision = AveragePrecision()
    for found, truth in some:
        precision.add(found, truth)
    result = precision.by_threshold()
    assert result is not None
    return result


def plainly(some: list[Picture], least: float) -> float:
    """The mean over classes of the precision at 101 recalls, of no crowds, by loops."""
    means = []
    for label in range(3):
        there = sum(int((truth.classes == label).sum()) for _, truth in some)
        if not there:
            continue
        marks = []
        for found, truth in some:
            left = [box for box, one in zip(truth.boxes, truth.classes, strict=True) if one == label]
            mine = [
                (s, b) for s, b, c in zip(found.scores, found.boxes, found.classes, strict=True) if c == label
            ]
            for score, box in sorted(mine, key=lambda one: -one[0]):
                shares = [iou(box, one) for one in left]
                best = max(range(len(left)), key=lambda place: shares[place], default=None)
                hit = best is not None and shares[best] >= least
                if hit:
                    left.pop(best)
                marks.append((score, hit))
        marks.sort(key=lambda one: -one[0])
        points, hits = [], 0
        for number, (_, hit) in enumerate(marks, 1):
            hits += hit
            points.append((hits / there, hits / number))
        total = 0.0
        for step in range(101):
            total += max(
                (p for recall, p in points if recall >= step * 0.01), default=0.0
            )  # in doubles, as COCO's
        means.append(total / 101)
    return sum(means) / len(means)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_a_plain_reckoning_gives(seed: int) -> None:
    some = pictures(seed)
    found = measured(some)
    for least, value in zip(THRESHOLDS, found, strict=True):
        assert value == pytest.approx(plainly(some, least), abs=1e-9)
    assert 0.05 < found[0] < 0.95
    assert found[0] > found[-1]


def test_the_ends() -> None:
    boxes, classes = np.array([[0, 0, 4, 4], [8, 8, 12, 12.0]]), np.array([0, 1])
    truth = BoxesThere(boxes, classes, np.zeros(2, bool))
    assert measured([(Detections(boxes, np.array([0.9, 0.8]), classes), truth)]).tolist() == [1.0] * 10
    assert measured([(Detections(boxes, np.array([0.9, 0.8]), classes[::-1]), truth)]).tolist() == [0.0] * 10
    assert measured([(Detections(boxes[:0], np.empty(0), classes[:0]), truth)]).tolist() == [0.0] * 10
    nothing = AveragePrecision()
    nothing.add(
        Detections(boxes, np.array([0.9, 0.8]), classes),
        BoxesThere(boxes[:0], classes[:0], np.zeros(0, bool)),
    )
    assert nothing.by_threshold() is None


def test_what_is_found_in_a_crowd_counts_for_nothing() -> None:
    boxes, classes = np.array([[0, 0, 4, 4], [10, 10, 30, 30.0]]), np.array([0, 0])
    truth = BoxesThere(boxes, classes, np.array([False, True]))
    found = Detections(
        np.array([[11, 11, 14, 14], [20, 20, 26, 26], [0, 0, 4, 4.0]]),
        np.array([0.9, 0.8, 0.7]),
        np.zeros(3, int),
    )
    assert measured([(found, truth)]).tolist() == [1.0] * 10
    alone = truth._replace(boxes=boxes[:1], classes=classes[:1], crowd=truth.crowd[:1])
    assert measured([(found, alone)])[0] == pytest.approx(1 / 3)


SCRIPT = """
import contextlib, io, json, sys
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
truth, found = json.load(open(sys.argv[1]))
with contextlib.redirect_stdout(io.StringIO()):
    one = COCO(); one.dataset = truth; one.createIndex()
    told = COCOeval(one, one.loadRes(found), "bbox")
    told.evaluate(); told.accumulate()
    precision = told.eval["precision"][:, :, :, 0, -1]
print(json.dumps([[float(v[v > -1].mean()) for v in precision]]))
"""


@pytest.mark.skipif(not COCO, reason="ONNXQ_PYCOCOTOOLS names no Python that has pycocotools")
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_pycocotools_gives(seed: int, tmp_path: Path) -> None:
    some = pictures(seed, 20, crowds=True)
    images, boxes, found = [], [], []
    for place, (detections, truth) in enumerate(some, 1):
        images.append({"id": place, "width": 128, "height": 128})
        for box, label, crowd in zip(truth.boxes, truth.classes, truth.crowd, strict=True):
            x, y, right, bottom = map(float, box)
            boxes.append({
                "id": len(boxes) + 1, "image_id": place, "category_id": int(label), "iscrowd": int(crowd),
                "bbox": [x, y, right - x, bottom - y], "area": (right - x) * (bottom - y),
            })  # fmt: skip
        for box, score, label in zip(*detections, strict=True):
            x, y, right, bottom = map(float, box)
            found.append({
                "image_id": place, "category_id": int(label), "score": float(score),
                "bbox": [x, y, right - x, bottom - y],
            })  # fmt: skip
    truth_of_all = {
        "images": images,
        "annotations": boxes,
        "categories": [{"id": label} for label in range(3)],
    }
    (tmp_path / "both.json").write_text(json.dumps([truth_of_all, found]))
    ran = subprocess.run(
        [COCO, "-c", SCRIPT, str(tmp_path / "both.json")], capture_output=True, text=True, check=True
    )
    (theirs,) = json.loads(ran.stdout)
    assert np.allclose(measured(some), theirs, rtol=0, atol=1e-9)
