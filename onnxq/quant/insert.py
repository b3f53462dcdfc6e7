"""Writing a plan into the graph: the only code that makes Q/DQ nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.graph.duplicate import duplicate
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.model import Model
from onnxq.graph.pairs import pair_of
from onnxq.graph.types import elem_type_of, is_float
from onnxq.graph.view import Node
from onnxq.graph.wiring import constant_of, new_tensor, replace_input, replace_output
from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import QuantPlan, Site
from onnxq.quant.scales import quantize_weights

_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Inserted:
    """A model with Q/DQ pairs.

    Attributes:
        model: the model.
        scales: the name of the constant that holds the scale of each group of activations.
        widened: names of nodes of the model's own pairs that have float32 scales now.
    """

    model: Model
    scales: Mapping[int, str]
    widened: tuple[str, ...] = ()


def insert(
    model: Model, plan: QuantPlan, scales: Mapping[int, np.float32], patches: Patches = NONE
) -> Inserted:
    """The model with the plan's Q/DQ pairs, with explicit zero points of 0.

    Scales are float32 in models of every type, with casts around the pairs: float16 scales exist from
    opset 19 on only, and hold too little. TensorRT-RTX 1.7.1 fuses the casts, but for one: the product of a
    MatMul with a scale a channel is written in float32 and cast in another kernel (`onnxq.quant.post_scale`).

    A weight becomes a constant of codes and a DequantizeLinear: the same engine as Q/DQ around float
    weights, in a quarter of the file. Old compilers do not take it everywhere (`onnxq.quant.float_weights`).
    What the plan does not name reads what it read before.

    Args:
        model: the model that the plan is of, which is not modified; its opset is at least that of the
            format. The result shares its weights.
        plan: the plan.
        scales: the scale of each group of activations.
        patches: what is changed of the model's constants.

    Raises:
        UserError: weights cannot be quantized, or a patch fits nothing of the model.
    """
    result = duplicate(model)
    patches.apply(result)
    scale_names = _insert_pairs(result, plan, scales, patches)
    return Inserted(result, scale_names, tuple(unify_scale_types(result)))


def _insert_pairs(
    model: Model, plan: QuantPlan, scales: Mapping[int, np.float32], patches: Patches
) -> dict[int, str]:
    """Inserts the pairs; returns the name of the constant that holds the scale of each group."""
    nodes = {node.name: node.node for node in model.nodes}
    tensors = {name: tensor.tensor for name, tensor in model.tensors().items()}
    zeros: dict[str, Any] = {}
    added: list[Any] = []
    shared: dict[int, Any] = {}
    for site in plan.sites:
        source = tensors[site.tensor]
        if site.kind == "weight":
            out = _weight(model, site, source, patches, added)
        else:
            if site.group not in shared:
                name = f"{site.tensor}_scale"
                shared[site.group] = model.new_constant(name, np.array(scales[site.group]))
            for edge in site.readers[:1]:  # an edit may have put nodes between the tensor and its readers
                source = nodes[edge.node].inputs[edge.input]
            if site.format not in zeros:
                zeros[site.format] = model.new_constant("onnxq_zero_point", np.array(0, site.numbers.dtype))
            out = _activation(model, source, shared[site.group], zeros[site.format], added)
        for edge in site.readers:
            replace_input(nodes[edge.node], edge.input, out)
    for pair in plan.own:
        for edge in pair.readers:
            replace_input(nodes[edge.node], edge.input, tensors[pair.dequantized])
    model.add_nodes(added)
    model.sort()
    return {group: constant.name for group, constant in shared.items()}


def set_scales(proto: onnx.ModelProto, names: Mapping[int, str], scales: Mapping[int, np.float32]) -> None:
    """Replaces the scales of groups in a model that pairs were inserted into.

    Args:
        proto: the model; it is modified.
        names: what `insert` returned.
        scales: the scale of each group.
    """
    by_name = {name: scales[group] for group, name in names.items()}
    for tensor in proto.graph.initializer:
        if tensor.name in by_name:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(by_name[tensor.name]), tensor.name))


def float_reads(plan: QuantPlan, floats: onnx.ModelProto) -> dict[tuple[str, int], str]:
    """What the edges of pairs, by node and input, read in the model without pairs.

    That is the tensor that the plan names, or what an edit made of it.
    """
    inputs = {node.name: node.input for node in floats.graph.node}
    return {
        (edge.node, edge.input): inputs[edge.node][edge.input] if edge.node in inputs else pair.tensor
        for pair in plan.pairs
        for edge in pair.readers
    }


def _activation(model: Model, source: Any, scale: Any, zero: Any, added: list[Any]) -> Any:
    name = source.name
    codes = new_tensor(model.unique(f"{name}_quantized"), zero.dtype, source.shape)
    first = source
    if source.dtype != _FLOAT:
        first = _cast(model, source, _FLOAT, f"{name}_float", added)
    out = new_tensor(model.unique(f"{name}_dequantized"), _FLOAT, source.shape)
    for op, one, other in (("QuantizeLinear", first, codes), ("DequantizeLinear", codes, out)):
        added.append(model.new_node(op, [one, scale, zero], [other], name=f"{name}_{op}"))
    return _as(model, out, source, added)


def _weight(model: Model, site: Site, source: Any, patches: Patches, added: list[Any]) -> Any:
    constant, format = constant_of(source), site.numbers
    assert constant is not None
    with np.errstate(over="ignore"):
        weights = np.asarray(constant, np.float32)
    name = source.name
    if not np.isfinite(weights).all():
        raise UserError(
            f"weights {name!r} of node {site.readers[0].node!r} hold NaN, infinity or more than float32 can",
            hint=f"export the model again, or keep the layer in float: --keep-float {site.readers[0].node!r}",
        )
    values, scales = quantize_weights(weights, site.axis, patches.amax.get((site.tensor, site.axis)), format)
    values = patches.rounded(site.tensor, values, format)
    codes = model.new_constant(f"{name}_{format.name}", values)
    scale = model.new_constant(f"{name}_scale", scales)
    zero = model.new_constant(f"{name}_zero_point", np.zeros(scales.shape, format.dtype))
    out = new_tensor(model.unique(f"{name}_dequantized"), _FLOAT, source.shape)
    attrs = {} if site.axis is None else {"axis": site.axis}
    inputs = [codes, scale, zero]
    added.append(model.new_node("DequantizeLinear", inputs, [out], attrs, name=f"{name}_DequantizeLinear"))
    return _as(model, out, source, added)


def _as(model: Model, tensor: Any, like: Any, added: list[Any]) -> Any:
    """A dequantized tensor in the type that its readers expect."""
    if like.dtype == _FLOAT:
        return tensor
    return _cast(model, tensor, like.dtype, f"{tensor.name}_{like.dtype}", added)


def _cast(model: Model, tensor: Any, dtype: np.dtype, name: str, added: list[Any]) -> Any:
    out = new_tensor(model.unique(name), dtype, tensor.shape)
    added.append(model.new_node("Cast", [tensor], [out], {"to": elem_type_of(dtype)}, name=out.name))
    return out


# One type of scales a layer.
#
# NVIDIA's compiler does not build a product of two pairs whose scales differ in type. Whether it comes to
# that depends on the order of the nodes (measured with TensorRT-RTX 1.7.1: a third of random nets of such
# pairs):
#
#     CHECK_EQ(lhs_scale->type(), rhs_scale->type()) failed. type mismatch between matmul operand scales
#
# So the float16 scales of a model's own pairs become float32 where they meet float32 ones, with a Cast
# behind. It is the same number: codes times scale is exact in float32, and rounded once either way.


def unify_scale_types(model: Model) -> list[str]:
    """Gives the pairs of each layer of the main graph scales of one type.

    A pair of several layers carries its type on to the next.

    Returns:
        The names of the nodes that have float32 scales now.
    """
    layers = [node for node in model.nodes if node.op in WEIGHTED and not node.domain]
    changed: dict[Node, None] = {}
    while narrow := dict.fromkeys(node for layer in layers for node in _narrow(layer)):
        for node in narrow:
            _widen(model, node)
        changed |= narrow
    model.sort()
    return [node.name for node in changed]


def _narrow(layer: Node) -> list[Node]:
    """What dequantizes the operands of a layer by other scales than float32, where their types differ."""
    types: dict[Node, np.dtype | None] = {}
    for tensor in layer.inputs[:2]:
        pair = pair_of(tensor) if tensor is not None else None
        scale = pair.scale if pair is not None else None
        if pair is not None and scale is not None and scale.is_constant and is_float(scale.dtype):
            types[pair.node] = scale.dtype
    if len(set(types.values())) < 2:
        return []
    return [node for node, dtype in types.items() if dtype != _FLOAT]


def _widen(model: Model, node: Node) -> None:
    """Gives a DequantizeLinear float32 scales; what it gives keeps its name and its type."""
    scale = node.operands(2)[1]
    assert scale is not None
    assert scale.constant is not None
    wide = model.new_constant(f"{scale.name}_float", scale.constant.astype(_FLOAT))
    replace_input(node.node, 1, wide)
    (values,) = node.outputs
    if values.dtype is None or node.attr("output_dtype", 0):  # it says its type itself
        return
    out = new_tensor(model.unique(f"{values.name}_float"), _FLOAT, values.shape)
    replace_output(node.node, 0, out)
    to = {"to": elem_type_of(values.dtype)}
    model.add_nodes([model.new_node("Cast", [out], [values.tensor], to, name=out.name)])
