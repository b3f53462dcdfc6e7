"""Factors of channels on their way through a model: from what can write them to what can undo them.

A tensor times a factor is written by a layer with other rows of weights, or by a normalization with another
gamma, and read by a layer with other columns. Between them are operators that hand positive factors on: Relu,
pools, Concat, Reshape, the product with another activation, ...

A factor is an array that broadcasts to its tensor, of its rank: [1, C, 1, 1], or [1, heads, 1, C] behind the
Reshape of attention.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxq.graph.channels import along
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.draft.edits import ChannelMap
from onnxq.repair.found_edits import NoFit
from onnxq.repair.writer import Writer

_MOST = 64
"""So many tensors share a factor at most: more are a net's backbone, which no one tensor should change."""

BENDS = ("Relu", "LeakyRelu", "PRelu", "Clip", "MaxPool", "GlobalMaxPool")
"""What hands positive factors on, and no others."""

_ALIKE = (
    "Identity", "Dropout", "AveragePool", "GlobalAveragePool", "Relu", "LeakyRelu", "PRelu", "MaxPool",
    "GlobalMaxPool",
)  # fmt: skip
_SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_SPATIAL = ("AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool")

_GAMMA = {
    "BatchNormalization": (1, 2), "InstanceNormalization": (1, 2), "LayerNormalization": (1, 2),
    "RMSNormalization": (1, None), "SimplifiedLayerNormalization": (1, None),
    "SkipLayerNormalization": (2, 3), "SkipSimplifiedLayerNormalization": (2, None),
}  # fmt: skip
"""Which inputs of normalizations are gamma and beta."""

_OF_CHANNELS = ("BatchNormalization", "InstanceNormalization")
"""Those whose gamma is along the second axis; of the others it is along the last ones."""


