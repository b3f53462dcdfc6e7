"""Layers: Conv, ConvTranspose, Gemm and MatMul, seen as matrix products, with constant weights or not.

Where a model has several deployments (`Model.workloads`), what is said of a layer's work is said of all of
them together, each by its share of the work (`balance`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from onnxq.base.reason import Reason, reason
from onnxq.graph.pairs import is_quantized_constant
from onnxq.graph.types import Shape, float_info, is_static
from onnxq.graph.view import Node, Tensor

if TYPE_CHECKING:
    from onnxq.graph.model import Model

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
RECURRENT = ("GRU", "LSTM", "RNN")
_NEEDED = ("rows", "channels", "group-channels")

_WORTH = 1 / 3
"""The share of a layer's work that has to be in deployments with enough rows for int8.

There int8 halves what its product takes; elsewhere it saves nothing, and costs conversions.
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with constant weights.

    Attributes:
        node: the node.
        weight: the weight tensor.
        index: which input it is: 1, or 0 for a MatMul that multiplies from the left.
        axis: the weight's output-channel axis.
        inputs: input channels (the K side of a Gemm).
        outputs: output channels.
        groups: groups of a convolution, 1 for others.
        terms: the number of products that are summed for one output element.
        rows: output elements a channel (batch x positions), None where a size is not known.
        each: the rows in each of the model's deployments, in the order of `Model.workloads`; empty where
            there is one.
    """

    node: Node
    weight: Tensor
    index: int
    axis: int
    inputs: int
    outputs: int
    groups: int
    terms: int
    rows: int | None
    each: tuple[int | None, ...] = ()

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates of one inference, None where a size is not known.

        Of several deployments it is their mean, each by its share of the work, see `balance`.
        """
        macs = self.outputs * self.terms
        if self.each:
            return _mean(self.node, [None if rows is None else rows * macs for rows in self.each])
        return None if self.rows is None else self.rows * macs

    def scaled(self, factor: np.ndarray) -> np.ndarray:
        """The weights with each output channel times its factor, computed in double precision.

        A weight does not become zero by underflow: zero times infinity is NaN, where the original
        has infinity.

        Args:
            factor: float64, one number or one for each output channel.

        Returns:
            An array of the weights' shape and dtype.
        """
        weights = self.weight.constant
        assert weights is not None
        shape = weights.shape
        if factor.size == 1:
            wide = weights.astype(np.float64) * factor.reshape(-1)[0]
        elif self.node.op == "ConvTranspose":  # [I, O/groups, ...]: row block g makes its own channels
            block = factor.reshape(self.groups, 1, -1, *[1] * (len(shape) - 2))
            wide = (weights.reshape(self.groups, -1, *shape[1:]) * block).reshape(shape)
        else:
            spread = [1] * len(shape)
            spread[self.axis] = -1
            wide = weights * factor.reshape(spread)
        with np.errstate(under="ignore"):
            scaled: np.ndarray = wide.astype(weights.dtype)
        lost = (scaled == 0) & (wide != 0)
        if lost.any():
            tiny = float(float_info(weights.dtype).smallest_subnormal)
            scaled[lost] = np.copysign(tiny, wide[lost]).astype(weights.dtype)
        return scaled

    @property
    def bias(self) -> np.ndarray | None:
        """The bias as one float64 or one for each output channel, [0] for none.

        None where it is not a constant of that kind.
        """
        if self.node.op == "MatMul":
            return np.zeros(1)
        bias = self.node.operands(3)[2]
        if bias is None:
            return np.zeros(1)
        values = bias.constant
        scaled = self.node.op == "Gemm" and self.node.attr("beta", 1.0) != 1.0
        if values is None or scaled or (values.size != 1 and values.shape[-1] != values.size):
            return None
        return values.reshape(-1).astype(np.float64)

    @property
    def ineligible(self) -> Reason | None:
        """Why the layer gains nothing in the target's format by its limits, None where it is eligible.

        A layer whose sizes are not known counts as large enough. In several deployments its weights are the
        same file's: it is eligible where a third of its work, by the shares of the deployments, is in those
        in which it has enough rows.
        """
        name = self.node.format.name
        rows, channels, group = (self.node.kernel_limit(kind) or 0 for kind in _NEEDED)
        if self.node.op not in self.node.model.formats[name]:
            return reason("no-kernel", op=self.node.op, format=name)
        per_group = self.inputs // self.groups
        if self.groups > 1 and per_group < group:
            code = "padded-groups.depthwise" if per_group == 1 else "padded-groups"
            return reason(code, channels=per_group, format=name, group=group)
        taps, most = self.terms // max(1, per_group), self.node.kernel_limit("taps")
        if most and self.node.op == "Conv" and taps > most:
            return reason("wide-kernel", taps=taps, format=name, most=most)
        if few := self._few(rows, name):
            return few
        if self.inputs < channels and self.outputs < channels:
            return reason("few-channels", inputs=self.inputs, outputs=self.outputs, format=name)
        return None

    def _few(self, least: int, name: str) -> Reason | None:
        """That there are too few rows; None where there are `least`, or it is not known."""
        if not self.each:
            if self.rows is None or self.rows >= least:
                return None
            return reason("few-rows.one" if self.rows == 1 else "few-rows", rows=self.rows, format=name)
        loads = self.node.model.workloads
        work = [one.factor * rows for one, rows in zip(loads, self.each, strict=True) if rows is not None]
        enough = [
            one.factor * rows
            for one, rows in zip(loads, self.each, strict=True)
            if rows is not None and rows >= least
        ]
        if None in self.each or sum(enough) >= _WORTH * sum(work):
            return None
        rows = ", ".join(f"{rows} in {one.name}" for one, rows in zip(loads, self.each, strict=True))
        return reason("few-rows.deployments", rows=rows, format=name)


