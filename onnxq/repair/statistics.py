"""What edits need to know of the channels of activations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.plan import QuantPlan

Channels = Mapping[str, np.ndarray]
"""The greatest magnitude of each channel over the samples, float32 [channels], by tensor, in float."""

_SECOND = ("Conv", "ConvTranspose", "BatchNormalization", "MaxPool", "AveragePool", "GlobalAveragePool")
_KEEP = ("Identity", "Relu", "LeakyRelu", "PRelu", "Clip", "Concat")
_LAST = ("MatMul", "LayerNormalization", "SimplifiedLayerNormalization")


def channel_axes(model: Model, plan: QuantPlan) -> dict[str, int]:
    """The channel axis of the quantized and measured tensors that have one: what to ask of calibration.

    Args:
        model: the float model before any edit.
        plan: its plan.
    """
    tensors = model.tensors()
    wanted = dict.fromkeys(
        (*plan.measured, *(site.tensor for site in plan.sites if site.kind == "activation"))
    )
    axes = {name: channel_axis(tensors[name]) for name in wanted if name in tensors}
    return {name: axis for name, axis in axes.items() if axis is not None}


def channel_axis(tensor: Tensor, steps: int = 4) -> int | None:
    """The channel axis of a tensor, counted from the front, by what reads it, else by what writes it.

    None where nothing tells, or readers disagree.

    Args:
        tensor: the tensor.
        steps: through how many operators that keep channels apart readers are followed.
    """
    rank = tensor.rank
    if rank is None or rank < 2:
        return None
    told = {_axis_in(node, tensor, rank, steps) for node in tensor.users} - {None}
    if not told and tensor.producer is not None:
        told = {_axis_of(tensor.producer, rank)} - {None}
    return told.pop() if len(told) == 1 else None


def followed(channels: Channels, maps: Mapping[str, ChannelMap]) -> dict[str, np.ndarray]:
    """The magnitudes after edits; without those that an offset made others, which nobody knows."""
    greatest = {}
    for name, amax in channels.items():
        change = maps.get(name)
        if change is None or change.wide:
            greatest[name] = amax
        elif not np.any(change.offset):
            kept = amax if change.index is None else amax[change.index]
            greatest[name] = np.asarray(kept * np.abs(change.scale), np.float32)
    return greatest


def _axis_in(node: Node, tensor: Tensor, rank: int, steps: int) -> int | None:
    if node.domain or node.inputs[0] != tensor:
        return None
    if node.op == "Gemm":
        return 0 if node.attr("transA", 0) else 1
    if node.op in (*_KEEP, "Transpose") and steps and node.outputs[0].rank == rank:
        axis = channel_axis(node.outputs[0], steps - 1)
        if axis is None or node.op != "Transpose":
            return axis
        return int(list(node.attr("perm") or reversed(range(rank)))[axis])
    return _axis_of(node, rank)


def _axis_of(node: Node, rank: int) -> int | None:
    if node.op in _SECOND or (node.op == "Gemm" and not node.domain):
        return 1
    return rank - 1 if node.op in _LAST else None
