"""What a model holds in memory: activations along the order of its nodes, weights by type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.analysis.kinds import open_kinds
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, model_name, size
from onnxq.graph.model import Model
from onnxq.graph.order import makers_in, readers_in, reads
from onnxq.graph.pairs import DEQUANTIZE, QUANTIZE
from onnxq.graph.types import Shape, shape_text
from onnxq.graph.view import every_node

_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
_ROWS = 10
_INPUT = -1  # the step at which inputs are there


@dataclass(frozen=True, slots=True)
class LiveTensor(DocumentPart):
    """A tensor that is held at the peak.

    Attributes:
        tensor: its name; where a pair is one with what it quantizes, that of the codes.
        dtype: its type as it is held.
        shape: its sizes, as in `1x64x56x56`.
        bytes: what it takes.
        node: who writes it, "" for an input.
        op: the operator of that node.
        born: the step that writes it, -1 for an input.
        last: the last step that needs it; the number of steps for an output of the model.
    """

    tensor: str
    dtype: str
    shape: str
    bytes: int
    node: str
    op: str
    born: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryStep(DocumentPart):
    """What is held while a node runs.

    Attributes:
        step: its place in the order of the file, from 0.
        node: its name.
        op: its operator.
        tensors: what it writes.
        written_bytes: the size of what it writes, as it is held.
        live_bytes: all activations that are held, pairs being one with what they quantize: a tensor that only
            its QuantizeLinear reads is held as codes, and what a DequantizeLinear gives is not held.
        file_live_bytes: the same where each node of the file writes what it says.
    """

    step: int
    node: str
    op: str
    tensors: tuple[str, ...]
    written_bytes: int
    live_bytes: int
    file_live_bytes: int


@dataclass(frozen=True, slots=True)
class TypeBytes(DocumentPart):
    """The constants of one type.

    Attributes:
        dtype: the type.
        count: how many there are.
        bytes: what they take; types under 8 bits are packed.
    """

    dtype: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TakenSize(DocumentPart):
    """A size that the file leaves open.

    Attributes:
        name: whose it is: a dimension, or an input.
        size: what was taken.
        source: where that is from: --shape, --assume or 1.
    """

    name: str
    size: int
    source: str


@dataclass(frozen=True, slots=True)
class MemoryOf(DocumentPart):
    """The memory of a model.

    Attributes:
        model: its file, "" for one in memory.
        peak_bytes: the most that is held at a step, pairs being one with what they quantize; bytes.
        peak_step: the first step at which that is.
        peak_node: the node of that step.
        at_peak: what is held then, the largest first.
        file_peak_bytes: the most where each node writes what the file says.
        weight_bytes: all constants.
        weights: constants by type, the most bytes first.
        steps: the nodes of the main graph in the order of the file; what bodies hold inside is not counted.
        sizes: sizes that were taken for open ones.
        unknown: tensors whose type or rank is not known, which count as 0.
    """

    model: str
    peak_bytes: int
    peak_step: int
    peak_node: str
    at_peak: tuple[LiveTensor, ...]
    file_peak_bytes: int
    weight_bytes: int
    weights: tuple[TypeBytes, ...]
    steps: tuple[MemoryStep, ...]
    sizes: tuple[TakenSize, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ModelMemory(Shown, DocumentPart):
    """What `onnxq statistics memory` finds.

    Attributes:
        kind: "memory".
        schema: 1.
        before: the model.
        after: the other one, None where there is none.
    """

    kind: str
    schema: int
    before: MemoryOf
    after: MemoryOf | None

    def words(self) -> Words:
        """The peaks and the weights, and what is held at the peak of the other one, else of the model."""
        last = self.after or self.before
        both = [self.before, self.after] if self.after is not None else [self.before]
        facts = [
            f"{say('memory.peak')} {' -> '.join(size(one.peak_bytes) for one in both)}",
            f"weights {' -> '.join(size(one.weight_bytes) for one in both)}",
            say("memory.step", step=last.peak_step, node=last.peak_node) if last.steps else "",
        ]
        rows = [(one.tensor, one.dtype, one.shape, size(one.bytes), one.node) for one in last.at_peak[:_ROWS]]
        head = f"memory of {' and '.join(model_name(one.model) for one in both)}"
        return Words(head, facts, ("at the peak", "type", "shape", "bytes", "of"), rows)


def memory_of(
    model: Model, *, shapes: Iterable[str] = (), assume: Mapping[str, int] | None = None
) -> MemoryOf:
    """The memory of a model.

    Args:
        model: the model; shapes that are stated are set already. Its typical shapes are changed.
        shapes: the inputs whose shapes are stated.
        assume: sizes of dynamic dimensions by name; 1 for others.
    """
    sizes = _set_sizes(model, frozenset(shapes), assume or {})
    proto = model.to_proto(weights=False)
    fed = {tensor.name for tensor in model.inputs}  # without weights, those are inputs of the protobuf, too
    table = _Table(model, proto.graph, fed)
    held, written = table.held(_stands_for(proto.graph, fed)), table.held({})
    live, file_live = (table.profile(spans) for spans in (held, written))
    peak = int(np.argmax(live)) if len(live) else 0
    nodes = proto.graph.node
    made = [0] * len(nodes)
    for entry in held:
        if entry.born != _INPUT:
            made[entry.born] += entry.bytes
    steps = tuple(
        MemoryStep(
            step, node.name, _op(node), tuple(name for name in node.output if name),
            made[step], int(live[step]), int(file_live[step]),
        )
        for step, node in enumerate(nodes)
    )  # fmt: skip
    at_peak = sorted((span for span in held if span.born <= peak <= span.last), key=lambda s: -s.bytes)
    weights = _weights(model)
    return MemoryOf(
        model="" if model.path is None else str(model.path),
        peak_bytes=int(live[peak]) if len(live) else 0,
        peak_step=peak,
        peak_node=nodes[peak].name if len(nodes) else "",
        at_peak=tuple(span for span in at_peak if span.bytes),
        file_peak_bytes=int(file_live.max()) if len(live) else 0,
        weight_bytes=sum(entry.bytes for entry in weights),
        weights=weights,
        steps=steps,
        sizes=sizes,
        unknown=tuple(table.unknown),
    )


def bytes_of(dtype: np.dtype, count: int) -> int:
    """What so many elements of a type take; those under 8 bits are packed."""
    return -(-count * _BITS.get(str(dtype), 8 * dtype.itemsize) // 8)


def _set_sizes(model: Model, stated: frozenset[str], assume: Mapping[str, int]) -> tuple[TakenSize, ...]:
    """Infers shapes for inputs without open sizes; which ones were taken for those."""
    taken: dict[str, TakenSize] = {}
    typical = {}
    for one in model.inputs:
        if one.shape is None:
            continue
        name, dims = one.name, []
        for axis, dim in enumerate(one.shape):
            if isinstance(dim, int):
                dims.append(dim)
                if name in stated:
                    taken[f"{name} axis {axis}"] = TakenSize(f"{name} axis {axis}", dim, "--shape")
                continue
            key = dim or f"{name} axis {axis}"
            dims.append(assume.get(key, 1))
            taken[key] = TakenSize(key, dims[-1], "--assume" if key in assume else "1")
        typical[name] = tuple(dims)
    model.set_typical_input(typical)
    return tuple(taken.values())


class _Table:
    """The tensors of a graph: sizes, and from when to when they are needed."""

    def __init__(self, model: Model, graph: onnx.GraphProto, fed: set[str]) -> None:
        self.steps = len(graph.node)
        self.unknown: dict[str, None] = {}
        self._known = model.tensors()
        self._makers: dict[str, onnx.NodeProto] = {}
        self._born = dict.fromkeys(fed, _INPUT)
        self._more = open_kinds(
            model, {name: model.typical_shapes[name] for name in fed & {*model.typical_shapes}}
        )
        self._last = dict(self._born)
        for step, node in enumerate(graph.node):
            for name in reads(node):
                if name in self._born:
                    self._last[name] = step
            for name in filter(None, node.output):
                self._born[name] = self._last[name] = step
                self._makers[name] = node
        for info in graph.output:
            if info.name in self._born:
                self._last[info.name] = self.steps

    def held(self, stands_for: Mapping[str, str]) -> list[LiveTensor]:
        """What is held: each tensor, or the one that stands for it; "" where nothing is."""
        born: dict[str, int] = {}
        last: dict[str, int] = {}
        for name in self._born:
            held = stands_for.get(name, name)
            if held:
                born[held] = min(born.get(held, self.steps), self._born[name])
                last[held] = max(last.get(held, _INPUT), self._last[name])
        return [self._entry(name, born[name], last[name]) for name in born]

    def _entry(self, name: str, born: int, last: int) -> LiveTensor:
        tensor, maker = self._known.get(name), self._makers.get(name)
        dtype = None if tensor is None else tensor.dtype
        shape = None if tensor is None else tensor.typical_shape
        if name in self._more and (dtype is None or shape is None):
            dtype, shape = self._more[name]
        size = 0
        if dtype is None or shape is None:
            self.unknown[name] = None
        else:
            size = bytes_of(dtype, _elements(shape))
        node, op = ("", "") if maker is None else (maker.name, _op(maker))
        return LiveTensor(
            name, "" if dtype is None else str(dtype), shape_text(shape), size, node, op, born, last
        )

    def profile(self, held: Sequence[LiveTensor]) -> np.ndarray:
        """The bytes at each step, object integers [steps]."""
        change = [0] * (self.steps + 2)
        for entry in held:
            change[max(entry.born, 0)] += entry.bytes
            change[min(entry.last, self.steps - 1) + 1] -= entry.bytes
        return np.cumsum(np.array(change[: self.steps], np.int64))


def _stands_for(graph: onnx.GraphProto, fed: set[str]) -> dict[str, str]:
    """The codes that are held in place of a float tensor, "" where they are constant."""
    makers, readers = makers_in(graph), readers_in(graph)
    ends = fed | {info.name for info in graph.output}
    fixed = {info.name for info in graph.input if info.name not in fed}
    fixed |= {tensor.name for tensor in graph.initializer}
    fixed |= {tensor.values.name for tensor in graph.sparse_initializer}
    codes_of: dict[str, str] = {}
    for node in graph.node:
        if fixed.issuperset(name for name in reads(node) if name):
            fixed.update(node.output)  # constants that the file computes: an engine holds the result
            codes_of.update((name, "") for name in node.output if name and name not in ends)
            continue
        source = node.input[0] if node.input else ""
        passes = node.op_type == DEQUANTIZE or (node.op_type == "Cast" and source in codes_of)
        if passes and node.output[0] not in ends:
            codes_of[node.output[0]] = codes_of.get(source, source)
    for node in graph.node:
        if node.op_type != QUANTIZE or node.output[0] in fixed:
            continue
        codes, name = node.output[0], node.input[0]
        reader = node
        while name not in ends and name not in fixed and readers[name] == [reader] and name in makers:
            if name in codes_of:  # dequantized, and quantized once more: two scales, two tensors
                break
            codes_of[name] = codes
            reader = makers[name]
            if reader.op_type != "Cast":
                break
            name = reader.input[0]
    return codes_of


def _weights(model: Model) -> tuple[TypeBytes, ...]:
    totals: dict[str, list[int]] = {}
    constants = {
        t: None for node in every_node(model) for t in node.inputs if t is not None and t.is_constant
    }
    for tensor in constants:
        dtype, shape = tensor.dtype, tensor.shape
        entry = totals.setdefault("unknown" if dtype is None else str(dtype), [0, 0])
        entry[0] += 1
        if dtype is not None and shape is not None:
            entry[1] += bytes_of(dtype, _elements(shape))
    rows = (TypeBytes(name, count, size) for name, (count, size) in totals.items())
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.dtype)))


def _elements(shape: Shape) -> int:
    """How many elements: an open size is 1."""
    return math.prod(dim if isinstance(dim, int) else 1 for dim in shape)


def _op(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type