class Flow:
    """The factors of tensors, and the constants that make and undo them.

    Attributes:
        factors: float64, by tensor.
        writer: the constants.
        bends: the operators on the way that hand on positive factors only.
    """

    def __init__(self, model: Model, *, linear: bool = False) -> None:
        """Nothing is scaled yet; `linear`: such operators are refused."""
        self.factors: dict[str, np.ndarray] = {}
        self.writer = Writer(model)
        self._linear = linear
        self.bends: set[str] = set()
        self._done: set[str] = set()

    def scale(self, tensor: Tensor, factor: np.ndarray) -> None:
        """Multiplies a tensor, and all that shares its channels on the way.

        Args:
            tensor: the tensor.
            factor: positive, float64, of its rank.

        Raises:
            NoFit: something on the way cannot make, hand on or undo it.
        """
        before = self.factors.get(tensor.name)
        if before is not None:
            if not _same(before, factor):
                raise NoFit("two-factors", tensor=tensor.name)
            return
        if np.all(factor == 1):
            return
        if tensor.is_output:
            raise NoFit("is-output", tensor=tensor.name)
        if not is_float(tensor.dtype) or tensor.rank != factor.ndim:
            raise NoFit("unknown-shape.type", tensor=tensor.name)
        if len(self.factors) >= _MOST:
            raise NoFit("many-tensors")
        self.factors[tensor.name] = factor
        if tensor.producer is None:
            raise NoFit("is-input", tensor=tensor.name)
        self._make(tensor.producer, tensor, factor)
        for node in tensor.users:
            if node.has_body:
                raise NoFit("reads-it.tensor", node=node.name, tensor=tensor.name, op=node.op)
            for index, read in enumerate(node.inputs):
                if read == tensor:
                    self._read(node, index, tensor, factor)

    def maps(self) -> dict[str, ChannelMap]:
        """What becomes of tensors."""
        maps = {}
        for name, factor in self.factors.items():
            axes = _axes(factor)
            if len(axes) > 1:
                maps[name] = ChannelMap.of(scale=factor)
            else:
                scale = factor.reshape(-1) if axes else factor.reshape(())
                maps[name] = ChannelMap.of(scale=scale, axis=axes[0] if axes else None)
        return maps

    # -- what writes a tensor ------------------------------------------------------------------

    def _make(self, node: Node, out: Tensor, factor: np.ndarray) -> None:
        """Makes a node write its output times a factor."""
        op = node.op
        if op in _GAMMA:
            self._normalize(node, out, factor)
        elif node.domain:
            raise _cannot(node, out)
        elif op in _ALIKE:
            self._alike(node, factor)
            self.scale(_first(node), factor)
        elif op == "Clip":
            self._clip(node, factor)
            self.scale(_first(node), factor)
        elif op in _SHAPES:
            source = _first(node)
            self.scale(source, _reshaped(factor, out.shape, source.shape))
        elif op == "Transpose":
            perm = _perm(node, factor.ndim)
            self.scale(_first(node), factor.transpose(np.argsort(perm)))
        elif op == "Concat":
            self._parts(node, node.inputs, factor)
        elif op == "Split":
            self._whole(node, out, factor)
        elif op in ("Add", "Sub"):
            self._sum(node, factor)
        elif op in ("Mul", "Div"):
            self._made_product(node, out, factor)
        elif (layer := layer_of(node)) is not None:
            self._rows(layer, out, factor)
        elif op == "MatMul":
            self._made_matmul(node, factor)
        else:
            raise _cannot(node, out)

    def _rows(self, layer: Layer, out: Tensor, factor: np.ndarray) -> None:
        """Another factor of each output channel's weights, and of its bias."""
        node, weights = layer.node, self.writer.value(layer.node, layer.index)
        if weights is None or layer.index != 1 or (node.op == "MatMul" and weights.ndim != 2):
            raise _cannot(node, out)
        axis = factor.ndim - 1 if node.op == "MatMul" else 1
        rows = _vector(factor, axis, layer.outputs)
        if node.op == "ConvTranspose":
            block = rows.reshape(layer.groups, 1, -1, *[1] * (weights.ndim - 2))
            weights = (weights.reshape(layer.groups, -1, *weights.shape[1:]) * block).reshape(weights.shape)
        else:
            weights = weights * along(rows, layer.axis, weights.ndim)
        self.writer.put(node, layer.index, weights, weight=True)
        if node.op != "MatMul" and self.writer.has(node, 2):
            bias = self.writer.value(node, 2)
            if bias is None or (bias.size > 1 and bias.shape[-1] != layer.outputs):
                raise NoFit("bias-shape.constant", node=node.name)
            self.writer.put(node, 2, bias * rows)

    def _normalize(self, node: Node, out: Tensor, factor: np.ndarray) -> None:
        if out != node.outputs[0] or node.attr("training_mode", 0):
            raise _cannot(node, out)
        for index in _GAMMA[node.op]:
            if index is None or not self.writer.has(node, index):
                continue
            values = self.writer.value(node, index)
            if values is None:
                raise NoFit("computed-norm", node=node.name)
            if node.op in _OF_CHANNELS:
                self.writer.put(node, index, values * _vector(factor, 1, values.size))
            else:
                self.writer.put(node, index, values * _last(factor, values.ndim))

    # -- what reads a tensor -------------------------------------------------------------------

    def _read(self, node: Node, index: int, tensor: Tensor, factor: np.ndarray) -> None:
        """Makes a node undo a factor of what it reads, or hand it on."""
        op = node.op
        if node.domain or (index != 0 and op not in ("Add", "Sub", "Mul", "MatMul", "Concat")):
            raise NoFit("reads-it.tensor", node=node.name, tensor=tensor.name, op=op)
        if op == "BatchNormalization":
            self._undo_norm(node, factor)
        elif op in _ALIKE:
            self._alike(node, factor)
            self.scale(node.outputs[0], factor)
        elif op == "Clip":
            self._clip(node, factor)
            self.scale(node.outputs[0], factor)
        elif op in _SHAPES:
            out = node.outputs[0]
            self.scale(out, _reshaped(factor, tensor.shape, out.shape))
        elif op == "Transpose":
            self.scale(node.outputs[0], factor.transpose(_perm(node, factor.ndim)))
        elif op == "Concat":
            self._whole_of(node, index, factor)
        elif op == "Split":
            self._parts(node, node.outputs, factor)
        elif op in ("Add", "Sub"):
            self._sum(node, factor)
        elif op in ("Mul", "Div"):
            self._read_product(node, index, factor)
        elif (layer := layer_of(node)) is not None and layer.index == 1:
            self._columns(layer, factor)
        elif op == "MatMul":
            self._read_matmul(node, index, factor)
        else:
            raise NoFit("reads-it.tensor", node=node.name, tensor=tensor.name, op=op)

    def _columns(self, layer: Layer, factor: np.ndarray) -> None:
        """The inverse factor of each input channel's weights."""
        node, weights = layer.node, self.writer.value(layer.node, 1)
        if weights is None or (node.op == "MatMul" and weights.ndim != 2):
            raise NoFit("several-matrices.read", node=node.name)
        if node.op == "MatMul":
            axis = factor.ndim - 1
        else:
            axis = 0 if node.op == "Gemm" and node.attr("transA", 0) else 1
        columns = 1 / _vector(factor, axis, layer.inputs)
        if node.op == "Conv":
            block = columns.reshape(layer.groups, 1, -1, *[1] * (weights.ndim - 2))
            weights = (weights.reshape(layer.groups, -1, *weights.shape[1:]) * block).reshape(weights.shape)
        else:
            place = 0 if node.op == "ConvTranspose" else 1 - layer.axis
            weights = weights * along(columns, place, weights.ndim)
        self.writer.put(node, 1, weights, weight=True)

    def _undo_norm(self, node: Node, factor: np.ndarray) -> None:
        gamma, mean = self.writer.value(node, 1), self.writer.value(node, 3)
        if gamma is None or mean is None or node.attr("training_mode", 0):
            raise NoFit("computed-norm.mean", node=node.name)
        channels = _vector(factor, 1, gamma.size)
        self.writer.put(node, 1, gamma / channels)
        self.writer.put(node, 3, mean * channels)

    # -- what hands it on ----------------------------------------------------------------------

    def _alike(self, node: Node, factor: np.ndarray) -> None:
        if node.op in BENDS:
            self._bend(node)
        if node.op in _SPATIAL and any(axis != 1 for axis in _axes(factor)):
            raise NoFit("mixes-channels", node=node.name, op=node.op)

    def _bend(self, node: Node) -> None:
        if self._linear:
            raise NoFit("bends", op=node.op)
        self.bends.add(node.op)

    def _clip(self, node: Node, factor: np.ndarray) -> None:
        """Bounds that are zero stay; others take a factor that is one number."""
        self._bend(node)
        if node.name in self._done:
            return
        self._done.add(node.name)
        for index in (1, 2):
            if not self.writer.has(node, index):
                continue
            bound = self.writer.value(node, index)
            if bound is None or (bound.any() and len(_axes(_shrunk(factor)))):
                raise NoFit("one-bound", node=node.name)
            self.writer.put(node, index, bound * factor.reshape(-1)[:1].reshape(bound.shape))
        if node.opset < 11 and (node.attr("min", 0.0) or node.attr("max", 0.0)):
            raise NoFit("one-bound", node=node.name)

    def _sum(self, node: Node, factor: np.ndarray) -> None:
        """All that is summed has the factor of the sum."""
        if node.name in self._done:
            return
        self._done.add(node.name)
        for index, read in enumerate(node.inputs):
            assert read is not None
            values = self.writer.value(node, index)
            if values is not None:
                self.writer.put(node, index, values * _last(factor, values.ndim, widen=True))
            elif read.is_constant:
                raise NoFit("adds", node=node.name)
            else:
                self.scale(read, _narrowed(factor, read, node))
        out = node.outputs[0]
        if out.rank != factor.ndim:
            raise NoFit("adds.ranks", node=node.name)
        self.scale(out, factor)

    def _made_product(self, node: Node, out: Tensor, factor: np.ndarray) -> None:
        """The factor of a product is that of one side: of its constant, else of an activation."""
        for index in (1, 0):
            values = self.writer.value(node, index)
            if values is not None and not (node.op == "Div" and index == 0):
                spread = _last(factor, values.ndim, widen=True)
                changed = values / spread if node.op == "Div" else values * spread
                self.writer.put(node, index, changed)
                return
        if node.op == "Div":
            raise _cannot(node, out)
        why = None
        for read in node.inputs:
            saved = dict(self.factors), set(self._done), set(self.bends), self.writer.copy()
            try:
                assert read is not None
                self.scale(read, _narrowed(factor, read, node))
            except NoFit as error:
                self.factors, self._done, self.bends, self.writer = saved
                why = error
            else:
                return
        raise why or _cannot(node, out)

    def _read_product(self, node: Node, index: int, factor: np.ndarray) -> None:
        other = self.writer.value(node, 1 - index)
        out = node.outputs[0]
        if other is not None:
            spread = _last(factor, other.ndim, widen=True)
            self.writer.put(node, 1 - index, other * spread if node.op == "Div" else other / spread)
            return
        mate = node.inputs[1 - index]
        if node.op == "Div" or mate is None or mate.name in self.factors or out.rank != factor.ndim:
            raise NoFit("reads-it", node=node.name, op=node.op)
        self.scale(out, factor)

    def _made_matmul(self, node: Node, factor: np.ndarray) -> None:
        """Columns of a product of activations are those of its right side."""
        right = node.inputs[1]
        if right is None or right.rank != factor.ndim or factor.shape[-2] != 1:
            raise NoFit("mixes-channels.sum", node=node.name, op=node.op)
        self.scale(right, _narrowed(factor, right, node))

    def _read_matmul(self, node: Node, index: int, factor: np.ndarray) -> None:
        out, mate = node.outputs[0], node.inputs[1 - index]
        if index == 0 or factor.shape[-2] != 1 or out.rank != factor.ndim:
            raise NoFit("mixes-channels.sum", node=node.name, op=node.op)
        if mate is None or mate.name in self.factors:
            raise NoFit("reads-it.twice", node=node.name)
        self.scale(out, factor)

    def _parts(self, node: Node, parts: Sequence[Tensor | None], factor: np.ndarray) -> None:
        """Gives each part of a tensor its part of the factor."""
        axis, ends = _ends(node, parts)
        for part, low, high in zip(parts, ends, ends[1:], strict=False):
            if part is not None and part.name:
                self.scale(part, _cut(factor, axis, low, high))

    def _whole(self, node: Node, part: Tensor, factor: np.ndarray) -> None:
        """The factor of what is split; parts that nobody scales have none."""
        index = next(i for i, out in enumerate(node.outputs) if out == part)
        self._joined(node, _first(node), node.outputs, index, factor)

    def _whole_of(self, node: Node, index: int, factor: np.ndarray) -> None:
        self._joined(node, node.outputs[0], node.inputs, index, factor)

    def _joined(
        self, node: Node, whole: Tensor, parts: Sequence[Tensor | None], index: int, factor: np.ndarray
    ) -> None:
        axis, ends = _ends(node, parts)
        before = self.factors.get(whole.name)
        if before is not None:
            if not _same(_cut(before, axis, ends[index], ends[index + 1]), factor):
                raise NoFit("two-factors", tensor=whole.name)
            return
        shape = list(factor.shape)
        shape[axis] = ends[-1]
        joined = np.ones(shape)
        place = [slice(None)] * factor.ndim
        place[axis] = slice(ends[index], ends[index + 1])
        joined[tuple(place)] = factor
        self.scale(whole, joined)


