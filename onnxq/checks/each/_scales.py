"""Scales in half precision."""

from __future__ import annotations

import numpy as np

from onnxq.graph.pairs import Pair


def is_half(pair: Pair) -> bool:
    """Whether the scale of a pair is float16."""
    return pair.scale is not None and pair.scale.dtype == np.float16
