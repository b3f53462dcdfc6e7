"""Whether the channels of images, or the mean taken from them, look reversed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from onnxq.data.image_options import IMAGENET_MEAN, IMAGENET_STD
from onnxq.data.images import Preparation
from onnxq.data.survey import InputSurvey

_SAMPLES = 8  # at least
_CERTAIN = 3.0  # standard errors
_WIDE = (1.0, 2.0, 255.0)  # from black to white: 0 to 1, -1 to 1, 0 to 255
_OTHER_SCENES = 0.1  # of the range of pixels: ImageNet's means and their reverse differ by 0.11


def is_mean_reversed(made: Preparation) -> bool:
    """Whether ImageNet's mean is subtracted in the other order than that of the channels."""
    mean = np.array(made.mean) / (made.scale * 255)
    other = np.array(IMAGENET_MEAN if made.color == "bgr" else IMAGENET_MEAN[::-1])
    return len(mean) == 3 and bool(np.abs(mean - other).max() < 0.01)


def reversed_in(entry: InputSurvey) -> Literal["values", "mean"] | None:
    """What is in reverse order in arrays, as far as the means of their channels tell.

    Photographs have more red than blue, by about what ImageNet has. Those of another data set may
    not: the answer is None unless the means differ from a reversed order by less than it has itself,
    and by less than half of what they differ from a right one, and the samples agree.

    Returns:
        `values`: the channels are in the order BGR; `mean`: ImageNet's mean was subtracted in
        reverse; None: neither, or nothing can be told.
    """
    if entry.channels is None or not _samples_agree(entry):
        return None
    mean, photographs = entry.channels.mean, _tint(IMAGENET_MEAN)
    scale = _pixel_scale(entry)
    if scale is not None:
        return "values" if _nearer(_tint(mean * scale), photographs[::-1], photographs) else None
    if not _is_normalized(entry):
        return None
    left, rest = photographs - photographs[::-1], _tint(mean * IMAGENET_STD)
    return "mean" if any(_nearer(rest, sign * left, np.zeros(3)) for sign in (1, -1)) else None


def turned_beside(entry: InputSurvey, other: InputSurvey) -> bool:
    """Whether pictures of equal values have the channels of the other ones in reverse order, by their means.

    Where these hardly differ from channel to channel, as behind ImageNet's mean, nothing can be told.
    """
    if not (_samples_agree(entry) and _samples_agree(other)) or None in (entry.channels, other.channels):
        return False
    scale = _pixel_scale(entry)
    seen, known = (_tint(one.channels.mean) for one in (entry, other) if one.channels is not None)
    if scale is None or scale * float(np.linalg.norm(seen - known)) < _OTHER_SCENES:
        return False
    return _nearer(seen, known[::-1], known)


def is_centred(entry: InputSurvey) -> bool:
    """Whether pictures of three channels lost a mean of each: what is left of these tells no order."""
    if entry.channels is None or len(entry.channels.mean) != 3:
        return False
    if entry.preparation is not None:
        return len(set(entry.preparation.mean)) > 1
    return (entry.min or 0.0) < -1.001


def has_pixels(*entries: InputSurvey) -> bool:
    """Whether inputs have three channels, and all of them values from black to white: others have no ends."""
    return all(
        one.channels is not None and len(one.channels.mean) == 3
        and (_is_as_wide_as_pixels(one) or _is_normalized(one))
        for one in entries
    )  # fmt: skip


def _is_as_wide_as_pixels(entry: InputSurvey) -> bool:
    """Whether the values lie as far apart as black and white, or a twentieth less; a mean may be taken."""
    wide = (entry.max or 0.0) - (entry.min or 0.0)
    return any(0.95 * most <= wide <= 1.001 * most for most in _WIDE)


def _samples_agree(entry: InputSurvey) -> bool:
    """Whether the first and the third channel differ by more than chance."""
    if entry.tint is None or entry.tint.count < _SAMPLES:
        return False
    error = float(entry.tint.std[0]) / float(np.sqrt(entry.tint.count))
    return bool(abs(entry.tint.mean[0]) > _CERTAIN * error)


def _tint(means: Sequence[float] | np.ndarray) -> np.ndarray:
    """How the channels differ from their average, which is the brightness."""
    array: np.ndarray = np.asarray(means, np.float64)
    tint: np.ndarray = array - array.mean()
    return tint


def _nearer(seen: np.ndarray, this: np.ndarray, other: np.ndarray) -> bool:
    bound = min(0.5 * np.linalg.norm(seen - other), np.linalg.norm(this))
    return bool(np.linalg.norm(seen - this) < bound)


def _pixel_scale(entry: InputSurvey) -> float | None:
    """The factor that makes differences of values those of pixels from 0 to 1."""
    low, high = entry.min or 0.0, entry.max or 0.0
    if low >= 0:
        return 1.0 if high <= 1.001 else 1 / 255 if 50 < high <= 255.5 else None
    return 0.5 if low >= -1.001 and high <= 1.001 else None


def _is_normalized(entry: InputSurvey) -> bool:
    """Whether the values lie as ImageNet's mean and std leave them: from -2.12 to 2.64."""
    low, high = entry.min or 0.0, entry.max or 0.0
    return -2.3 <= low < -1.001 and 1.001 < high <= 2.8