def _first(node: Node) -> Tensor:
    first = node.inputs[0]
    assert first is not None
    return first


def _cannot(node: Node, out: Tensor) -> NoFit:
    return NoFit("writes-it", node=node.name, tensor=out.name, op=node.op)


def _axes(factor: np.ndarray) -> list[int]:
    """The axes along which a factor is more than one number."""
    return [axis for axis, size in enumerate(factor.shape) if size != 1]


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.ndim != other.ndim:
        return False
    try:
        return bool(np.all(np.equal(one, other)))
    except ValueError:
        return False


def _vector(factor: np.ndarray, axis: int, size: int) -> np.ndarray:
    """A factor that is along one axis only, [size].

    Raises:
        NoFit: it is not.
    """
    if any(other != axis for other in _axes(factor)) or factor.shape[axis] not in (1, size):
        raise NoFit("other-axis")
    return np.broadcast_to(factor.reshape(-1), (size,))


def _last(factor: np.ndarray, rank: int, *, widen: bool = False) -> np.ndarray:
    """A factor for a constant of so many last axes; a smaller one grows where it may (`widen`).

    Raises:
        NoFit: it has not the axes.
    """
    lost = factor.shape[: factor.ndim - rank]
    if rank > factor.ndim:
        raise NoFit("ranks.constant")
    if any(size != 1 for size in lost):
        if not widen:
            raise NoFit("other-axis")
        return factor.reshape(factor.shape[_axes(factor)[0] :])
    return factor.reshape(factor.shape[factor.ndim - rank :])


