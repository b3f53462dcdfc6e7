"""Moving a number out of a tensor: into what writes it, and back in at what reads it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.moves import REARRANGES
from onnxq.graph.view import Node, Tensor
from onnxq.quant.draft.edits import ChannelMap
from onnxq.repair.found_edits import NoFit
from onnxq.repair.writer import Writer

_BIAS = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "BatchNormalization": 2}


def lower(
    tensor: Tensor, by: float, writer: Writer, quantized: Collection[str], maps: dict[str, ChannelMap]
) -> None:
    """Makes what writes a tensor write `by` less.

    Args:
        tensor: read by one node.
        by: how much less.
        writer: is given the constants.
        quantized: names of tensors that have pairs, whose values are to stay.
        maps: is told what becomes of which tensors.

    Raises:
        NoFit: no constant on the way takes it.
    """
    while True:
        if tensor.name in quantized:
            raise NoFit("front", tensor=tensor.name)
        if tensor.is_output or len(tensor.users) != 1 or len(tensor.tensor.outputs) != 1:
            raise NoFit("front.several", tensor=tensor.name)
        maps[tensor.name] = ChannelMap.of(offset=-by)
        node = tensor.producer
        if node is None:
            raise NoFit("front.input", tensor=tensor.name)
        if node.op not in REARRANGES or node.domain:
            _lower_by(node, by, writer)
            return
        source = node.inputs[0]
        assert source is not None
        tensor = source


def _lower_by(node: Node, by: float, writer: Writer) -> None:
    if not node.domain and node.op in ("Add", "Sub"):
        for index in (1, 0):
            values = writer.value(node, index)
            if values is not None:
                sign = -1.0 if node.op == "Add" or index == 0 else 1.0
                writer.put(node, index, values + sign * by)
                return
    if node.domain or node.op not in _BIAS:
        raise NoFit("no-bias.front", node=node.name, op=node.op)
    index = _BIAS[node.op]
    if writer.has(node, index):
        values = writer.value(node, index)
        beta = float(node.attr("beta", 1.0)) if node.op == "Gemm" else 1.0
        if values is None:
            raise NoFit("bias-is-computed.front", node=node.name)
        if beta == 0 or node.attr("training_mode", 0):
            raise NoFit("no-beta.front", node=node.name)
        writer.put(node, index, values - by / beta)
        return
    layer = layer_of(node)
    if layer is None or len(node.inputs) < index:
        raise NoFit("weights-are-computed", node=node.name)
    if node.op == "Gemm" and node.attr("beta", 1.0) != 1.0:
        raise NoFit("no-beta.front-factor", node=node.name)
    writer.put(node, index, np.full(layer.outputs, -by))


def restore(
    node: Node,
    tensor: Tensor,
    by: float | np.ndarray,
    writer: Writer,
    maps: dict[str, ChannelMap],
    *,
    padded: bool = False,
) -> None:
    """Makes a layer that reads `by` less write what it wrote.

    A convolution without padding sums all of its taps over real values at each position, whatever its
    kernel, stride and dilation: what it writes less is `by` times the sum of its weights, a channel.

    Args:
        node: the layer.
        tensor: what it reads less of.
        by: how much less: one number, or one for each input channel, float64.
        writer: is given the constants.
        maps: is told what becomes of which tensors.
        padded: whether a convolution will read its padding from the tensor, before it is less.

    Raises:
        NoFit: it is no layer that can.
    """
    layer = layer_of(node)
    if layer is None or node.op == "ConvTranspose" or layer.index != 1 or node.inputs[0] != tensor:
        raise NoFit("reads-it", node=node.name, op=node.op)
    weights = np.asarray(layer.weight.constant, np.float64)
    if not np.isfinite(weights).all():
        raise NoFit("not-finite.weights", tensor=layer.weight.name)
    less = weights * by_column(layer, by) if isinstance(by, np.ndarray) else weights * by
    sums = less.sum(axis=tuple(a for a in range(weights.ndim) if a != layer.axis))
    if node.op == "MatMul":
        _restore_behind(node, sums, writer, maps, layer.weight.rank)
        return
    if node.op == "Conv" and pads(node) and not padded:
        raise NoFit("padding.zeros", node=node.name)
    beta = 1.0
    if node.op == "Gemm":
        beta = float(node.attr("beta", 1.0))
        sums = sums * float(node.attr("alpha", 1.0))
    if not writer.has(node, 2):
        if beta != 1.0:
            raise NoFit("no-beta.factor", node=node.name)
        writer.put(node, 2, sums)
        return
    bias = writer.value(node, 2)
    if bias is None or beta == 0:
        raise NoFit("bias-is-computed.node", node=node.name)
    writer.put(node, 2, _plus(node, bias, sums / beta))


def by_column(layer: Layer, values: np.ndarray) -> np.ndarray:
    """One number for each input channel of a layer, as its weights are laid out, to be multiplied with them.

    Args:
        layer: its weights are the second input; no ConvTranspose.
        values: [inputs].

    Raises:
        NoFit: the layer has another number of input channels.
    """
    if values.size != layer.inputs:
        raise NoFit("other-channels.count", node=layer.node.name, inputs=layer.inputs, given=values.size)
    rank = layer.weight.rank or 2
    if layer.node.op == "Conv":  # [outputs, inputs of a group, ...]
        groups = layer.groups
        wide = np.repeat(values.reshape(groups, -1), layer.outputs // groups, 0)
        return wide.reshape(*wide.shape, *[1] * (rank - 2))
    place = rank - 2 if layer.node.op == "MatMul" else 1 - layer.axis
    return values.reshape([-1 if axis == place else 1 for axis in range(rank)])


def _restore_behind(
    node: Node, sums: np.ndarray, writer: Writer, maps: dict[str, ChannelMap], rank: int | None
) -> None:
    out = node.outputs[0]
    adds = out.users
    if rank != 2:
        raise NoFit("several-matrices.product", node=node.name)
    if out.is_output or len(adds) != 1 or adds[0].op != "Add" or adds[0].domain:
        raise NoFit("no-bias.node", node=node.name)
    (add,) = adds
    index = 1 if add.inputs[0] == out else 0
    bias = writer.value(add, index)
    if bias is None or add.inputs[1 - index] != out:
        raise NoFit("no-bias.node", node=node.name)
    writer.put(add, index, _plus(node, bias, sums))
    maps[out.name] = ChannelMap.of(offset=-sums)


def _plus(node: Node, bias: np.ndarray, sums: np.ndarray) -> np.ndarray:
    if bias.size != 1 and (bias.ndim == 0 or bias.shape[-1] != len(sums)):
        raise NoFit("bias-shape", node=node.name)
    return np.asarray(bias + sums)


def pads(node: Node) -> bool:
    """Whether a convolution reads beyond its input."""
    if node.attr("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        shape = node.inputs[1].shape if node.inputs[1] is not None else None
        return shape is None or any(size != 1 for size in shape[2:])
    return node.attr("auto_pad", "NOTSET") == "NOTSET" and any(node.attr("pads") or ())