def multiplies(node: Node) -> bool:
    """Whether a node is such a product: of an activation and constant weights, or of two activations."""
    return node.op in WEIGHTED and not node.domain


def layer_of(node: Node, *, quantized: bool = False) -> Layer | None:
    """The layer that a node is; None where it is none, or its weights are not constant.

    Args:
        node: the node.
        quantized: whether weights that the model dequantizes from constants count too.
    """
    if not multiplies(node):
        return None
    data, weight = node.operands(2)
    if data is None or weight is None:
        return None
    fixed = [t.is_constant or (quantized and is_quantized_constant(t)) for t in (data, weight)]
    if fixed[0] == fixed[1]:
        return None
    if node.op == "MatMul":
        return _matmul(node, data, weight, index=int(fixed[1]))
    size = _size(weight)
    if not fixed[1] or len(size) < 2:
        return None
    out = node.outputs[0]
    if node.op == "Gemm":
        axis = 0 if node.attr("transB", 0) else 1
        terms = size[1 - axis]
        return Layer(node, weight, 1, axis, terms, size[axis], 1, terms, *_rows(out, 1))
    groups = int(node.attr("group", 1))
    if node.op == "Conv":
        terms = int(np.prod(size[1:], dtype=np.int64))
        return Layer(node, weight, 1, 0, size[1] * groups, size[0], groups, terms, *_rows(out, 1))
    terms = size[0] // groups * int(np.prod(size[2:], dtype=np.int64))
    return Layer(node, weight, 1, 1, size[0], size[1] * groups, groups, terms, *_rows(data, 1))


def other_macs(node: Node) -> int | None:
    """Multiply-accumulates of a product of two activations, an Einsum or a recurrent layer; as `Layer.macs`.

    Returns:
        None where a size is not known, 0 for any other operator.
    """
    if not _has_macs(node):
        return 0
    if node.model.workloads:
        return _mean(node, [_other_macs(node, place) for place in range(len(node.model.workloads))])
    return _other_macs(node, None)


def balance(model: Model) -> None:
    """Gives the deployments of a model the work that is their share of all.

    A multiply-accumulate counts share x mean / own: own are those of one inference of the deployment, mean is
    the mean of these over the deployments by their shares. So a deployment counts as much as is stated,
    however large its sizes are. Sizes that are not known count nothing.
    """
    loads = model.workloads
    nodes = model.nodes
    own = [max(1, sum(_macs_in(node, place) or 0 for node in nodes)) for place in range(len(loads))]
    mean = sum(one.share * macs for one, macs in zip(loads, own, strict=True))
    model.workloads = tuple(
        replace(one, factor=one.share * mean / macs) for one, macs in zip(loads, own, strict=True)
    )