def _narrowed(factor: np.ndarray, tensor: Tensor, node: Node) -> np.ndarray:
    """A factor of an element-wise result as that of an operand that has all its channels.

    Raises:
        NoFit: it is repeated along them.
    """
    shape = tensor.shape
    if shape is None or len(shape) != factor.ndim:
        raise NoFit("ranks", node=node.name)
    if any(shape[axis] != factor.shape[axis] for axis in _axes(factor)):
        raise NoFit("repeats-channels", node=node.name, tensor=tensor.name)
    return factor


def _perm(node: Node, rank: int) -> list[int]:
    return list(node.attr("perm") or reversed(range(rank)))


def _cut(factor: np.ndarray, axis: int, low: int, high: int) -> np.ndarray:
    return factor if factor.shape[axis] == 1 else np.take(factor, range(low, high), axis)


def _ends(node: Node, parts: Sequence[Tensor | None]) -> tuple[int, list[int]]:
    """The axis of a Concat or Split, and where its parts begin and end.

    Raises:
        NoFit: sizes are not known.
    """
    ranks = {part.rank for part in parts if part is not None and part.name}
    rank = ranks.pop() if len(ranks) == 1 else None
    if rank is None:
        raise NoFit("unknown-shape.joined", node=node.name)
    axis = int(node.attr("axis", 0)) % rank
    ends = [0]
    for part in parts:
        size = None if part is None or part.shape is None else part.shape[axis]
        if not isinstance(size, int):
            raise NoFit("unknown-shape.joined-sizes", node=node.name)
        ends.append(ends[-1] + size)
    return axis, ends


