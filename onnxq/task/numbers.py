"""Answers that are numbers: points of a thing, depth, flow and pictures, near enough to the float model's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.judge.sqnr import sqnr_db
from onnxq.task.layout import DenseMap, Points

DEPTH_RATIO = 1.25
"""A depth is kept within so many times the float model's: the delta of depth benchmarks (arXiv 1406.2283)."""

DEPTH_SHARE = 0.02
"""Or within such a part of what depths of the picture range over: near 0 a ratio says nothing."""

FLOW_PIXELS, FLOW_SHARE = 3.0, 0.05
"""A flow is kept within so many pixels, or that part of its length (KITTI's outliers are beyond both)."""

IMAGE_DB = 35.0
"""A picture is kept from so much PSNR on: an error of 4.5 of 255 levels, which JPEG's usual quality has."""

_WIDEST = 2.0  # values up to there are of pictures whose white is 1

_END = 0.1  # so near 0 or 1 a probability is sure
_SURE, _EITHER = 0.75, 0.01  # parts of a mask's values that are sure at all, and of 0 and of 1 each


def is_mask(values: Iterable[Any]) -> bool:
    """Whether probabilities are those of a mask: most are sure, of both answers.

    A depth is spread between its ends, and a map of peaks is nearly 0 everywhere.

    Args:
        values: an output's, 0 to 1, of some samples.
    """
    parts = [(flat.size, (flat < _END).sum(), (flat > 1 - _END).sum()) for flat in map(np.ravel, values)]
    whole, low, high = np.sum(parts, axis=0) if parts else (0, 0, 0)
    return bool(whole and low + high >= _SURE * whole and min(low, high) >= _EITHER * whole)


def moved_points(layout: Points, wanted: np.ndarray, given: np.ndarray) -> np.ndarray:
    """How far points are off, on average, as a part of the thing's size: of each of a batch; NaN of no size.

    The size is the diagonal of the box around the float model's points.

    Raises:
        UserError: the output is none of points.
    """
    rows = wanted.reshape(len(wanted), -1) if wanted.ndim > 1 else wanted[None]
    if not rows.size or rows.shape[1] % layout.dims:
        raise UserError(
            f"output {layout.output!r} has the shape {list(wanted.shape)}, and is to be points of "
            f"{layout.dims} numbers",
            hint="state another layout with --task: onnxq help layout",
        )
    ours, theirs = (
        np.asarray(one, np.float64).reshape(len(rows), -1, layout.dims) for one in (wanted, given)
    )
    size = np.linalg.norm(ours.max(1) - ours.min(1), axis=-1)
    off = np.linalg.norm(ours - theirs, axis=-1).mean(1)
    off = np.where(np.isnan(off), np.inf, off)
    return np.asarray(np.divide(off, size, out=np.full(len(rows), np.nan), where=size > 0))


def kept_of_map(layout: DenseMap, wanted: np.ndarray, given: np.ndarray) -> np.ndarray:
    """What is kept of each picture of a batch: the share of its pixels, of images 1 or 0.

    Raises:
        UserError: the output is no map.
    """
    if wanted.ndim not in (3, 4) or (layout.what == "flow" and (wanted.ndim < 4 or wanted.shape[1] != 2)):
        raise UserError(
            f"output {layout.output!r} has the shape {list(wanted.shape)}, and is to be "
            f"[batch, {2 if layout.what == 'flow' else 'channels'}, height, width]",
            hint="state another layout with --task: onnxq help layout",
        )
    kept = {"depth": _depth, "flow": _flow, "image": _image}[layout.what]
    return np.array([kept(*pair) for pair in zip(wanted.astype(float), given.astype(float), strict=True)])


def _depth(wanted: np.ndarray, given: np.ndarray) -> float:
    span = float(np.ptp(wanted[np.isfinite(wanted)])) if np.isfinite(wanted).any() else 0.0
    near = np.abs(given - wanted) <= DEPTH_SHARE * span
    ends = wanted / DEPTH_RATIO, wanted * DEPTH_RATIO
    return float(np.mean(near | ((given > np.minimum(*ends)) & (given < np.maximum(*ends)))))


def _flow(wanted: np.ndarray, given: np.ndarray) -> float:
    off, length = (np.linalg.norm(one, axis=0) for one in (given - wanted, wanted))
    return float(np.mean(off <= np.maximum(FLOW_PIXELS, FLOW_SHARE * length)))


def _image(wanted: np.ndarray, given: np.ndarray) -> float:
    white = 255.0 if float(np.abs(wanted).max(initial=0.0)) > _WIDEST else 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        error = float(np.mean((given - wanted) ** 2))
    return float(sqnr_db(white**2, error) >= IMAGE_DB)
