"""Probes: nodes that reduce tensors inside the graph, so that only statistics and some rows leave it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxq.graph.order import deepest_first

_SCALARS = ("low", "high", "sum", "squares", "size")
_OF_ENDS = ("low", "high", "size")
_SUMS = (("ReduceSum", "sum"), ("ReduceSumSquare", "squares"))
SLICE_OPSET = 10  # from which Slice takes where it starts as an input
_ZERO = np.float32(0)  # added to -0, it makes it 0: which of them is the least depends on the order
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the fractions of its multiples are spread evenly


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a tensor that are counted in a sample: every `step`-th one along `axis`.

    Where they begin differs from sample to sample, so that over many samples each row is counted
    equally often.

    Attributes:
        step: a power of two.
    """

    axis: int
    step: int

    @staticmethod
    def start(step: int, index: int) -> int:
        """The first row in the sample of this index: a low-discrepancy sequence over 0 .. step - 1."""
        return ((index * _GOLDEN) % (1 << 64)) * step >> 64


ALL_ROWS = Rows(0, 1)

SAMPLED = 4_000_000
"""Values of a tensor that are counted at least over all samples, unless it has fewer."""

_LEVELS = 40  # steps are powers of two up to this one
_LINES = 1 << 20  # values from which the last axis is summed first


