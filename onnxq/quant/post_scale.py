"""Another form of weight scales: one for all channels, and their ratio multiplied behind the product.

    before    y = Conv(x, DequantizeLinear(codes, [s0, s1, ...]), b)
    after     y = Conv(x, DequantizeLinear(codes, s)) * [s0/s, s1/s, ...] + b

The codes are the same, and so are the numbers, but for rounding. Compiled with TensorRT-RTX 1.7.1 the product
is then written in half precision, where with a scale a channel it is float32; and no multiplier is so small
that float16 holds it badly.

Matrix products of one tensor, such as the queries, keys and values of attention, run as one product where
they have one form and one scale. So they get one scale, all of them or none: of products in both forms the
compiler makes one too, and then fails. `onnxq.quant.scale_form` says where this form is better.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.base.reason import Reason, reason
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.pairs import NOTHING, PICKED, pair_of
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import constant_of, is_constant, new_tensor, replace_input, replace_output

_BIASED = ("Conv", "Gemm")

_REACH = 32.0
"""The greatest ratio. A channel of next to no weights has a scale of any size, and in the middle of 1e-20 and
1e-2 half precision holds nothing: the product underflows, and the ratio overflows."""

_HIGHEST = 2.0**15
"""What no product can exceed before it is multiplied by the ratio: float16 holds it."""


@dataclass(frozen=True, slots=True)
class PostScaled:
    """What came of it.

    Attributes:
        layers: the names of the layers that have this form now.
        left: the layers with a scale a channel that keep theirs, and why.
    """

    layers: tuple[str, ...]
    left: Mapping[str, Reason]


def post_scale(model: Model, layers: Collection[str] | None = None) -> PostScaled:
    """Gives int8 layers of the main graph one weight scale, in place.

    Args:
        model: a quantized model, before it is converted to half precision.
        layers: the names of the layers that are to have it; None for all.
    """
    nodes = model.nodes
    wanted = {node.name for node in nodes if layers is None or node.name in layers}
    scaled = {node.name: layer for node in nodes if (layer := per_channel(node)) is not None}
    left = {
        name: why
        for name, layer in scaled.items()
        if name in wanted and (why := _obstacle(layer, scaled, wanted)) is not None
    }
    changed: set[str] = set()
    for group in _together(scaled):
        keeps = next((name for name in group if name in left or name not in wanted), None)
        if keeps is None:
            _change(model, [scaled[name] for name in group])
            changed.update(group)
            continue
        why = reason("together", node=keeps)
        left.update({name: why for name in group if name in wanted and name not in left})
    model.sort()
    return PostScaled(tuple(name for name in scaled if name in changed), left)


def per_channel(node: Node) -> Layer | None:
    """The layer that a node is, if its weights are codes with a scale for each of its output channels."""
    layer = layer_of(node, quantized=True) if node.op != "ConvTranspose" else None
    pair = pair_of(layer.weight, NOTHING) if layer is not None else None
    if layer is None or pair is None or pair.node.domain:
        return None
    codes, scale, zero = pair.codes, pair.scale, pair.zero
    if codes is None or scale is None or not (codes.is_constant and scale.is_constant):
        return None
    if codes.dtype != node.format.dtype or not is_float(scale.dtype) or scale.shape != (layer.outputs,):
        return None
    if zero is not None and (zero.constant is None or zero.constant.any()):
        return None
    rank = len(codes.shape or ())
    return layer if layer.outputs > 1 and pair.axis % rank == layer.axis else None


def _obstacle(layer: Layer, layers: Mapping[str, Layer], wanted: Collection[str]) -> Reason | None:
    """Why a layer cannot have the other form."""
    for user in layer.weight.users:
        other = layers.get(user.name)
        if other is None or user.name not in wanted or other.axis != layer.axis:
            return reason("shared-weights", node=user.name)
    if layer.weight.is_output:
        return reason("shared-weights.output", tensor=layer.weight.name)
    if layer.node.op == "MatMul" and layer.index == 0:
        other_rank = layer.node.inputs[1].rank if layer.node.inputs[1] is not None else None
        if other_rank is None or other_rank < 2:
            return reason("rank")
    bias = layer.node.operands(3)[2] if layer.node.op in _BIASED else None
    if bias is not None and not bias.is_constant:
        return reason("computed-bias", tensor=bias.name)
    return None


def same_operand(layer: Layer) -> list[Node]:
    """The matrix products of what a layer multiplies, itself too: the compiler makes one of them."""
    if layer.node.op == "Conv":
        return [layer.node]
    data = layer.node.operands(2)[1 - layer.index]
    assert data is not None
    users = [node for node in data.users if node.op in ("Gemm", "MatMul") and not node.domain]
    return [node for node in users if node.operands(2)[1 - layer.index] == data]


def _together(layers: Mapping[str, Layer]) -> list[list[str]]:
    """The names of the layers that have one form and one scale: of the same weights, or of one operand."""
    group: dict[str, list[str]] = {name: [name] for name in layers}
    for name, layer in layers.items():
        for other in (*layer.weight.users, *same_operand(layer)):
            one, two = group[name], group.get(other.name)
            if two is not None and two is not one:
                one += two
                group.update(dict.fromkeys(two, one))
    return list({id(names): names for names in group.values()}.values())


def _change(model: Model, layers: Sequence[Layer]) -> None:
    """Gives layers one scale."""
    weights = {id(layer.weight.tensor): layer for layer in layers}
    makers = {key: layer.weight.tensor.inputs[0] for key, layer in weights.items()}
    scales = {key: _values(Tensor(model, maker.inputs[1])) for key, maker in makers.items()}
    alive = {key: _alive(Tensor(model, makers[key].inputs[0]), layer.axis) for key, layer in weights.items()}
    one = _one([scales[key][alive[key]] for key in weights], max(map(_reach, layers)))
    ratios = {}
    for key, maker in makers.items():
        name, dtype = weights[key].weight.name, scales[key].dtype
        ratios[key] = np.where(alive[key], scales[key].astype(np.float64) / one, 1.0).astype(dtype)
        replace_input(maker, 1, model.new_constant(f"{name}_one_scale", np.array(one, dtype)))
        if len(maker.inputs) > 2:
            zero = np.array(0, Tensor(model, maker.inputs[0]).dtype)
            replace_input(maker, 2, model.new_constant(f"{name}_zero", zero))
        maker.proto = _without_axis(maker.proto)
    for layer in layers:
        _multiply(model, layer, ratios[id(layer.weight.tensor)])


def _multiply(model: Model, layer: Layer, ratio: np.ndarray) -> None:
    """Puts the ratio behind a product, and the bias behind that."""
    raw, name = layer.node.node, layer.node.name
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
    model.add_nodes(added)


def _values(tensor: Tensor) -> np.ndarray:
    values = tensor.constant
    assert values is not None
    return values


def _alive(codes: Tensor, axis: int) -> np.ndarray:
    """Which channels have weights, bool [channels]; the scale of one without says nothing."""
    nonzero = np.moveaxis(_values(codes) != 0, axis, 0)
    return np.asarray(nonzero.reshape(len(nonzero), -1).any(axis=1))


def _reach(layer: Layer) -> float:
    """The greatest product if the weights were their codes; 0 where what they multiply is no int8."""
    data = layer.node.operands(2)[1 - layer.index]
    pair = pair_of(data, PICKED) if data is not None else None
    scale = pair.scale if pair is not None else None
    codes = layer.weight.producer.inputs[0] if layer.weight.producer is not None else None
    if scale is None or scale.scalar is None or codes is None:
        return 0.0
    size = np.abs(np.moveaxis(_values(codes), layer.axis, 0).astype(np.float64))
    factor = float(layer.node.attr("alpha", 1.0)) if layer.node.op == "Gemm" else 1.0
    factor *= -layer.node.format.ends[0]
    return float(size.reshape(len(size), -1).sum(axis=1).max()) * float(scale.scalar) * abs(factor)


def _one(scales: Sequence[np.ndarray], reach: float) -> float:
    """The scale in the middle of all, if no ratio is beyond `_REACH`, and no product beyond `_HIGHEST`."""
    every = np.concatenate(scales).astype(np.float64)
    if not every.size:
        return 1.0
    least, most = every.min(), every.max()
    middle = max(np.sqrt(least * most), most / _REACH)
    return float(np.float32(min(middle, _HIGHEST / reach) if reach else middle))


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
