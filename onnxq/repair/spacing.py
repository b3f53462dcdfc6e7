"""Evenly spaced values: whether what a tensor holds lies on so few levels that each has an int8 code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from onnxq.formats import INT8
from onnxq.repair.found_edits import NoFit

CODES = INT8.ends[1] - INT8.ends[0] + 1
"""So many codes int8 has, -128..127; activations may have the least one, weights have it not."""

_LOOKED = 1 << 18  # values of a sample, about
_MANY = 16 * CODES  # distinct values: rounding makes several of one level
_FEW, _FEW_EACH = 3, 16  # distinct values: fewer lie on a lattice by chance
_NOISE = 2.0**-20  # of the greatest magnitude: the rounding of float32, and of what made the values
_EXACT = 1e-3  # of a step
_EQUAL = 1e-5  # by which steps may differ that are one


@dataclass(frozen=True, slots=True)
class Spacing:
    """`centre + step * code`, a code -128..127.

    Attributes:
        centres: float64, one or one a channel.
        steps: likewise.
        channels: whether there is one a channel.
        ends: the least and the greatest value that were seen.
    """

    centres: np.ndarray
    steps: np.ndarray
    channels: bool
    ends: tuple[float, float]

    @property
    def step(self) -> float:
        """The greatest step."""
        return float(self.steps.max())

    @property
    def factors(self) -> np.ndarray:
        """What makes all steps the greatest one, float64; 1 where they are equal but for rounding."""
        factors: np.ndarray = self.step / self.steps
        return np.ones_like(factors) if (factors < 1 + _EQUAL).all() else factors


def spacing_of(samples: Iterable[np.ndarray], axis: int | None) -> Spacing:
    """The levels that values lie on.

    Args:
        samples: arrays of any shape; they are gone through once.
        axis: the channel axis, along which levels may differ; None: they may not.

    Raises:
        NoFit: the values are on no lattice of at most 256 levels.
    """
    seen = _seen(samples, axis)
    noise = _NOISE * max((float(np.abs(one).max()) for one in seen if len(one)), default=0.0)
    if noise == 0:
        raise NoFit("always-zero")
    try:
        return _found([_clusters(np.unique(np.concatenate(seen)), noise)], noise, _FEW)
    except NoFit:
        if axis is None or len(seen) < 2:
            raise
        return _found([_clusters(one, noise) for one in seen], noise, _FEW_EACH)


def is_exact(spacing: Spacing, scale: float) -> bool:
    """Whether a scale gives each level a code of its own, without an error, as it is."""
    if spacing.channels:
        return False
    codes = np.array([*spacing.ends, spacing.step]) / scale
    least, greatest = codes.min(), codes.max()
    held = least > -CODES / 2 - _EXACT and greatest < CODES / 2 - 1 + _EXACT
    return bool(held and np.abs(codes - np.rint(codes)).max() < _EXACT)


def _seen(samples: Iterable[np.ndarray], axis: int | None) -> list[np.ndarray]:
    """The distinct values of each channel, float64, ascending."""
    seen: list[np.ndarray] = []
    for array in samples:
        values = np.asarray(array)
        if values.size == 0:
            continue
        if axis is None:
            rows = values.reshape(1, -1)
        else:
            rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        if not np.isfinite(rows).all():
            raise NoFit("not-finite")
        seen = seen or [np.empty(0)] * len(rows)
        if len(rows) != len(seen):
            raise NoFit("spacing")
        step = -(-values.size // _LOOKED) | 1  # odd, as sizes of images are even
        for channel, row in enumerate(rows):
            distinct = np.unique(np.append(row[::step], (row.min(), row.max())))
            seen[channel] = np.union1d(seen[channel], distinct.astype(np.float64))
            if len(seen[channel]) > _MANY:
                raise NoFit("many-values", most=CODES)
    if not seen:
        raise NoFit("no-sample")
    return seen


def _clusters(values: np.ndarray, noise: float) -> np.ndarray:
    """Sorted values, those that differ by rounding taken together."""
    if not len(values):
        return values
    starts = np.flatnonzero(np.append(True, np.diff(values) > 2 * noise))
    ends = np.append(starts[1:], len(values)) - 1
    centres: np.ndarray = (values[starts] + values[ends]) / 2
    if len(centres) > CODES:
        raise NoFit("many-values", most=CODES)
    return centres


def _found(points: list[np.ndarray], noise: float, few: int) -> Spacing:
    """The levels of each channel; a channel with one value has the step of the others."""
    steps, lows, spans = np.zeros(len(points)), np.zeros(len(points)), np.zeros(len(points))
    for channel, found in enumerate(points):
        if 1 < len(found) < few or (len(found) < few and len(points) == 1):
            where = f"channel {channel}" if len(points) > 1 else "it"
            raise NoFit("few-values", where=where, count=len(found))
        lows[channel] = found[0] if len(found) else 0.0
        if len(found) > 1:
            steps[channel], lows[channel], spans[channel] = _line(found, noise)
    if not steps.any():
        raise NoFit("few-values.one")
    steps[steps == 0] = steps.max()
    if (steps.max() / steps < 1 + _EQUAL).all():
        steps[:] = np.median(steps)
    centres = [_centre(*one, noise) for one in zip(lows, steps, spans, strict=True)]
    ends = min(float(one[0]) for one in points), max(float(one[-1]) for one in points)
    return Spacing(np.array(centres), steps, len(points) > 1, ends)


def _line(points: np.ndarray, noise: float) -> tuple[float, float, float]:
    """The step of points, the first one, and how many steps away the last one is."""
    gaps = np.diff(points)
    step = float(gaps.min())
    while True:
        count = np.rint(gaps / step)
        if count.sum() >= CODES:
            raise NoFit("not-even.lattice", levels=CODES)
        rest = np.abs(gaps - count * step)
        rest = rest[rest > 2 * noise * (1 + count)]
        if not len(rest):
            break
        step = float(rest.min())
    places = np.append(0.0, np.cumsum(count))
    step, low = map(float, np.polyfit(places, points, 1))
    if np.abs(points - (low + step * places)).max() > noise or noise > _EXACT * step:
        raise NoFit("not-even")
    return step, low, float(places[-1])


def _centre(low: float, step: float, span: float, noise: float) -> float:
    """The level that code 0 is for: zero, where that leaves each value a code."""
    first = low / step
    if abs(first - round(first)) * step > 2 * noise:
        return low + step * _middle(0, round(span))
    at = round(first)
    return step * _middle(at, at + round(span))


def _middle(first: int, last: int) -> int:
    half = CODES // 2
    if first >= -half and last < half:
        return 0
    if first >= 0 and last < CODES:  # what begins at zero ends at 255, whether or not a sample shows it
        return half
    return first - (CODES - (last - first)) // 2 + half
