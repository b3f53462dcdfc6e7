"""What is detected as peaks of maps, and what a NonMaxSuppression selects: boxes with scores and classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.judge.comparable import as_tensor
from onnxq.task.boxes import MOST, NONE, Detections, suppressed
from onnxq.task.detections import LEAST, activated, around, grown
from onnxq.task.layout import NMS_IOU, Peaks, Selections

_SIDE = 6.0
"""Cells of the side of a thing whose size is not known: two overlap by half up to two cells aside."""

_CLASSES = 10**6  # more than there are
_LARGEST_LOG = 7.0  # e^7 strides are wider than pictures are


def peaks(
    layout: Peaks, values: Mapping[str, Any], reference: Mapping[str, Any], least: float
) -> list[Detections]:
    """What a model detects, a picture of the batch each, in cells of the map, the greatest score first.

    A peak is a cell that none of the eight beside it exceeds.

    Args:
        layout: which outputs are what.
        values: the outputs, by name.
        reference: the float model's, whose sizes say whether they are logarithms where the layout does not.
        least: over which score.

    Raises:
        ValueError: the outputs are no maps, or not of one size.
    """
    scores, sizes, offsets = _maps(layout, values)
    if scores.shape != as_tensor(reference[layout.scores]).shape:
        raise ValueError("the maps have not the float model's size")
    logarithms = sizes is not None and _are_logarithms(layout, reference)
    found = []
    for place, one in enumerate(scores):
        at = _places(one, least)
        classes, rows, columns = at
        centres = np.stack([columns, rows], -1) + 0.5
        if offsets is not None:
            centres += _pairs(layout, offsets[place][:, rows, columns]) - 0.5
        if sizes is None:
            boxes = around(centres, np.full((len(rows), 2), _SIDE))
        else:
            own = sizes[place][:, rows, columns]
            own = grown(own) if logarithms else own
            if len(own) == 4:
                boxes = np.concatenate([centres - own[:2].T, centres + own[2:].T], 1)
            else:
                boxes = around(centres, _pairs(layout, own))
        found.append(suppressed(Detections(boxes, one[at], classes), NMS_IOU))
    return found


def _places(scores: np.ndarray, least: float) -> tuple[np.ndarray, ...]:
    """Classes, rows and columns of the peaks of `[classes, height, width]`, of the greatest scores."""
    wide = np.pad(scores, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    near = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2)).max((-2, -1))
    at = np.nonzero((scores == near) & (scores > least))
    chosen = np.argsort(-scores[at], kind="stable")[:MOST]
    return tuple(one[chosen] for one in at)


def _pairs(layout: Peaks, two: np.ndarray) -> np.ndarray:
    """Two numbers of each place, that of the columns first, of `[2, places]`."""
    return np.asarray(two[::-1].T if layout.rows_first else two.T)


def _are_logarithms(layout: Peaks, reference: Mapping[str, Any]) -> bool:
    """Whether sizes are logarithms: where none is said, those of the float model's peaks tell.

    What is not above 0 is one, what is above 7 is none; between them all may be.
    """
    if layout.size:
        return layout.size == "exp"
    scores, sizes, _ = _maps(layout, reference)
    assert sizes is not None
    own = [two[:, rows, columns].ravel() for two, (_, rows, columns) in
           ((sizes[place], _places(one, LEAST)) for place, one in enumerate(scores))]  # fmt: skip
    every = np.concatenate(own)
    return bool(every.min(initial=np.inf) <= 0 or every.max(initial=-np.inf) <= _LARGEST_LOG)


def _maps(
    layout: Peaks, values: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Scores from 0 to 1, sizes and offsets."""
    scores, *others = (
        None if name is None else as_tensor(values[name]).astype(np.float64)
        for name in (layout.scores, layout.sizes, layout.offsets)
    )
    assert scores is not None
    for one in (scores, *others):
        if one is not None and (
            one.ndim != 4 or one.shape[2:] != scores.shape[2:] or len(one) != len(scores)
        ):
            raise ValueError("scores, sizes and offsets are no maps of one size")
    return activated(scores, "sigmoid" if layout.sigmoid else ""), others[0], others[1]


def selections(layout: Selections, values: Mapping[str, Any]) -> list[Detections]:
    """What is selected, all pictures together, those that come first as the greatest scores.

    A box that is in no output is a square of its own for each number.

    Raises:
        ValueError: the outputs are not as the layout says.
    """
    rows = as_tensor(values[layout.indices])
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise ValueError(f"selections have the shape {list(rows.shape)}, and are to be [selections, 3]")
    rows = rows[(rows >= 0).all(1)].astype(np.int64)  # padding is -1
    if not len(rows):
        return [NONE]
    picture, label, place = rows.T
    if layout.boxes is None:
        boxes = around(np.stack([3.0 * place, np.zeros(len(place))], -1), np.ones((len(place), 2)))
    else:
        four = as_tensor(values[layout.boxes]).astype(np.float64)[picture, place]
        ends = four[:, :2], four[:, 2:]
        corners = np.concatenate([np.minimum(*ends), np.maximum(*ends)], 1)  # of any two that are opposite
        boxes = around(*ends) if layout.form == "cxcywh" else corners
    apart = picture * _CLASSES + label  # a class of one picture
    return [Detections(boxes, -np.arange(len(rows), dtype=np.float64), apart)]
