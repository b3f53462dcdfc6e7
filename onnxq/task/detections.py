"""What is detected: outputs of a layout of boxes, read as corners, scores and classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.judge.comparable import as_tensor
from onnxq.task.boxes import Detections, ordered, suppressed
from onnxq.task.layout import WITH_ANCHORS, Activation, Boxes, CandidateColumns

LEAST = 0.05
"""Scores of at most that are no detections for anybody."""

_FURTHEST = 50.0  # a logarithm of a size: float64 has what is made of it
_UNIT = 4.0  # strides: the side of an anchor that nobody knows


@dataclass(frozen=True, slots=True)
class PictureCandidates:
    """What may be detected in a picture, before any of it suppresses another.

    Attributes:
        scores: from 0 to 1, those of objects in it, float64 `[candidates, classes]`.
        labels: the class of each, where the outputs say it; else that of the greatest score.
        corners: of some of them, by their indices.
    """

    scores: np.ndarray
    labels: np.ndarray
    corners: Callable[[np.ndarray], np.ndarray]

    @property
    def best(self) -> np.ndarray:
        """The column of the greatest score of each."""
        return np.asarray(self.scores.argmax(1))


def detections(
    layout: Boxes, values: Mapping[str, Any], feeds: Mapping[str, np.ndarray], least: float = LEAST
) -> list[Detections]:
    """What a model detects, a picture of the batch each, the greatest score first; see `in_pictures`.

    `least`: over which score.
    """
    return [_detected(layout, one, least) for one in in_pictures(layout, values, feeds)]


def _detected(layout: Boxes, found: PictureCandidates, least: float) -> Detections:
    score = np.take_along_axis(found.scores, found.best[:, None], 1)[:, 0]
    some = np.flatnonzero(score > least)
    with np.errstate(over="ignore", invalid="ignore"):
        boxes = found.corners(some)
    taken = Detections(boxes, score[some], found.labels[some])
    return ordered(taken) if layout.nms is None else suppressed(taken, layout.nms)


def in_pictures(
    layout: Boxes, values: Mapping[str, Any], feeds: Mapping[str, np.ndarray]
) -> list[PictureCandidates]:
    """The candidates of each picture of the batch.

    Args:
        layout: where the numbers stand.
        values: the outputs, by name.
        feeds: the inputs, of which the picture's size is asked where cells are to be decoded.

    Raises:
        ValueError: columns are not there, or the numbers of a picture do not go together.
    """
    maps = [as_tensor(values[name]) for name in layout.boxes.outputs]
    anchors = [len(layout.anchors) // max(1, len(layout.strides))] * len(maps)
    batched = maps[0].ndim > 2
    if layout.form == "priors":  # as many as a cell of each map has boxes
        anchors = [one.shape[1] // 4 for one in maps]

    def rows(columns: CandidateColumns | None) -> np.ndarray | None:
        if columns is None:
            return None
        each = [*anchors, *[1] * len(columns.outputs)]  # scores may be of more outputs than boxes
        some = [
            candidates(as_tensor(values[name]), layout.by_column, batched, own)
            for name, own in zip(columns.outputs, each, strict=False)
        ]
        for name, one in zip(columns.outputs, some, strict=True):
            if not columns.of(size := one.shape[-1]):
                wanted = f"{columns.start}:{columns.stop or ''}"
                raise ValueError(f"output {name!r} has {size} column{'s' * (size > 1)}, none of {wanted}")
        return np.concatenate([one[..., columns.start : columns.stop] for one in some], 1).astype(np.float64)

    boxes, scores, objectness, label = map(
        rows, (layout.boxes, layout.scores, layout.objectness, layout.label)
    )
    if len({one.shape[:2] for one in (boxes, scores, objectness, label) if one is not None}) > 1:
        raise ValueError("there are not as many boxes as scores")
    assert boxes is not None
    assert scores is not None
    with np.errstate(over="ignore", invalid="ignore"):  # of values that are nowhere near a detection
        return [
            _of_picture(
                layout,
                boxes[place],
                scores[place],
                None if objectness is None else objectness[place, :, :1],
                None if label is None else label[place, :, 0],
                feeds,
            )
            for place in range(len(boxes))
        ]


def _of_picture(
    layout: Boxes,
    boxes: np.ndarray,
    scores: np.ndarray,
    objectness: np.ndarray | None,
    label: np.ndarray | None,
    feeds: Mapping[str, np.ndarray],
) -> PictureCandidates:
    scores = activated(scores, layout.activation)
    if layout.background is not None:
        scores = np.delete(scores, layout.background % scores.shape[1], axis=1)
    labels = scores.argmax(1)
    if objectness is not None:
        power, there = layout.power, activated(objectness, "sigmoid" if layout.activation else "")
        if power is None:
            scores = scores * there
        else:
            scores = np.maximum(scores, 0) ** (1 - power) * np.maximum(there, 0) ** power
    if label is not None:
        labels = label.astype(int)
    if layout.apart:
        labels = labels + scores.shape[1] * np.arange(len(labels))
    return PictureCandidates(scores, labels, lambda some: _corners(layout, boxes, feeds, some))


def candidates(value: np.ndarray, by_column: bool, batched: bool, anchors: int = 1) -> np.ndarray:
    """An output as `[batch, candidates, columns]`.

    Args:
        value: `[batch, ..., columns]`, or as `by_column` says; `[batch, candidates]` has one column.
        by_column: whether it is `[batch, columns, ...]`, on a map those of several anchors.
        batched: whether there is an axis of the batch; the boxes tell that.
        anchors: how many these are.
    """
    value = value if batched else value[None]
    if value.ndim == 2:
        return value[..., None]
    if by_column and value.ndim == 4 and anchors > 1:
        value = np.moveaxis(value.reshape(len(value), anchors, -1, *value.shape[2:]), 2, -1)
    elif by_column:
        value = np.moveaxis(value, 1, -1)
    return value.reshape(len(value), -1, value.shape[-1])


def activated(values: np.ndarray, activation: Activation) -> np.ndarray:
    """Scores as probabilities, classes along the last axis."""
    if activation == "softmax":
        powers = np.exp(values - values.max(-1, keepdims=True))
        return np.asarray(powers / powers.sum(-1, keepdims=True))
    if activation == "sigmoid":
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))  # without overflow
    return values


# -- corners -----------------------------------------------------------------------------------


def _corners(
    layout: Boxes, boxes: np.ndarray, feeds: Mapping[str, np.ndarray], some: np.ndarray
) -> np.ndarray:
    """Corners of some candidates, `[some, 4]`; of cells in pixels, else in the model's own units."""
    taken = boxes[some]
    if layout.form == "xyxy":
        return np.asarray(taken)
    if layout.form == "yxyx":
        return np.asarray(taken[:, [1, 0, 3, 2]])
    if layout.form == "cxcywh":
        return around(taken[:, :2], taken[:, 2:])
    if layout.form == "priors":
        return around(taken[:, :2] / 10, grown(taken[:, 2:] / 5))
    cells, strides, anchors = (each[some] for each in _cells(layout, feeds, len(boxes)))
    if layout.form == "offsets":
        return around((cells + taken[:, :2]) * strides, grown(taken[:, 2:]) * strides)
    if layout.form == "anchored":
        taken = 2 * activated(taken, layout.activation)
        return around((cells + taken[:, :2] - 0.5) * strides, taken[:, 2:] ** 2 * anchors)
    if layout.form == "darknet":
        offsets = activated(taken[:, :2], layout.activation)
        return around((cells + offsets) * strides, grown(taken[:, 2:]) * anchors)
    bins = taken.shape[1] // 4
    if bins > 1:
        shares = activated(taken.reshape(-1, 4, bins), "softmax")
        taken = shares @ np.arange(bins)
    points = cells + layout.centre
    corners: np.ndarray = np.concatenate([points - taken[:, :2], points + taken[:, 2:]], 1) * strides
    return corners


