"""Another form of weight scales: one for all channels, and their ratio multiplied behind the product.

    before    y = Conv(x, DequantizeLinear(codes, [s0, s1, ...]), b)
    after     y = Conv(x, DequantizeLinear(codes, s)) * [s0/s, s1/s, ...] + b

The codes are the same, and so are the numbers, but for rounding. Compiled with TensorRT-RTX 1.7.1 the product
is then written in half precision, where with a scale a channel it is float32; and no multiplier is so small
that float16 holds it badly. MatMuls that read one tensor get the same scale, with which the compiler makes
them one product (q, k and v of attention). What other runtimes make int8 operators of is the form with a
scale a channel.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import constant_of, is_constant, new_tensor, replace_input, replace_output
from onnxq.reason import Reason

_BIASED = ("Conv", "Gemm")

_NEAR = 16.0
"""How many times a layer's scale may be that of those beside it: its product is as many times greater."""

_HIGHEST = 65504.0
"""The greatest finite float16."""


@dataclass(frozen=True, slots=True)
class PostScaled:
    """What came of it.

    Attributes:
        layers: the names of the layers that have this form now.
        left: the layers with a scale a channel that keep theirs, and why.
    """

    layers: tuple[str, ...]
    left: Mapping[str, Reason]


def post_scale(
    model: Model, layers: Collection[str] | None = None, *, without: Collection[str] = ()
) -> PostScaled:
    """Gives int8 layers of the main graph one weight scale, in place.

    No product of codes is then beyond float16.

    Args:
        model: a quantized model, before it is converted to half precision.
        layers: the names of the layers that are to have it; None for all.
        without: the names of layers that keep theirs in any case: float32 ones gain nothing.
    """
    nodes = [Node(model, raw) for raw in model.graph.nodes]
    wanted = {node.name for node in nodes if layers is None or node.name in layers} - {*without}
    found = {node.name: layer for node in nodes if (layer := _per_channel(node)) is not None}
    left: dict[str, Reason] = {}
    done: dict[int, tuple[Any, np.ndarray]] = {}
    changed = {}
    for name, layer in found.items():
        why = _obstacle(layer, found, wanted) if name in wanted else None
        if why is not None:
            left[name] = why
        elif name in wanted:
            changed[name] = layer
    ones = _ones(list(changed.values()))
    for name, layer in changed.items():
        _change(model, layer, ones[name], done)
    model.sort()
    return PostScaled(tuple(changed), left)


def _per_channel(node: Node) -> Layer | None:
    """The layer that a node is, if its weights are codes with a scale for each of its output channels."""
    layer = layer_of(node, quantized=True) if node.op != "ConvTranspose" else None
    maker = layer.weight.producer if layer is not None else None
    if layer is None or maker is None or maker.op != "DequantizeLinear" or maker.domain:
        return None
    codes, scale, zero = maker.operands(3)
    if codes is None or scale is None or not (codes.is_constant and scale.is_constant):
        return None
    if codes.dtype != np.int8 or not is_float(scale.dtype) or scale.shape != (layer.outputs,):
        return None
    if zero is not None and (zero.constant is None or zero.constant.any()):
        return None
    rank = len(codes.shape or ())
    return layer if layer.outputs > 1 and maker.attr("axis", 1) % rank == layer.axis else None


def _obstacle(layer: Layer, found: Mapping[str, Layer], wanted: Collection[str]) -> Reason | None:
    """Why a layer cannot have the other form."""
    for user in layer.weight.users:
        other = found.get(user.name)
        if other is None or user.name not in wanted or other.axis != layer.axis:
            return Reason("shared-weights", f"{user.name!r} reads the same weights otherwise")
    if layer.weight.is_output:
        return Reason("shared-weights", f"{layer.weight.name!r} is an output of the model")
    if layer.node.op == "MatMul" and layer.index == 0:
        other_rank = layer.node.inputs[1].rank if layer.node.inputs[1] is not None else None
        if other_rank is None or other_rank < 2:
            return Reason("rank", "it multiplies a vector, or the rank of what it multiplies is not known")
    limit = _limit(layer)
    if limit is None:
        return Reason("unknown-scale", "what it multiplies has no scale of its own, or one that is not known")
    low, high = _ends(layer)
    if high * _NEAR > min(math.sqrt(low * high), limit) * _HIGHEST:
        return Reason("range", "its channels differ by more than float16 holds")
    bias = layer.node.operands(3)[2] if layer.node.op in _BIASED else None
    if bias is not None and not bias.is_constant:
        return Reason("computed-bias", f"its bias {bias.name!r} is no constant")
    return None


def _ones(layers: Collection[Layer]) -> dict[str, float]:
    """One scale for each layer: in the middle of its channels, or of those of all MatMuls of a tensor.

    Less, where a product of codes would be beyond float16.
    """
    beside: dict[Tensor | str | None, list[Layer]] = {}
    for layer in layers:
        node = layer.node
        key = node.inputs[1 - layer.index] if node.op == "MatMul" else node.name
        beside.setdefault(key, []).append(layer)
    found = {}
    for group in beside.values():
        ends = {layer.node.name: _ends(layer) for layer in group}
        limits = {layer.node.name: _limit(layer) or math.inf for layer in group}
        own = {name: min(math.sqrt(low * high), limits[name]) for name, (low, high) in ends.items()}
        least, greatest = np.array(list(ends.values())).T
        one = min(float(np.sqrt(least.min() * greatest.max())), *limits.values())
        shared = all(1 / _NEAR <= middle / one <= _NEAR for middle in own.values())
        found.update(dict.fromkeys(own, one) if shared else own)
    return found


