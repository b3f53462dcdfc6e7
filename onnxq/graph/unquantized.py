"""A quantized model without its Q/DQ pairs: what it was made of, as far as that can be told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.formats import INT8, NumberFormat, format_of
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import NOTHING, QDQ, QUANTIZE, Between, Pair, PairIndex, pair_of, readers_of
from onnxq.graph.topology import Topology
from onnxq.graph.types import elem_type_of
from onnxq.graph.view import Node, Tensor, every_node

QUANTIZED = (*QDQ, "QLinear", "QGemm")
"""How the names of operators begin that quantize, dequantize, or compute with codes and scales."""

_CODES = Between((*MOVES, "Clip"), joins=True)
"""What codes go through that are floats then: a Pad would add other values. PyTorch clips codes of 7 bits."""

_ABOVE_ZERO = ("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Sqrt")
_MEANS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax", "Resize")
_SUMS = ("Add", "Mul", "Concat", "Max")

_SIX = 6.0
"""Where a Relu6 ends: quantizers leave it out as they do a Relu, for the codes end there."""


@dataclass(frozen=True, slots=True, eq=False)
class StatedPair:
    """What a pair said of the tensor that it quantized.

    Attributes:
        tensor: its name in the model without pairs.
        format: of its codes.
        scale: the size of a step, float64 [] or [channels].
        zero: the code of 0, int64, of the same shape.
        ends: the least and the greatest code that there is.
        axis: that of the channels; None: there is one scale.
        spread: of a constant of codes, the least and the greatest of them less their zero point; else None.
        constant: whether it is a constant.
        cut: what the pair cut off that the model without it has an operator for: "", `Relu` or `Clip`.
    """

    tensor: str
    format: NumberFormat
    scale: np.ndarray
    zero: np.ndarray
    ends: tuple[int, int]
    axis: int | None
    spread: tuple[int, int] | None = None
    constant: bool = False
    cut: str = ""

    @property
    def exact(self) -> bool:
        """Whether int8 around 0 holds the same numbers, with the same scale."""
        if self.spread is not None:
            return -INT8.greatest <= self.spread[0] and self.spread[1] <= INT8.greatest
        least, greatest = self.ends
        one = self.constant or not self.scale.ndim  # an activation has one scale
        bits = greatest - least == INT8.ends[1] - INT8.ends[0]
        return one and bits and not self._moved.any()

    @property
    def native(self) -> bool:
        """Whether it is int8 around 0 as it stands."""
        return self.exact and self.format.name == INT8.name

    @property
    def _moved(self) -> np.ndarray:
        """By how much 0 is away from the middle of the codes."""
        least, greatest = self.ends
        return self.zero - (least + greatest + 1) // 2

    @property
    def on_grid(self) -> bool:
        """Whether int8 around 0 with the same scale holds the same numbers, but for codes of -128."""
        if self.spread is not None:
            return INT8.ends[0] <= self.spread[0] and self.spread[1] <= INT8.greatest
        return self.exact

    @property
    def amax(self) -> np.ndarray:
        """The magnitudes that int8's greatest code is to stand for, float64, of the scale's shape.

        Those of the same scale where it holds the same numbers. Else the scale with which the end of the
        range is half a step beyond the greatest code, so that no value is further from its code than half a
        step: twice the scale where all codes are on one side of 0.
        """
        if self.on_grid:
            return self.scale * INT8.greatest
        least, greatest = self.ends
        reach = np.maximum(self.zero - least, greatest - self.zero) * self.scale
        return np.asarray(reach * (INT8.greatest / (INT8.greatest + 0.5)))

    @property
    def lost(self) -> float:
        """How many bits fewer int8 around 0 has for the range; below 0: it has more."""
        return float(np.log2(np.max(self.amax / (self.scale * INT8.greatest))))


def centre_codes(model: Model) -> None:
    """Moves all zero points of one dimension or none to where codes are around 0: 0, of uint8 128.

    So rules make pairs, and no arithmetic, of operators that compute with codes. The model computes something
    else then: it is of use where only its operators and shapes count, for the kernels of an engine.

    Args:
        model: the model, which is changed.
    """
    for node in every_node(model):
        for tensor in node.inputs if node.op.startswith(QUANTIZED) else ():
            if tensor is None or not tensor.is_constant or tensor.rank not in (0, 1):
                continue
            if tensor.dtype is not None and INT8.takes(format := format_of(tensor.dtype)):
                assert tensor.constant is not None
                zero = np.full_like(tensor.constant, (format.ends[0] + format.greatest + 1) // 2)
                tensor.tensor._values = model.constant("", zero)._values


def unquantized(model: onnx.ModelProto, data_dir: Path | None = None) -> onnx.ModelProto:
    """A copy of a model whose tensors are not quantized, see `without_pairs`."""
    return without_pairs(model, data_dir)[0]


def without_pairs(
    model: onnx.ModelProto, data_dir: Path | None = None, takes: Callable[[Pair], bool] = lambda pair: True
) -> tuple[onnx.ModelProto, tuple[StatedPair, ...]]:
    """A copy of a model without its pairs, whose quantized constants are floats again, and what they said.

    Those in subgraphs stay, and those whose codes are read by more than a DequantizeLinear of the same
    scale. What is left keeps its names. Quantizers leave out a Relu, or a Relu6, in front of a pair whose
    codes end there too: where a pair cuts off what is below 0, and its source may be, there is one again;
    not behind an input, whose values are as they are.

    Args:
        model: the model; its pairs are QuantizeLinear and DequantizeLinear, with any zero point.
        data_dir: the folder that its external data is relative to, None where its weights are in it.
        takes: which pairs are taken out, of those that can be.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    taken = _Taken(PairIndex.of(Topology(model, None, data_dir), bodies=False), takes)
    outputs = {info.name for info in graph.output}
    inputs = {info.name for info in graph.input}
    instead: dict[str, str] = {}
    types: dict[str, int] = {}  # of what was quantized
    stated: list[StatedPair] = []
    kept = []
    for node in graph.node:
        clips = node.op_type == "Clip" and node.input[0] in taken.codes
        for index, name in enumerate(node.input):
            node.input[index] = instead.get(name, name)
        source = node.input[0] if node.input else ""
        pair = taken.pairs.get(node.output[0]) if node.output else None
        if pair is not None and not pair.dequantizes:
            ends = taken.ends(pair)
            cut = "" if source in inputs else _cut(pair, ends)
            if cut:
                kept.append(_cutting(node, cut, copy))
                source = node.output[0]
            else:
                instead[node.output[0]] = source
            types[source] = _type(pair.scale)
            stated += _stated(pair, source, ends, cut)
        elif pair is not None:
            made, kind = _dequantized(pair), _type(pair.scale)
            if made is not None:
                graph.initializer.append(numpy_helper.from_array(made, node.output[0]))
                stated += _stated(pair, node.output[0], pair.ends)
            elif types.get(source, kind) != kind:
                kept.append(
                    onnx.helper.make_node("Cast", [source], [node.output[0]], f"{node.name}_cast", to=kind)
                )
            elif node.output[0] in outputs:
                kept.append(onnx.helper.make_node("Identity", [source], [node.output[0]], node.name))
            else:
                instead[node.output[0]] = source
        elif clips:
            instead[node.output[0]] = source
        else:
            if source in types:  # what only moves codes moves floats now
                types.update(dict.fromkeys(node.output, types[source]))
            kept.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(kept)
    read = {name for node in graph.node for name in node.input} | outputs
    every = any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)
    left = [tensor for tensor in graph.initializer if every or tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(left)
    return copy, tuple(stated)


class _Taken:
    """The pairs that can be taken out: each node with all that it is paired with.

    Attributes:
        pairs: they, by the name of what the node gives.
        codes: the names of their codes, moved or not.
    """

    def __init__(self, held: PairIndex, takes: Callable[[Pair], bool]) -> None:
        self.codes: set[str] = set()
        self._clips: dict[Node, list[Node]] = {}
        makers = {pair.node: self._makers(pair) for pair in held.dequantizing}
        stays = {pair.node for pair in held if not takes(pair)}
        stays |= {node for node, found in makers.items() if found is None}
        for pair in held.quantizing:
            readers = [user for user, _ in readers_of(pair.node.outputs[0], _CODES)]
            if any(user not in makers for user in readers) or _reaches_output(pair.node.outputs[0]):
                stays.add(pair.node)
        before = -1
        while len(stays) != before:
            before = len(stays)
            for node, found in makers.items():
                if node in stays or any(maker in stays for maker in found or ()):
                    stays.update((node, *(found or ())))
        self.pairs = {pair.node.outputs[0].name: pair for pair in held if pair.node not in stays}

    def ends(self, pair: Pair) -> tuple[int, int] | None:
        """The least and the greatest code that a QuantizeLinear gives, as a Clip behind it leaves them."""
        if pair.ends is None:
            return None
        least, greatest = pair.ends
        for clip in self._clips.get(pair.node, ()):
            low, high = _bounds(clip)
            least, greatest = max(least, int(low)), min(greatest, int(high))
        return least, greatest

    def _makers(self, pair: Pair) -> Collection[Node] | None:
        """What makes the codes of a DequantizeLinear; none of a constant; None: no QuantizeLinear."""
        if pair.codes is None or pair.codes.is_constant:
            return None if pair.codes is None or _dequantized(pair) is None else ()
        found: dict[Node, None] = {}
        todo: list[tuple[Tensor | None, tuple[Node, ...]]] = [(pair.codes, ())]
        while todo:
            tensor, clips = todo.pop()
            maker = tensor.producer if tensor is not None else None
            if tensor is None or maker is None:
                return None
            self.codes.add(tensor.name)
            if maker.op == QUANTIZE:
                if not _same(pair, Pair(maker)):
                    return None
                found[maker] = None
                self._clips.setdefault(maker, []).extend(clips)
                continue
            if maker.op == "Clip":
                if not all(np.isfinite(_bounds(maker))):
                    return None
                clips = (*clips, maker)
            handed = _CODES.handed_on(maker)
            if not handed:
                return None
            todo += [(one, clips) for one in handed]
        return found


def _bounds(clip: Node) -> tuple[float, float]:
    """The constants between which a Clip keeps codes; not finite where one is computed."""
    ends = []
    for tensor, none in zip(clip.operands(3)[1:], (-(1 << 16), 1 << 16), strict=True):
        value = none if tensor is None else tensor.scalar
        ends.append(float("nan") if value is None else float(value))
    return ends[0], ends[1]


def _same(one: Pair, other: Pair) -> bool:
    """Whether two nodes have the same scale and zero point: one tensor, or constants of the same values."""
    for first, second in ((one.scale, other.scale), (one.zero, other.zero)):
        if first is not None and second is not None and first.name == second.name:
            continue
        values, others = (np.zeros(1) if one is None else one.constant for one in (first, second))
        if values is None or others is None or not np.array_equal(values.ravel(), others.ravel()):
            return False
    return True


def _zeros(pair: Pair) -> np.ndarray | None:
    """Its zero points, int64, of any shape; None where they are computed."""
    values = np.zeros(()) if pair.zero is None else pair.zero.constant
    return None if values is None else np.asarray(values).astype(np.int64)


def _reaches_output(codes: Tensor) -> bool:
    """Whether codes are an output of the model, moved or not."""
    todo, seen = [codes], {codes}
    while todo:
        tensor = todo.pop()
        if tensor.is_output:
            return True
        for user in tensor.users:
            new = [one for one in user.outputs if tensor in _CODES.handed_on(user) and one not in seen]
            seen.update(new)
            todo += new
    return False


def _stated(pair: Pair, tensor: str, ends: tuple[int, int] | None, cut: str = "") -> Iterator[StatedPair]:
    """What a pair says of a tensor; nothing where its scales are computed, or of blocks."""
    scales, zeros, format = pair.scales, _zeros(pair), pair.format
    if scales is None or zeros is None or format is None or ends is None or pair.block:
        return
    one = scales.size == 1 and zeros.size == 1
    if one:
        scales, zeros = scales.reshape(()), zeros.reshape(())
    codes = pair.codes.constant if pair.dequantizes and pair.codes is not None else None
    spread = None
    if codes is not None:
        whole = pair.spread(zeros, codes.shape)
        if whole is None:
            return
        centred = codes.astype(np.int64) - whole
        spread = (int(centred.min(initial=0)), int(centred.max(initial=0)))
    elif one and scales == 0:
        return
    source = pair.source
    constant = codes is not None or (source is not None and source.is_constant)
    axis = None if one else pair.axis
    zeros = np.broadcast_to(zeros, scales.shape)
    yield StatedPair(tensor, format, scales, zeros, ends, axis, spread, constant, cut)


def _cut(pair: Pair, ends: tuple[int, int] | None) -> str:
    """The operator that cuts off what the codes of a QuantizeLinear do below 0, and its source does not."""
    scales, source = pair.scales, pair.source
    if scales is None or ends is None or source is None or source.is_constant:
        return ""
    if not _ends_at_zero(pair) or _is_above_zero(source):
        return ""
    top = (ends[1] - ends[0]) * scales
    return "Clip" if np.allclose(top, _SIX, rtol=1e-3) else "Relu"


def _ends_at_zero(pair: Pair) -> bool:
    """Whether the codes of a QuantizeLinear stand for nothing below 0."""
    zeros = _zeros(pair)
    return zeros is not None and pair.ends is not None and bool((zeros == pair.ends[0]).all())


def _is_above_zero(tensor: Tensor, depth: int = 32) -> bool:
    """Whether nothing of a tensor is below 0, by what makes it."""
    node = tensor.producer
    if node is None:
        values = tensor.constant
        return values is not None and not bool((np.asarray(values) < 0).any())
    if depth == 0 or node.domain:
        return False
    if node.op in _ABOVE_ZERO:
        return True
    if node.op == "Clip":
        bound = node.operands(2)[1]
        least = node.attr("min") if bound is None else bound.scalar
        return least is not None and bool(least >= 0)
    pair = pair_of(tensor, NOTHING)
    if pair is not None:
        maker, source = pair.quantizer, pair.source
        ends_there = maker is not None and _ends_at_zero(Pair(maker))
        return ends_there or (source is not None and _is_above_zero(source, depth - 1))
    if node.op in _SUMS:
        return all(one is not None and _is_above_zero(one, depth - 1) for one in node.inputs)
    if node.op == "Resize" and node.attr("mode", "nearest") == "cubic":
        return False
    if node.op in (*MOVES, *_MEANS):
        return node.inputs[0] is not None and _is_above_zero(node.inputs[0], depth - 1)
    return False


def _cutting(node: onnx.NodeProto, op: str, model: onnx.ModelProto) -> onnx.NodeProto:
    """A Relu, or the Clip of a Relu6, in the place of a QuantizeLinear."""
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if op == "Relu":
        return onnx.helper.make_node("Relu", [node.input[0]], [node.output[0]], node.name)
    if opset < 11:
        return onnx.helper.make_node("Clip", [node.input[0]], [node.output[0]], node.name, min=0.0, max=_SIX)
    ends = [f"{node.output[0]}_{name}" for name in ("least", "greatest")]
    for name, value in zip(ends, (0.0, _SIX), strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    return onnx.helper.make_node("Clip", [node.input[0], *ends], [node.output[0]], node.name)


def _type(scale: Tensor | None) -> int:
    if scale is None or not scale.is_constant or scale.dtype is None:
        return int(onnx.TensorProto.FLOAT)
    return elem_type_of(scale.dtype)


def _dequantized(pair: Pair) -> np.ndarray | None:
    """What a DequantizeLinear of constants gives; None where its input is no constant of codes."""
    codes = pair.codes.constant if pair.codes is not None else None
    grid = None if codes is None else pair.grid(codes.shape)
    if codes is None or grid is None or pair.scale is None:
        return None
    steps, zeros = grid
    return np.asarray(((codes.astype(np.float32) - zeros) * steps).astype(pair.scale.dtype))
