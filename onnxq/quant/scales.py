"""Scales: from the ranges of tensors to those of a format, zero point 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxq.formats import INT8, NumberFormat
from onnxq.quant.plan import QuantPlan


def activation_scales(plan: QuantPlan, amax: Mapping[str, float]) -> dict[int, np.float32]:
    """The scale of each group of activations: the widest range of its sources.

    Args:
        plan: the plan.
        amax: the largest magnitude of each group's sources, by tensor.

    Returns:
        The scale, by group.
    """
    numbers = plan.numbers_of
    return {
        group.id: np.float32(numbers[group.id].scale(max(amax[name] for name in group.sources)))
        for group in plan.shared
    }


def weight_amax(weights: np.ndarray, axis: int | None) -> np.ndarray:
    """The largest magnitude of each output channel.

    Args:
        weights: float32 weights of any shape.
        axis: the output-channel axis, None for one of all.

    Returns:
        float32 [channels], or [].
    """
    others = tuple(i for i in range(weights.ndim) if i != axis)
    return np.asarray(np.max(np.abs(weights), axis=others, initial=0.0), np.float32)


def quantize_weights(
    weights: np.ndarray, axis: int | None, amax: np.ndarray | None = None, format: NumberFormat = INT8
) -> tuple[np.ndarray, np.ndarray]:
    """The codes of weights with one scale an output channel.

    Args:
        weights: float32 weights of any shape.
        axis: the output-channel axis, None for one scale.
        amax: the magnitudes that the largest codes stand for, float32 [channels] or []; None: the largest.
        format: of the codes.

    Returns:
        Codes of the weights' shape, and float32 scales, [channels] or [].
    """
    scales = format.scale(weight_amax(weights, axis) if amax is None else amax)
    return format.codes(weights, along(scales, axis, weights.ndim)), scales


def along(scales: np.ndarray, axis: int | None, rank: int) -> np.ndarray:
    """Scales [channels] or [] so that they spread to weights of a rank."""
    return scales if axis is None else scales.reshape([-1 if i == axis else 1 for i in range(rank)])
