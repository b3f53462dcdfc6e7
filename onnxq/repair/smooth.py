"""Smooth: what is hard to quantize in a tensor moves into the weights that read it (SmoothQuant).

    s_c = max|x_c|^α / max|W_c|^(1 - α)        x_c / s_c, W_c s_c

The inverse factors go into what writes the tensor: the gamma and beta of a normalization, a constant that is
multiplied, the layer of the linear side of a gate, or that which gives the values of attention. Not through
Relu and its like: there the outputs lose by it.

Of α nothing is known beforehand: the outputs choose it (Xiao et al. 2022, arXiv:2211.10438).
"""

from __future__ import annotations

import numpy as np

from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.quant.draft.draft import Draft
from onnxq.repair.flow import Flow
from onnxq.repair.found_edits import FoundEdits, NoFit
from onnxq.repair.scale import Scale, column_magnitudes, ratios, read_by_layers, readers, spread
from onnxq.repair.statistics import Channels

_WIDEST = (1e-2, 1e2)
"""Factors are within these, of their geometric mean."""


def find(model: Model, draft: Draft, channels: Channels, alpha: float = 0.5) -> FoundEdits:
    """The tensors that can be smoothed, with this α.

    Args:
        model: with the draft's edits.
        draft: the plan, and the ranges after the edits.
        channels: the magnitudes of channels after the edits.
        alpha: how much moves, 0 to 1: 1 makes all channels alike.
    """
    edits: list[Scale] = []
    skipped: dict[str, str] = {}
    taken: set[str] = set()
    for tensor, amax, axis in read_by_layers(model, draft.plan, channels):
        if tensor.name in taken or len(amax) < 2:
            continue
        factors = _factors(tensor, amax, alpha)
        if factors is None:
            continue
        flow = Flow(model, linear=True)
        try:
            flow.scale(*spread(tensor, axis, factors))
            if not taken.isdisjoint(flow.factors):
                raise NoFit("smoothed-already")
            flow.writer.check()
        except NoFit as error:
            skipped[tensor.name] = error.why
            continue
        changed = ratios(flow, draft, channels)
        edits.append(Scale(tensor.name, axis, tuple(factors.tolist()), changed, "smooth"))
        taken |= set(flow.factors)
    return FoundEdits(tuple(edits), skipped)


def _factors(tensor: Tensor, amax: np.ndarray, alpha: float) -> np.ndarray | None:
    """1 / s of each channel, float64 values of float32; None where there is nothing to gain."""
    columns = [column_magnitudes(node, len(amax), largest=True) for node in readers(tensor)]
    magnitudes = [found.max(0) for found in columns if found is not None]
    if not magnitudes:
        return None
    weights = np.max(magnitudes, axis=0)
    alive = (amax > 0) & (weights > 0)
    if not alive.any():
        return None
    s = np.ones(len(amax))
    s[alive] = amax[alive] ** alpha / weights[alive] ** (1 - alpha)
    s[alive] /= np.exp(np.mean(np.log(s[alive])))
    factors = 1 / np.clip(s, *_WIDEST)
    factors[~alive] = 1.0
    return np.asarray(factors, np.float32).astype(np.float64)
