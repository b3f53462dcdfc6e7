"""Whether images look as if they were in YUV, and not in RGB."""

from __future__ import annotations

import numpy as np

from onnxq.data.survey import InputSurvey

_MIDDLE = 0.04  # of the range: how far the mean of U and V over many images may be from its middle
_SPREAD = 0.5  # U and V of photographs vary far less than Y does; R, G and B vary alike
_SAMPLES = 4  # at least


def is_yuv(entry: InputSurvey) -> bool:
    """Whether the first channel of images varies, and the others stay near the middle of the range.

    In YUV (BT.601, BT.709) a gray pixel has U = V = 128 of 255, so that over photographs the means of both
    are there, and their deviations are small beside that of Y. Known of images from 0 to 255 and from 0 to 1,
    in the order Y, U, V.
    """
    if entry.channels is None or entry.layout is None or len(entry.channels.mean) != 3:
        return False
    if entry.min is None or entry.max is None or entry.min < 0 or sum(entry.shapes.values()) < _SAMPLES:
        return False
    if entry.max <= 1.001:
        full = 1.0
    elif 50 < entry.max <= 255.5:
        full = 255.0
    else:
        return False
    mean, std = entry.channels.mean / full, entry.channels.std / full
    near = np.abs(mean[1:] - 128 / 255) < _MIDDLE
    return bool(near.all() and (std[1:] > 0).all() and (std[1:] < _SPREAD * std[0]).all())
