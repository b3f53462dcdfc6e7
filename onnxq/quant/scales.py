"""Scales: from the ranges of tensors to symmetric int8, zero point 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxq.quant.plan import QuantPlan

INT8_MAX = 127
"""Codes are -127..127: TensorRT's int8 is symmetric (NVIDIA, "Working with quantized types")."""

# A smaller scale is not a normal float32; TensorRT asks for positive scales.
_MIN_SCALE = 1e-37


def scale_of(amax: float) -> np.float32:
    """The scale of a range -amax..amax: amax / 127 (1 for a tensor that is always zero)."""
    scale: np.float32 = np.float32(amax / INT8_MAX if amax / INT8_MAX > _MIN_SCALE else 1.0)
    return scale


def activation_scales(plan: QuantPlan, amax: Mapping[str, float]) -> dict[int, np.float32]:
    """The scale of each group of activations: the widest range of its sources.

    Args:
        plan: the plan.
        amax: the largest magnitude of each group's sources, by tensor.

    Returns:
        The scale, by group.
    """
    used = {site.group for site in plan.sites if site.kind == "activation"}
    return {
        group.id: scale_of(max(amax[name] for name in group.sources))
        for group in plan.groups
        if group.id in used
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
    weights: np.ndarray, axis: int | None, amax: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 weights with one scale an output channel.

    Args:
        weights: float32 weights of any shape.
        axis: the output-channel axis, None for one scale.
        amax: the magnitudes that the largest codes stand for, float32 [channels] or []; None: the largest.

    Returns:
        int8 codes of the weights' shape, and float32 scales, [channels] or a scalar; codes x scale
        is the nearest multiple of the scale, ties to even (ONNX, QuantizeLinear).
    """
    found = weight_amax(weights, axis) if amax is None else amax
    if axis is not None:
        found = found.reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
    scales = (found / np.float32(INT8_MAX)).astype(np.float32)
    scales = np.where(scales > _MIN_SCALE, scales, np.float32(1.0))
    codes = np.clip(np.rint(weights / scales), -INT8_MAX, INT8_MAX).astype(np.int8)
    return codes, scales.reshape(-1) if axis is not None else scales.reshape(())
