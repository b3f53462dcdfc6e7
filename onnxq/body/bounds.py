"""The greatest magnitude of each float tensor: measured, or by what the operators on the way to it do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node, Tensor, every_node

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
    return {t.name: (-ASSUMED, ASSUMED) for t in model.inputs if is_float32(t)}


def needed(model: Model) -> tuple[str, ...]:
    """The names of the tensors, inputs too, whose ranges say enough of all float32 ones of the main graph."""
    named = [tensor.name for tensor in model.inputs if is_float32(tensor)]
    for node in model.nodes:
        if not _follows(node):
            named += [tensor.name for tensor in node.outputs if is_float32(tensor)]
    return tuple(named)


def bounds(model: Model, ranges: Ranges) -> dict[Tensor, float]:
    """The greatest magnitude of float32 tensors of all graphs, as far as something tells.

    Args:
        model: a model.
        ranges: what was measured, by tensor of the main graph.
    """
    bounded: dict[Tensor, float] = {}
    measured = {name: max(abs(low), abs(high)) for name, (low, high) in ranges.items() if low <= high}
    for tensor in model.inputs:
        if tensor.name in measured:
            bounded[tensor] = measured[tensor.name]
    main = {*model.nodes}
    for node in every_node(model):
        bound = _bound(node, bounded)
        for tensor in node.outputs:
            if not is_float32(tensor):
                continue
            limits = [measured[tensor.name]] if tensor.name in measured and node in main else []
            limits += [bound] if bound is not None else []
            if not limits and (sure := _by_magnitudes(node, bounded)) is not None and sure <= _ENOUGH:
                limits = [sure]
            if limits:
                bounded[tensor] = min(limits)
    return bounded


def is_float32(tensor: Any) -> bool:
    """Whether a tensor is one, and float32; of a view or of what it is a view of."""
    return (
        tensor is not None and bool(tensor.name) and tensor.dtype is not None and tensor.dtype == np.float32
    )


def _follows(node: Node) -> bool:
    """Whether what a node gives is bounded by what it reads."""
    if node.domain:
        return False
    if node.op == "Clip":
        return _clips(node)
    if node.op == "Cast":
        return not _from_integers(node)
    return node.op in (*_WITHIN_ONE, *_NO_FURTHER, "ConstantOfShape")


def _clips(node: Node) -> bool:
    """Whether a Clip has two bounds that are numbers: an infinite one is none."""
    values = [_values(tensor) for tensor in node.inputs[1:]]
    return len(values) == 2 and all(v is not None and bool(np.isfinite(v).all()) for v in values)


def _from_integers(node: Node) -> bool:
    return not is_float32(node.inputs[0]) and not _is_truth(node.inputs[0])


def _is_truth(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == np.bool_


def _bound(node: Node, bounded: Mapping[Tensor, float]) -> float | None:
    """The greatest magnitude that a node gives by its operator; None where that says nothing."""
    if node.domain:
        return None
    if (node.op == "Cast" and _is_truth(node.inputs[0])) or node.op in _WITHIN_ONE:
        return 1.0
    if node.op == "ConstantOfShape":
        return float(np.abs(np.asarray(node.attr("value", 0), np.float64)).max(initial=0.0))
    if not _follows(node):
        return None
    if node.op == "Clip":
        return max(magnitude(tensor) for tensor in node.inputs[1:])
    read = list(_magnitudes(node, bounded))
    if None in read or not read:
        return None
    extra = 1.0 if node.op in ("Round", "Ceil", "Floor") else 0.0
    return max(entry for entry in read if entry is not None) + extra


def _by_magnitudes(node: Node, bounded: Mapping[Tensor, float]) -> float | None:
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
    read = list(_magnitudes(node, bounded))
    if None in read or len(read) != len(node.inputs) or not all(map(_is_finite, node.inputs)):
        return None
    known = [one for one in read if one is not None]
    try:
        return _GROWTH[node.op](node, known)
    except (OverflowError, ZeroDivisionError):
        return None


def _product(node: Node, read: Sequence[float]) -> float | None:
    """The greatest magnitude of a product of computed matrices; rows of a Softmax are weights of a mean."""
    rows = node.inputs[0]
    assert rows is not None
    shape, weighs = rows.typical_shape or (None,), rows.producer
    last = weighs is not None and weighs.attr("axis", -1) in (-1, len(shape) - 1)
    if weighs is not None and weighs.op == "Softmax" and last and node.model.opset >= 13:
        return read[1]
    terms = shape[-1]
    return terms * math.prod(read) if isinstance(terms, int) else None


def _quotient(node: Node, read: Sequence[float]) -> float | None:
    divisors = _values(node.inputs[1])
    return None if divisors is None else read[0] / float(np.abs(divisors).min(initial=np.inf))


def _power(node: Node, read: Sequence[float]) -> float | None:
    exponents = _values(node.inputs[1])
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
    data, scale, *bias = node.inputs
    shape = None if data is None else data.typical_shape
    if not shape or not all(one is not None and one.is_constant for one in (scale, *bias)):
        return None
    axis = {"InstanceNormalization": 2, "GroupNormalization": 1}.get(node.op) or int(node.attr("axis", -1))
    sizes = shape[axis:]
    if not all(isinstance(size, int) for size in sizes):
        return None
    size = math.prod(size for size in sizes if isinstance(size, int))
    return math.sqrt(size) * magnitude(scale) + sum(map(magnitude, bias))


def _values(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.constant


def _is_finite(tensor: Tensor | None) -> bool:
    """Whether a tensor is no constant with infinite values, of which the greatest finite one is no bound."""
    values = _values(tensor)
    return values is None or bool(np.isfinite(values).all())


def _of_layer(layer: Layer, bounded: Mapping[Tensor, float]) -> float | None:
    """The sum of the magnitudes of a channel's weights times what the layer reads at most, and its bias."""
    operands = layer.node.inputs
    read = operands[1 - layer.index]
    most = None if read is None else bounded.get(read)
    rest = [one for one in operands[2:] if one is not None]
    weights = _values(operands[layer.index])
    if most is None or weights is None or not all(one.is_constant for one in rest):
        return None
    others = tuple(axis for axis in range(weights.ndim) if axis != layer.axis)
    sums = np.abs(weights.astype(np.float64)).sum(axis=others).max(initial=0.0)
    alpha, beta = (abs(layer.node.attr(name, 1.0)) for name in ("alpha", "beta"))
    return float(sums * most * alpha + sum(map(magnitude, rest)) * beta)


def _magnitudes(node: Node, bounded: Mapping[Tensor, float]) -> Iterator[float | None]:
    for tensor in node.inputs:
        if tensor is not None and is_float32(tensor):
            yield magnitude(tensor) if tensor.is_constant else bounded.get(tensor)


def magnitude(constant: Tensor | None) -> float:
    """The greatest finite magnitude of a constant."""
    values = _values(constant)
    assert values is not None
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