def step_of(size: int, samples: int) -> int:
    """The step with which a tensor of so many values is counted in each of so many samples."""
    return 1 << max(0, min(_LEVELS, (size * samples // SAMPLED).bit_length() - 1))


def rows_of(shape: Sequence[int], samples: int) -> Rows:
    """Rows of which enough values are counted over all samples; whole lines of the last axis if possible."""
    step = step_of(math.prod(shape), samples)
    if step == 1 or not shape:
        return ALL_ROWS
    axis = max(0, len(shape) - 2)
    if shape[axis] < step:
        axis = int(np.argmax(shape))
    return Rows(axis, step)


def has_many(shape: Sequence[int | str | None]) -> bool:
    """Whether a tensor of at least two axes is known to have more values than are summed in one go."""
    return len(shape) > 1 and math.prod(dim for dim in shape if isinstance(dim, int)) > _LINES


@dataclass(frozen=True, slots=True)
class OwnRows:
    """The rows of a tensor whose size varies: in each sample those that `rows_of` gives for its shape there.

    Attributes:
        rank: of the tensor, at least 1.
        samples: how many samples there are.
    """

    rank: int
    samples: int


@dataclass(frozen=True, slots=True)
class Channels:
    """The channel axis of a tensor, and its rank."""

    axis: int
    rank: int


@dataclass(frozen=True, slots=True)
class Probe:
    """What is taken of a tensor.

    Attributes:
        tensor: its name.
        rows: the rows that leave the graph to be counted; None: none.
        channels: how channels are told apart; None: they are not.
        by_lines: whether its last axis is summed first: onnxruntime's sum of many millions of float32
            drifts by percents; None: where its shape in a sample `has_many` values.
        overflows: whether its values are finite although their sum may not be, so that they are
            looked at one by one.
        ends: whether its least and its greatest value are all that is taken, of any values; no sums.
    """

    tensor: str
    rows: Rows | OwnRows | None = None
    channels: Channels | None = None
    by_lines: bool | None = False
    overflows: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What the probes found in one sample, in their order.

    Attributes:
        low: the least value of each tensor, float32 [probes]; +inf where it has none.
        high: the greatest value, likewise; -inf where it has none.
        sums: the sum of the values and that of their squares, rounded to float32, [probes, 2]; NaN where they
            are not taken.
        size: how many values there are, int64 [probes].
        finite: 1 where all are finite, 0 where not, -1 where only `Probe.overflows` could tell.
        rows: the rows to count, float32, or None.
        steps: every so many-th row is counted.
        channels: least value, greatest value and sum of each channel, float32 [3, channels], or None.
    """

    low: np.ndarray
    high: np.ndarray
    sums: np.ndarray
    size: np.ndarray
    finite: np.ndarray
    rows: list[np.ndarray | None]
    steps: list[int]
    channels: list[np.ndarray | None]


class AddedNodes:
    """Nodes to be put behind the tensors of a model, whose names begin with a prefix.

    Attributes:
        graph: the nodes.
    """

    def __init__(self, prefix: str, opset: int) -> None:
        self.graph = onnx.GraphProto()
        self._prefix, self._opset = prefix, opset

    def _node(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        name = f"{self._prefix}{output}"
        self.graph.node.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def _constant(self, name: str, values: Sequence[int] | int) -> str:
        full = f"{self._prefix}{name}"
        self.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), full))
        return full

    def _input(self, name: str, count: int) -> None:
        self.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, [count]))

    def _output(self, name: str, kind: int, shape: Sequence[int] | None = None) -> str:
        full = f"{self._prefix}{name}"
        self.graph.output.append(helper.make_tensor_value_info(full, kind, shape))
        return full

    def _reduce(self, op: str, x: str, output: str, axes: Sequence[int] = (), keepdims: int = 0) -> str:
        """A reduction along axes, of all values without any."""
        if not axes:
            return self._node(op, [x], output, keepdims=0)
        if self._opset < (13 if op == "ReduceSum" else 18):  # from which axes are an input
            return self._node(op, [x], output, keepdims=keepdims, axes=list(axes))
        return self._node(op, [x, self._constant(f"{output}_axes", axes)], output, keepdims=keepdims)

    def _reduce_to_channels(self, op: str, x: str, output: str, axes: Sequence[int]) -> None:
        if axes:
            self._reduce(op, x, output, axes)
        else:  # to a reduction, no axes are all
            self._node("Identity", [x], output)


class ProbeGraph(AddedNodes):
    """Nodes and outputs to add to a model's graph.

    Every tensor that is not known to be float32 is cast to it; onnxruntime's optimizers, where they see the
    probes, remove the casts that change nothing.

    The probes follow the last node, those of the last tensor of `deepest_first` first. onnxruntime orders
    nodes depth-first from its leaves, beginning with the last, so that a tensor is reduced as soon as it is
    there and its memory is free for reuse; in the natural order, onnxruntime runs all probes at the end,
    with every tensor kept until then.

    Attributes:
        graph: the nodes, inputs and outputs.
        outputs: names of the outputs, in the order of `read`.
    """

    def __init__(
        self, model: onnx.ModelProto, probes: Sequence[Probe], opset: int, floats: Collection[str] = ()
    ) -> None:
        """Probes for tensors of the main graph of a model, which is not modified.

        Args:
            model: the model.
            probes: what is taken.
            opset: of the model.
            floats: tensors that are known to be float32.
        """
        super().__init__(unused_prefix(model.graph, "onnxq_probe_"), opset)
        self._probes = tuple(probes)
        self._floats = frozenset(floats)
        self._places: list[int] = []  # of what is taken in the table of all probes' scalars
        self.outputs: list[str] = []
        order = run_order(model.graph)
        numbers = range(len(self._probes))
        for i in sorted(numbers, key=lambda i: order.get(self._probes[i].tensor, -1), reverse=True):
            self._add_nodes(i, self._probes[i])
        for i in numbers:
            self._add_scalar_outputs(i)
        for i in numbers:
            self._add_outputs(i, self._probes[i])
        rows = [probe.rows for probe in self._probes]
        self._steps = sorted({one.step for one in rows if isinstance(one, Rows) and one.step > 1})
        self._own = any(isinstance(one, OwnRows) for one in rows)
        for step in self._steps:
            self._input(self._start_name(step), 1)
        if self._own:
            self._input(self._starts, _LEVELS + 1)
            self._constant("powers", [1 << level for level in range(_LEVELS + 1)])

    def feeds(self, index: int) -> dict[str, np.ndarray]:
        """What the probes read for the sample of this index."""
        feeds = {name: np.array([Rows.start(step, index)], np.int64) for name, step in self._fixed_starts()}
        if self._own:
            every = [Rows.start(1 << level, index) for level in range(_LEVELS + 1)]
            feeds[self._starts] = np.array(every, np.int64)
        return feeds

    def read(self, values: Sequence[Any]) -> Reading:
        """What the probes found, from the values of the outputs."""
        table = np.full((len(self._probes), len(_SCALARS)), np.nan)
        table.ravel()[self._places] = values[: len(self._places)]
        rest = iter(values[len(self._places) :])
        finite = np.where(np.isfinite(table[:, 2]), 1, -1)
        rows: list[np.ndarray | None] = []
        channels: list[np.ndarray | None] = []
        for i, probe in enumerate(self._probes):
            if probe.overflows:
                finite[i] = next(rest) == 0
            rows.append(next(rest) if probe.rows is not None else None)
            by_channel = [np.ravel(next(rest)) for _ in range(3)] if probe.channels is not None else None
            channels.append(np.stack(by_channel) + _ZERO if by_channel is not None else None)
        ends, sums = table[:, :2].astype(np.float32) + _ZERO, table[:, 2:4].astype(np.float32)
        size = table[:, 4].astype(np.int64)
        steps = [self._step(probe, int(count)) for probe, count in zip(self._probes, size, strict=True)]
        return Reading(ends[:, 0], ends[:, 1], sums, size, finite, rows, steps, channels)

    @staticmethod
    def _step(probe: Probe, size: int) -> int:
        if isinstance(probe.rows, OwnRows):
            return step_of(size, probe.rows.samples)
        return probe.rows.step if probe.rows is not None else 1

    def _fixed_starts(self) -> Iterator[tuple[str, int]]:
        return ((self._start_name(step), step) for step in self._steps)

    @property
    def _starts(self) -> str:
        return f"{self._prefix}starts"

    def _start_name(self, step: int) -> str:
        return f"{self._prefix}start{step}"

    def _add_nodes(self, i: int, probe: Probe) -> None:
        x = probe.tensor
        if x not in self._floats:
            x = self._node("Cast", [x], f"x{i}", to=TensorProto.FLOAT)
        self._reduce("ReduceMin", x, f"low{i}")
        self._reduce("ReduceMax", x, f"high{i}")
        self._node("Size", [x], f"size{i}")
        if probe.ends:
            return
        if probe.by_lines is None:
            self._sum_by_own_lines(i, x)
        for op, what in _SUMS if probe.by_lines is not None else ():
            if probe.by_lines:
                self._reduce("ReduceSum", self._reduce(op, x, f"line_{what}{i}", [-1]), f"{what}{i}")
            else:
                self._reduce(op, x, f"{what}{i}")
        if probe.overflows:  # 0 where all is finite, else NaN; ReduceMax skips a NaN that is not first
            difference = self._node("Sub", [x, x], f"d{i}")
            self._reduce("ReduceSum", difference, f"finite{i}")
        if probe.rows is not None:
            self._add_rows(i, x, probe.rows)
        if probe.channels is not None:
            self._add_channels(i, x, probe.channels)

    def _sum_by_own_lines(self, i: int, x: str) -> None:
        """The sums, by lines where the tensor is large: only the branch that is taken is computed."""
        branches = {}
        main = self.graph
        for name, by_lines in (("then_branch", True), ("else_branch", False)):
            self.graph = onnx.GraphProto(name=f"{self._prefix}{name}{i}")
            for op, what in _SUMS:
                way = f"{what}_{name}{i}"
                if by_lines:
                    self._reduce("ReduceSum", self._reduce(op, x, f"line_{way}", [-1]), way)
                else:
                    self._reduce(op, x, way)
                self._output(way, TensorProto.FLOAT, [])
            branches[name] = self.graph
        self.graph = main
        lines = self._constant(f"lines{i}", _LINES)
        large = self._node("Less", [lines, f"{self._prefix}size{i}"], f"large{i}")
        outputs = [f"{self._prefix}{what}{i}" for _, what in _SUMS]
        self.graph.node.append(helper.make_node("If", [large], outputs, **branches))

    def _add_own_rows(self, i: int, x: str, rows: OwnRows) -> None:
        """As `rows_of` says, inside of the graph."""
        bounds = [-(-(SAMPLED << level) // rows.samples) - 1 for level in range(1, _LEVELS + 1)]
        below = self._constant(f"bounds{i}", bounds)
        reached = self._node("Less", [below, f"{self._prefix}size{i}"], f"beyond{i}")
        counted = self._node("Cast", [reached], f"reached{i}", to=TensorProto.INT64)
        level = self._reduce("ReduceSum", counted, f"level{i}", [0], keepdims=1)
        step = self._node("Gather", [f"{self._prefix}powers", level], f"step{i}")
        start = self._node("Gather", [self._starts, level], f"start_of{i}")
        shape = self._node("Shape", [x], f"shape{i}")
        usual = self._constant(f"usual{i}", [max(0, rows.rank - 2)])
        short = self._node("Less", [self._node("Gather", [shape, usual], f"extent{i}"), step], f"short{i}")
        sizes = self._node("Cast", [shape], f"sizes{i}", to=TensorProto.INT32)
        longest = self._node("ArgMax", [sizes], f"longest{i}", axis=0, keepdims=1)
        axis = self._node("Where", [short, longest, usual], f"axis{i}")
        ends = self._constant(f"ends{i}", [np.iinfo(np.int64).max])
        self._node("Slice", [x, start, ends, axis, step], f"rows{i}")

    def _add_rows(self, i: int, x: str, rows: Rows | OwnRows) -> None:
        if isinstance(rows, OwnRows):
            self._add_own_rows(i, x, rows)
            return
        if rows.step == 1:
            self._node("Identity", [x], f"rows{i}")
            return
        ends, axes, steps = (
            self._constant(f"{what}{i}", [value])
            for what, value in (("ends", np.iinfo(np.int64).max), ("axes", rows.axis), ("steps", rows.step))
        )
        self._node("Slice", [x, self._start_name(rows.step), ends, axes, steps], f"rows{i}")

    def _add_channels(self, i: int, x: str, channels: Channels) -> None:
        axes = [axis for axis in range(channels.rank) if axis != channels.axis]
        for op, what in (("ReduceMin", "low"), ("ReduceMax", "high"), ("ReduceSum", "sum")):
            self._reduce_to_channels(op, x, f"channel_{what}{i}", axes)

    def _add_scalar_outputs(self, i: int) -> None:
        for what in _OF_ENDS if self._probes[i].ends else _SCALARS:
            self._places.append(i * len(_SCALARS) + _SCALARS.index(what))
            self.outputs.append(
                self._output(f"{what}{i}", TensorProto.INT64 if what == "size" else TensorProto.FLOAT, [])
            )

    def _add_outputs(self, i: int, probe: Probe) -> None:
        if probe.overflows:
            self.outputs.append(self._output(f"finite{i}", TensorProto.FLOAT, []))
        if probe.rows is not None:
            self.outputs.append(self._output(f"rows{i}", TensorProto.FLOAT, None))
        if probe.channels is not None:
            for what in ("channel_low", "channel_high", "channel_sum"):
                self.outputs.append(self._output(f"{what}{i}", TensorProto.FLOAT, None))


def run_order(graph: onnx.GraphProto) -> dict[str, int]:
    """The place of each tensor that a node makes, in an order in which few of them are in memory."""
    return {name: place for place, node in enumerate(deepest_first(graph)) for name in node.output}


def makers(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto | None]:
    """Every tensor of the main graph, in order, with the node that computes it."""
    nodes: dict[str, onnx.NodeProto | None] = {value.name: None for value in graph.input}
    nodes.update((tensor.name, None) for tensor in graph.initializer)
    nodes.update((tensor.values.name, None) for tensor in graph.sparse_initializer)
    nodes.update((name, node) for node in graph.node for name in node.output if name)
    return nodes


def unused_prefix(graph: onnx.GraphProto, prefix: str) -> str:
    """A beginning that no tensor of a graph or of a body in it has."""
    names = list(_names(graph))
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of every tensor that a graph or a body in it defines."""
    yield from makers(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _names(attribute.g)
            for body in attribute.graphs:
                yield from _names(body)
