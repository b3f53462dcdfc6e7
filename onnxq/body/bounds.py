"""The greatest magnitude of each float tensor: measured, or by what the operators on the way to it do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node, Tensor
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

ASSUMED = 64.0
"""What float inputs are taken to reach where nothing is measured: with the margin of ranges, 8-bit pixels."""

_A_LITTLE_FURTHER = ("Softplus", "Sqrt")
"""Operators that give at most one more than the greatest magnitude that they read."""

_NORMALIZES = ("LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization")

Ranges = Mapping[str, tuple[float, float]]
"""The least and the greatest value of tensors that were measured."""


def assumed(model: Model) -> dict[str, tuple[float, float]]:
    """Ranges of the float32 inputs that stand for measured ones: from minus to plus `ASSUMED`."""
    return {t.name: (-ASSUMED, ASSUMED) for t in model.graph.inputs if is_float32(t)}


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
    if node.op in _NORMALIZES:
        return _of_normalization(node)
    if node.op not in _GROWTH:
        return None
    read = list(_magnitudes(node.node, bounded))
    if None in read or len(read) != len(node.inputs) or not all(map(_is_finite, node.node.inputs)):
        return None
    known = [one for one in read if one is not None]
    try:
        return _GROWTH[node.op](node, known)
    except (OverflowError, ZeroDivisionError):
        return None


def _product(node: Node, read: Sequence[float]) -> float | None:
    """The greatest magnitude of a product of computed matrices; rows of a Softmax are weights of a mean."""
    rows = Tensor(node.model, node.node.inputs[0])
    shape, weighs = rows.typical_shape or (None,), rows.producer
    last = weighs is not None and weighs.attr("axis", -1) in (-1, len(shape) - 1)
    if weighs is not None and weighs.op == "Softmax" and last and node.model.opset >= 13:
        return read[1]
    terms = shape[-1]
    return terms * math.prod(read) if isinstance(terms, int) else None


def _quotient(node: Node, read: Sequence[float]) -> float | None:
    divisors = constant_of(node.node.inputs[1])
    return None if divisors is None else read[0] / float(np.abs(divisors).min(initial=np.inf))


def _power(node: Node, read: Sequence[float]) -> float | None:
    exponents = constant_of(node.node.inputs[1])
    whole = exponents is not None and bool((exponents >= 0).all())
    return max(1.0, read[0]) ** read[1] if whole else None


_GROWTH: Mapping[str, Callable[[Node, Sequence[float]], float | None]] = {
    **dict.fromkeys(_SUMS, lambda node, read: sum(read)),
    **dict.fromkeys(_A_LITTLE_FURTHER, lambda node, read: read[0] + 1.0),
    "Mul": lambda node, read: math.prod(read),
    "MatMul": _product,
    "Div": _quotient,
    "Pow": _power,
    "Exp": lambda node, read: math.exp(read[0]),
}
"""The greatest magnitude that operators give, by those of all that they read."""


def _of_normalization(node: Node) -> float | None:
    """What is normalized has the root of its size as norm, which one value reaches at most; then its scale.

    None where a size or a scale is not known.
    """
    data, scale, *bias = node.node.inputs
    shape = Tensor(node.model, data).typical_shape
    if not shape or not all(map(is_constant, (scale, *bias))):
        return None
    axis = {"InstanceNormalization": 2, "GroupNormalization": 1}.get(node.op) or int(node.attr("axis", -1))
    sizes = shape[axis:]
    if not all(isinstance(size, int) for size in sizes):
        return None
    size = math.prod(size for size in sizes if isinstance(size, int))
    return math.sqrt(size) * magnitude(scale) + sum(map(magnitude, bias))


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
