"""What the codes of weights cover: all of each channel, or as much as a `[[layer]]` says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.formats import NumberFormat
from onnxq.judge.sqnr import power, sqnr_db
from onnxq.options.config import LayerRule
from onnxq.options.parameters import stated
from onnxq.quant.scales import along, quantize_weights, weight_amax
from onnxq.quant.thresholds import Method

Weights = dict[tuple[str, int | None], np.ndarray]
"""The magnitudes that quantized constants cover, by name and channel axis: float32 [channels] or []."""

# One value of n clipped by d costs d^2, and the finer steps save about 2 n d amax / (12 x 127^2): less than
# 1 % of amax pays in any channel of ordinary size.
_FACTORS = 1 - 0.5 * np.linspace(0, 1, 64) ** 2


def amax_of(weights: np.ndarray, axis: int | None, rule: LayerRule, format: NumberFormat) -> np.ndarray:
    """The magnitudes that the largest codes of weights stand for.

    Args:
        weights: float32 weights of any shape.
        axis: the channel axis, None for one of all.
        rule: what it says of weights: an amax, or a method of `WEIGHT_METHODS`.
        format: what they are quantized to.

    Returns:
        float32 [channels], or [].
    """
    top = weight_amax(weights, axis)
    if rule.amax is not None:
        return np.full_like(top, rule.amax)
    named = Method(rule.method or "minmax", **stated(rule))
    threshold = named.kind.weights
    if threshold is None:
        raise UserError(f"method {named.name} is for activations", hint="for weights give minmax, or amax")
    of_channels: np.ndarray = threshold(weights, axis, top, *named.arguments, **named.asking(format))
    return of_channels


@dataclass(frozen=True, slots=True)
class WeightsStated(DocumentPart):
    """What an entry of the configuration, `[[layer]] of = "weights"`, makes of a layer's weights.

    Attributes:
        node: the first layer that reads them.
        because: which entry, and what it says.
        db: their signal to rounding and clipping noise, dB; inf where there is none.
        whole_db: the same by their greatest magnitudes, as weights are where nothing is said.
    """

    node: str
    because: str
    db: float
    whole_db: float

    @property
    def lost_db(self) -> float:
        """What the entry costs them, dB."""
        return self.whole_db - self.db if math.isfinite(self.db) else 0.0


def kept_db(weights: np.ndarray, axis: int | None, amax: np.ndarray | None, format: NumberFormat) -> float:
    """The signal to noise of quantized weights, dB.

    Args:
        weights: float32 weights of any shape.
        axis: the channel axis, None for one of all.
        amax: the magnitudes of the greatest codes, float32 [channels], or []; None: the greatest magnitudes.
        format: what they are quantized to.
    """
    codes, scales = quantize_weights(weights, axis, amax, format)
    steps = along(scales, axis, weights.ndim)
    exact = weights.astype(np.float64).reshape(-1)
    error = format.values(codes, steps).astype(np.float64).reshape(-1) - exact
    return sqnr_db(power(exact), power(error))


def channels(weights: np.ndarray, axis: int | None) -> np.ndarray:
    """The weights as [channels, others], one channel where there is no axis."""
    return (
        weights.reshape(1, -1)
        if axis is None
        else np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    )


def least_error(weights: np.ndarray, axis: int | None, top: np.ndarray, format: NumberFormat) -> np.ndarray:
    """The magnitudes of the least squared error, of 64 down to half of the greatest, most of them near it.

    Args:
        weights: float32 weights of any shape.
        axis: the channel axis, None for one of all.
        top: the greatest magnitudes, float32 [channels], or [].
        format: what they are quantized to.
    """
    best, least = top, np.full(top.shape, np.inf)
    for factor in _FACTORS:
        tried = np.asarray(top * np.float32(factor), np.float32)
        codes, scales = quantize_weights(weights, axis, tried, format)
        off = channels(format.values(codes, along(scales, axis, weights.ndim)) - weights, axis)
        error = np.sum(off * off, axis=1, dtype=np.float64).reshape(top.shape)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best
