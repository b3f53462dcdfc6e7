"""The greatest magnitude of each float tensor: measured, or by what the operators on the way to it do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node
from onnxq.graph.wiring import constant_of, is_constant

_WITHIN_ONE = (
    "Sigmoid", "HardSigmoid", "Softmax", "Tanh", "Erf", "Sin", "Cos", "Softsign", "Sign", "EyeLike",
)  # fmt: skip
"""Operators that give nothing beyond 1."""

_NO_FURTHER = (
    *MOVES, "Relu", "LeakyRelu", "Abs", "Neg", "AveragePool", "GlobalAveragePool", "GlobalMaxPool",
    "ReduceMax", "ReduceMin", "ReduceMean", "TopK", "GatherElements", "GatherND", "Dropout", "Trilu",
    "ReverseSequence", "Compress", "Floor", "Ceil", "Round", "HardSwish", "Gelu", "Mish", "Pad", "GridSample",
    "RoiAlign", "Concat", "Max", "Min", "Mean", "Where", "CenterCropPad",
)  # fmt: skip
"""Operators that give nothing beyond the greatest magnitude of their float inputs, but for 1 by rounding."""

_SUMS = ("Add", "Sub", "Sum")

_ENOUGH = 8192.0
"""What is bounded by sums of magnitudes alone may be that at most: an eighth of what float16 reaches.

Such bounds grow from layer to layer; a greater one says nothing."""

Ranges = Mapping[str, tuple[float, float]]
"""The least and the greatest value of tensors that were measured."""


def needed(model: Model) -> tuple[str, ...]:
    """The names of the tensors, inputs too, whose ranges say enough of all float32 ones of the main graph."""
    named = [tensor.name for tensor in model.graph.inputs if is_float32(tensor)]
    for node in model.graph.nodes:
        if not _follows(node):
            named += [tensor.name for tensor in node.outputs if is_float32(tensor)]
    return tuple(named)


def bounds(model: Model, ranges: Ranges) -> dict[int, float]:
    """The greatest magnitude of float32 tensors of all graphs, by id, as far as something tells.

    Args:
        model: a model.
        ranges: what was measured, by tensor of the main graph.
    """
    bounded: dict[int, float] = {}
    measured = {name: max(abs(low), abs(high)) for name, (low, high) in ranges.items() if low <= high}
    for tensor in model.graph.inputs:
        if tensor.name in measured:
            bounded[id(tensor)] = measured[tensor.name]
    for graph in model.graphs():
        main = graph is model.graph
        for node in graph.nodes:
            bound = _bound(node, bounded)
            for tensor in node.outputs:
                if not is_float32(tensor):
                    continue
                limits = [measured[tensor.name]] if main and tensor.name in measured else []
                limits += [bound] if bound is not None else []
                if (
                    not limits
                    and (sure := _by_magnitudes(Node(model, node), bounded)) is not None
                    and sure <= _ENOUGH
                ):
                    limits = [sure]
                if limits:
                    bounded[id(tensor)] = min(limits)
    return bounded


def is_float32(tensor: Any) -> bool:
    """Whether a tensor is one, and float32."""
    return bool(tensor.name) and tensor.dtype is not None and tensor.dtype == np.float32


def _follows(node: Any) -> bool:
    """Whether what a node gives is bounded by what it reads."""
    if node.domain not in (None, "", "ai.onnx"):
        return False
    if node.op == "Clip":
        return _clips(node)
    if node.op == "Cast":
        return not _from_integers(node)
    return node.op in (*_WITHIN_ONE, *_NO_FURTHER, "ConstantOfShape")


def _clips(node: Any) -> bool:
    """Whether a Clip has two bounds that are numbers: an infinite one is none."""
    values = [constant_of(tensor) for tensor in node.inputs[1:]]
    return len(values) == 2 and all(v is not None and bool(np.isfinite(v).all()) for v in values)


def _from_integers(node: Any) -> bool:
    return not is_float32(node.inputs[0]) and node.inputs[0].dtype != np.bool_


def _bound(node: Any, bounded: Mapping[int, float]) -> float | None:
    """The greatest magnitude that a node gives by its operator; None where that says nothing."""
    if node.domain not in (None, "", "ai.onnx"):
        return None
    if node.op == "Cast" and node.inputs[0].dtype == np.bool_:
        return 1.0
    if node.op in _WITHIN_ONE:
        return 1.0
    if node.op == "ConstantOfShape":
        return float(np.abs(fill_value(node.proto).astype(np.float64)).max(initial=0.0))
    if not _follows(node):
        return None
    if node.op == "Clip":
        return max(magnitude(tensor) for tensor in node.inputs[1:])
    read = list(_magnitudes(node, bounded))
    if None in read or not read:
        return None
    extra = 1.0 if node.op in ("Round", "Ceil", "Floor") else 0.0
    return max(entry for entry in read if entry is not None) + extra


def _by_magnitudes(node: Node, bounded: Mapping[int, float]) -> float | None:
    """The greatest magnitude of sums and products of what a node reads; None of another node."""
    if node.domain:
        return None
    layer = layer_of(node)
    if layer is not None:
        return _of_layer(layer, bounded)
    if node.op not in _SUMS and node.op != "Mul":
        return None
    read = list(_magnitudes(node.node, bounded))
    if None in read or len(read) != len(node.inputs) or not all(map(_is_finite, node.node.inputs)):
        return None
    known = [one for one in read if one is not None]
    return math.prod(known) if node.op == "Mul" else sum(known)


def _is_finite(tensor: Any) -> bool:
    """Whether a tensor is no constant with infinite values, of which the greatest finite one is no bound."""
    values = constant_of(tensor)
    return values is None or bool(np.isfinite(values).all())


def _of_layer(layer: Layer, bounded: Mapping[int, float]) -> float | None:
    """The sum of the magnitudes of a channel's weights times what the layer reads at most, and its bias."""
    operands = layer.node.node.inputs
    most = bounded.get(id(operands[1 - layer.index]))
    rest = [one for one in operands[2:] if one.name]
    weights = constant_of(operands[layer.index])
    if most is None or weights is None or not all(map(is_constant, rest)):
        return None
    others = tuple(axis for axis in range(weights.ndim) if axis != layer.axis)
    sums = np.abs(weights.astype(np.float64)).sum(axis=others).max(initial=0.0)
    alpha, beta = (abs(layer.node.attr(name, 1.0)) for name in ("alpha", "beta"))
    return float(sums * most * alpha + sum(map(magnitude, rest)) * beta)


def _magnitudes(node: Any, bounded: Mapping[int, float]) -> Iterator[float | None]:
    for tensor in node.inputs:
        if is_float32(tensor):
            yield magnitude(tensor) if is_constant(tensor) else bounded.get(id(tensor))


def fill_value(proto: onnx.NodeProto) -> np.ndarray:
    """What a ConstantOfShape fills with, [1]."""
    for attribute in proto.attribute:
        if attribute.name == "value":
            return onnx.numpy_helper.to_array(attribute.t)
    return np.zeros(1, np.float32)


def magnitude(constant: Any) -> float:
    """The greatest finite magnitude of a constant."""
    values = constant_of(constant)
    assert values is not None
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
