"""What edits make of the statistics of a model's activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from onnxq.calib.stats import Stats, TensorStats
from onnxq.repair.affine import ChannelMap


def moved(stats: Stats, maps: Mapping[str, ChannelMap]) -> Stats:
    """Statistics after edits: of what they change the ends alone, which hold all values, and perhaps more."""
    changed = {name: _moved(stats.tensors[name], maps[name]) for name in maps if name in stats.tensors}
    return replace(stats, tensors={**stats.tensors, **changed}) if changed else stats


def _moved(found: TensorStats, change: ChannelMap) -> TensorStats:
    scale, offset = np.atleast_1d(change.scale), np.atleast_1d(change.offset)
    held = found.lows <= found.highs
    ends = np.stack([end[:, None] * scale + offset for end in (found.lows, found.highs)])
    lows = np.where(held, ends.min((0, 2)), found.lows).astype(np.float32)
    highs = np.where(held, ends.max((0, 2)), found.highs).astype(np.float32)
    return TensorStats(lows, highs, found.size, None, None)