def _reshaped(factor: np.ndarray, old: Shape | None, new: Shape | None) -> np.ndarray:
    """A factor of a tensor that gets another shape.

    Raises:
        NoFit: its channels cannot be followed.
    """
    lost = NoFit("mixes-channels.reshape")
    axes = _axes(factor)
    if old is None or new is None:
        raise lost
    if not axes:
        return factor.reshape([1] * len(new))
    first, last = axes[0], axes[-1]
    if None not in old[: last + 1] and old[: last + 1] == new[: last + 1]:  # other axes behind them
        return factor.reshape([*factor.shape[: last + 1], *[1] * (len(new) - last - 1)])
    for low in range(first, -1, -1):
        for high in range(last + 1, len(old) + 1):
            place = _place(old, low, high, new)
            if place is not None:
                inside, sizes = _known(old[low:high]), _known(new[slice(*place)])
                full = np.broadcast_to(factor.reshape(factor.shape[low:high]), inside)
                start, end = place
                return _shrunk(full.reshape([*[1] * start, *sizes, *[1] * (len(new) - end)]))
    raise lost


def _place(old: Shape, low: int, high: int, new: Shape) -> tuple[int, int] | None:
    """Which axes of a new shape hold what some of the old one held, with as much behind them."""
    inside, behind = _size(old[low:high]), _size(old[high:])
    if inside is None or behind is None:
        return None
    for start in range(len(new)):
        for end in range(start + 1, len(new) + 1):
            if _size(new[end:]) == behind and _size(new[start:end]) == inside:
                return start, end
    return None


def _known(dims: Shape) -> list[int]:
    return [dim for dim in dims if isinstance(dim, int)]


def _size(dims: Shape) -> int | None:
    sizes = _known(dims)
    return math.prod(sizes) if len(sizes) == len(dims) else None


def _shrunk(factor: np.ndarray) -> np.ndarray:
    """The same factor, with one number along axes where it does not vary."""
    for axis in _axes(factor):
        first = np.take(factor, [0], axis)
        if np.all(factor == first):
            factor = first
    return factor