def grown(logarithms: np.ndarray) -> np.ndarray:
    """Sizes of their logarithms; of what is nowhere near a size some large one."""
    return np.asarray(np.exp(np.minimum(logarithms, _FURTHEST)))


def around(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Corners of centres and sizes."""
    return np.asarray(np.concatenate([centres - sizes / 2, centres + sizes / 2], 1))


def _cells(
    layout: Boxes, feeds: Mapping[str, np.ndarray], count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The column and the row of each candidate's cell, its stride, and its anchor, `[candidates, 2]`, 1, 2.

    Grids follow each other, row by row. Where there are several candidates a cell, they do; of anchors each
    has the whole grid.

    Raises:
        ValueError: there are not as many cells.
    """
    assert layout.image is not None
    high, wide = feeds[layout.image.input].shape[layout.image.height : layout.image.height + 2]
    grids = []
    for stride in layout.strides:
        rows, columns = np.mgrid[: -(-high // stride), : -(-wide // stride)]
        grids.append(np.stack([columns, rows], -1).reshape(-1, 2))
    total = sum(map(len, grids))
    each = count // total
    if each * total != count or not each:
        raise ValueError(f"there are {count} candidates and {total} cells")
    known, parts = len(layout.anchors) == each * len(grids), []
    for place, (grid, stride) in enumerate(zip(grids, layout.strides, strict=True)):
        own, unit = layout.anchors[place * each : (place + 1) * each], (_UNIT * stride,) * 2
        sizes = np.array(own if known else (unit,) * each)
        if layout.form in WITH_ANCHORS:
            cells, anchors = np.tile(grid, (each, 1)), np.repeat(sizes, len(grid), 0)
        else:
            cells, anchors = np.repeat(grid, each, 0), np.tile(sizes, (len(grid), 1))
        parts.append((cells, np.full((len(cells), 1), stride), anchors))
    cells, strides, anchors = (np.concatenate(some) for some in zip(*parts, strict=True))
    return cells, strides, anchors