def _limit(layer: Layer) -> float | None:
    """The largest weight scale with which no product of codes is beyond float16; None where it is not known.

    No sum is greater than 128 times that of a channel's magnitudes, whichever activations there are.
    """
    maker = layer.weight.producer
    codes = None if maker is None else maker.operands(1)[0]
    if codes is None or codes.constant is None:
        return None
    most = 0.0
    for user in layer.weight.users:
        other = next((t for t in user.inputs if t is not None and t != layer.weight), None)
        pair = None if other is None else other.producer
        scale = pair.operands(2)[1] if pair is not None and pair.op == "DequantizeLinear" else None
        if scale is None or scale.scalar is None:
            return None
        most = max(most, float(scale.scalar))
    axes = tuple(i for i in range(codes.constant.ndim) if i != layer.axis)
    terms = float(np.abs(codes.constant.astype(np.int64)).sum(axis=axes).max(initial=0))
    return _HIGHEST / (128.0 * terms * most) if terms * most > 0 else math.inf


def _ends(layer: Layer) -> tuple[float, float]:
    """The least and the greatest scale of a layer's channels; of one without weights it says nothing."""
    maker = layer.weight.producer
    assert maker is not None
    alive, scales = _scales(maker, layer.axis)
    held = scales[alive] if alive.any() else np.ones(1)
    return float(held.min()), float(held.max())


def _scales(maker: Node, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Which channels have weights, bool, and the scale of each, float64."""
    codes, scales = (None if t is None else t.constant for t in maker.operands(2))
    assert codes is not None
    assert scales is not None
    alive = np.asarray(codes.any(axis=tuple(i for i in range(codes.ndim) if i != axis)))
    return alive, scales.astype(np.float64)


def _change(model: Model, layer: Layer, one: float, done: dict[int, tuple[Any, np.ndarray]]) -> None:
    raw, name = layer.node.node, layer.node.name
    weight = layer.weight.tensor
    if id(weight) not in done:
        maker = weight.inputs[0]
        dtype = maker.inputs[1].dtype
        scale = np.array(one, dtype)
        alive, scales = _scales(Node(model, maker), layer.axis)
        ratio = np.where(alive, scales / scale, 1.0).astype(dtype)
        replace_input(maker, 1, model.new_constant(f"{weight.name}_one_scale", scale))
        if len(maker.inputs) > 2:
            replace_input(maker, 2, model.new_constant(f"{weight.name}_zero", np.array(0, np.int8)))
        maker.proto = _without_axis(maker.proto)
        done[id(weight)] = maker, ratio
    ratio = done[id(weight)][1]
    out = raw.outputs[0]
    shape = _shape(layer)
    factor = model.new_constant(f"{name}_ratio", ratio.reshape(shape))
    bias = _take_bias(layer, shape)
    product = new_tensor(model.unique(f"{out.name}_unscaled"), out.dtype, out.shape)
    replace_output(raw, 0, product)
    end = out if bias is None else new_tensor(model.unique(f"{out.name}_unbiased"), out.dtype, out.shape)
    added = [model.new_node("Mul", [product, factor], [end], name=f"{name}_Mul")]
    if bias is not None:
        constant = model.new_constant(f"{name}_bias", bias)
        added.append(model.new_node("Add", [end, constant], [out], name=f"{name}_Add"))
    model.graph.nodes.extend(added)


def _shape(layer: Layer) -> tuple[int, ...]:
    """The shape of a number for each channel, as it stands behind the product."""
    if layer.node.op == "Conv":
        size = len(layer.weight.shape or ())
        return (1, -1, *[1] * (size - 2))
    return (-1, 1) if layer.node.op == "MatMul" and layer.index == 0 else (-1,)


def _take_bias(layer: Layer, shape: tuple[int, ...]) -> np.ndarray | None:
    """Takes a layer's bias off it; what is added behind it instead."""
    raw = layer.node.node
    if layer.node.op not in _BIASED or len(raw.inputs) < 3:
        return None
    tensor = raw.inputs[2]
    values = constant_of(tensor) if tensor.name and is_constant(tensor) else None
    replace_input(raw, 2, new_tensor("", None, None))
    list.pop(raw.inputs)
    if values is None:
        return None
    if layer.node.op == "Conv":
        return values.reshape(shape)
    scaled: np.ndarray = (values * np.float32(layer.node.attr("beta", 1.0))).astype(values.dtype)
    return scaled


def _without_axis(proto: onnx.NodeProto) -> onnx.NodeProto:
    result = onnx.NodeProto()
    result.CopyFrom(proto)
    kept = [attribute for attribute in result.attribute if attribute.name != "axis"]
    del result.attribute[:]
    result.attribute.extend(kept)
    return result
