"""What is detected: outputs of a layout of boxes, read as corners, scores and classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.judge.comparable import as_tensor
from onnxq.task.boxes import Detections, ordered, suppressed
from onnxq.task.layout import Activation, Boxes, CandidateColumns

LEAST = 0.05
"""Scores of at most that are no detections for anybody."""


def detections(
    layout: Boxes, values: Mapping[str, Any], feeds: Mapping[str, np.ndarray], least: float = LEAST
) -> list[Detections]:
    """What a model detects, a picture of the batch each, the greatest score first.

    Args:
        layout: where the numbers stand.
        values: the outputs, by name.
        feeds: the inputs, of which the picture's size is asked where cells are to be decoded.
        least: over which score.

    Raises:
        ValueError: columns are not there, or the numbers of a picture do not go together.
    """
    batched = as_tensor(values[layout.boxes.outputs[0]]).ndim == 3

    def rows(columns: CandidateColumns | None) -> np.ndarray | None:
        if columns is None:
            return None
        some = [candidates(as_tensor(values[name]), layout.by_column, batched) for name in columns.outputs]
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
                None if objectness is None else objectness[place, :, 0],
                None if label is None else label[place, :, 0],
                feeds,
                least,
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
    least: float,
) -> Detections:
    scores = activated(scores, layout.activation)
    if layout.background is not None:
        scores = np.delete(scores, layout.background % scores.shape[1], axis=1)
    best = scores.argmax(1)
    score = np.take_along_axis(scores, best[:, None], 1)[:, 0]
    if objectness is not None:
        power, there = layout.power, activated(objectness, "sigmoid" if layout.activation else "")
        if power is None:
            score = score * there
        else:
            score = np.maximum(score, 0) ** (1 - power) * np.maximum(there, 0) ** power
    if label is not None:
        best = label.astype(int)
    some = np.flatnonzero(score > least)
    found = Detections(_corners(layout, boxes, feeds, some), score[some], best[some])
    return ordered(found) if layout.nms is None else suppressed(found, layout.nms)


def candidates(value: np.ndarray, by_column: bool, batched: bool) -> np.ndarray:
    """An output as `[batch, candidates, columns]`.

    Args:
        value: `[batch, candidates, columns]`, or as `by_column` says; `[batch, candidates]` has one column.
        by_column: whether it is `[batch, columns, candidates]`.
        batched: whether there is an axis of the batch; the boxes tell that.
    """
    value = value if batched else value[None]
    if value.ndim == 2:
        return value[..., None]
    return value.swapaxes(1, 2) if by_column else value


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
        return _around(taken[:, :2], taken[:, 2:])
    cells, strides = _cells(layout, feeds, len(boxes))
    cells, strides = cells[some], strides[some, None]
    if layout.form == "offsets":
        return _around((cells + taken[:, :2]) * strides, np.exp(taken[:, 2:]) * strides)
    bins = taken.shape[1] // 4
    if bins > 1:
        shares = activated(taken.reshape(-1, 4, bins), "softmax")
        taken = shares @ np.arange(bins)
    points = cells + layout.centre
    corners: np.ndarray = np.concatenate([points - taken[:, :2], points + taken[:, 2:]], 1) * strides
    return corners


def _around(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.asarray(np.concatenate([centres - sizes / 2, centres + sizes / 2], 1))


def _cells(layout: Boxes, feeds: Mapping[str, np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The column and the row of each candidate's cell, `[candidates, 2]`, and its stride.

    Grids follow each other, row by row; where there are several candidates a cell, they do.

    Raises:
        ValueError: there are not as many cells.
    """
    assert layout.image is not None
    high, wide = feeds[layout.image.input].shape[layout.image.height : layout.image.height + 2]
    cells, strides = [], []
    for stride in layout.strides:
        rows, columns = np.mgrid[: -(-high // stride), : -(-wide // stride)]
        cells.append(np.stack([columns, rows], -1).reshape(-1, 2))
        strides.append(np.full(len(cells[-1]), stride))
    all_cells, all_strides = np.concatenate(cells), np.concatenate(strides)
    each = count // len(all_cells)
    if each * len(all_cells) != count or not each:
        raise ValueError(f"there are {count} candidates and {len(all_cells)} cells")
    return np.repeat(all_cells, each, 0), np.repeat(all_strides, each, 0)