def _macs_in(node: Node, place: int) -> int | None:
    """Multiply-accumulates of a node in one of the deployments."""
    layer = layer_of(node, quantized=True)
    if layer is None:
        return _other_macs(node, place) if _has_macs(node) else 0
    rows = layer.each[place]
    return None if rows is None else rows * layer.outputs * layer.terms


def _mean(node: Node, each: Sequence[int | None]) -> int | None:
    """The multiply-accumulates that are counted of those in each deployment."""
    counts = [macs for macs in each if macs is not None]
    if len(counts) < len(each):
        return None
    return round(sum(one.factor * macs for one, macs in zip(node.model.workloads, counts, strict=True)))


def _has_macs(node: Node) -> bool:
    return node.op in (*WEIGHTED, *RECURRENT, "Einsum") and not node.domain


def has_inner_products(model: Model) -> bool:
    """Whether bodies of control flow multiply, which nobody counts: how often they run is not known."""
    bodies = (graph for graph in model.graphs() if graph is not model.graph)
    return any(_has_macs(Node(model, raw)) for graph in bodies for raw in graph.nodes)


def _einsum_macs(node: Node, place: int | None) -> int | None:
    """The product of the sizes of all labels; 0 of a single operand."""
    terms = str(node.attr("equation", "")).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, node.inputs, strict=False):
        shape = None if operand is None else _shape(operand, place)
        if shape is None or not is_static(shape):
            return None
        before, dots, behind = term.partition("...")
        wide = len(shape) - len(before) - len(behind)
        labels = [*before, *(map(str, range(wide, 0, -1) if dots else ())), *behind]
        for label, size in zip(labels, shape, strict=False):
            sizes[label] = max(sizes.get(label, 1), int(size or 0))
    return math.prod(sizes.values()) if len(terms) > 1 else 0


def _other_macs(node: Node, place: int | None) -> int | None:
    if node.op == "Einsum":
        return _einsum_macs(node, place)
    data, weight, again = (None if t is None else _shape(t, place) for t in node.operands(3))
    sizes = data, weight, _shape(node.outputs[0], place)
    if not all(map(is_static, sizes)):
        return None
    left, right, out = (np.array(shape, np.int64) for shape in sizes)
    if node.op in RECURRENT:  # [steps, batch, inputs], [directions, gates x hidden, inputs]
        hidden = int(again[-1]) if again and isinstance(again[-1], int) else 0
        return int(left[:-1].prod() * right[:-1].prod() * (right[-1] + hidden))
    if node.op == "ConvTranspose":
        return int(left.prod() * right[1:].prod())
    if node.op == "Conv":
        return int(out.prod() * right[1:].prod())
    transposed = node.op == "Gemm" and node.attr("transA", 0)
    return int(out.prod() * left[0 if transposed else -1])


def _matmul(node: Node, left: Tensor, right: Tensor, index: int) -> Layer | None:
    weight = right if index else left
    size = _size(weight)
    if len(size) < 2:
        return None
    axis, terms = (len(size) - 1, size[-2]) if index else (len(size) - 2, size[-1])
    rows = _rows(node.outputs[0], axis - len(size))
    return Layer(node, weight, index, axis, terms, size[axis], 1, terms, *rows)


def _size(weight: Tensor) -> tuple[int, ...]:
    return tuple(0 if dim is None or isinstance(dim, str) else int(dim) for dim in weight.shape or ())


def _shape(tensor: Tensor, place: int | None) -> Shape | None:
    """The typical shape of a tensor; in one of several deployments, where `place` says which."""
    if place is None:
        return tensor.typical_shape
    return tensor.model.workloads[place].shapes.get(tensor.name, tensor.shape)


def _rows(tensor: Tensor, channel_axis: int) -> tuple[int | None, tuple[int | None, ...]]:
    """The elements a channel: of the typical shape, and in each of several deployments."""
    places = range(len(tensor.model.workloads))
    each = tuple(_rows_of(_shape(tensor, place), channel_axis) for place in places)
    return _rows_of(tensor.typical_shape, channel_axis), each


def _rows_of(shape: Shape | None, channel_axis: int) -> int | None:
    if shape is None or not -len(shape) <= channel_axis < len(shape):
        return None
    rest = [dim for axis, dim in enumerate(shape) if axis != channel_axis % len(shape)]
    return math.prod(rest) if is_static(rest) else None
