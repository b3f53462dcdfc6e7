"""A batch that is written into a model, made dynamic.

Nodes are followed at two batches at a time: at the one that the model has, and at a much larger one. Of what
a node reads the dimension that grows is the batch. A node that does not run at the larger batch, or whose
output does not grow, is given the batch at run time. What cannot be is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from onnxq.base.reason import noted
from onnxq.graph import wiring
from onnxq.graph.infer import node_types
from onnxq.graph.model import Model
from onnxq.graph.types import Dim, Shape, bind, is_static
from onnxq.graph.view import Node

_TIMES = 101
"""How many times as large the larger batch is: no dimension is so by chance."""

_FEW = 1024
"""Elements of what is computed of sizes."""

RECURRENT = ("GRU", "LSTM", "RNN")
_LENGTHS, STATES = 4, slice(5, 7)  # inputs of these


class NotBatched(Exception):
    """A node that keeps a model at its batch.

    Attributes:
        node: that.
        why: how.
    """

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(f"{node.name!r} ({node.op}): {why}")
        self.node = node
        self.why = why


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where the samples of a batch are in a tensor.

    Attributes:
        axis: the axis that holds them.
        outer: how many times that axis holds the whole batch.
        inner: how many of its entries in a row are of one sample.
    """

    axis: int
    outer: int = 1
    inner: int = 1

    def of(self, array: np.ndarray, samples: slice) -> np.ndarray:
        """Those samples of an array, which is of this form."""
        before, behind = array.shape[: self.axis], array.shape[self.axis + 1 :]
        parts = array.reshape(*before, self.outer, -1, self.inner, *behind)
        return parts[(slice(None),) * (self.axis + 1) + (samples,)].reshape(*before, -1, *behind)

    def joined(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The samples of several arrays of this form in one."""
        parts = [
            one.reshape(*one.shape[: self.axis], self.outer, -1, *one.shape[self.axis + 1 :])
            for one in arrays
        ]
        whole = np.concatenate(parts, self.axis + 1)
        return whole.reshape(*whole.shape[: self.axis], -1, *whole.shape[self.axis + 2 :])


@dataclass(frozen=True, slots=True)
class _Seen:
    """A tensor at the two batches: its shapes, None where they are not known, and small values."""

    one: Shape | None
    many: Shape | None
    values: tuple[np.ndarray, np.ndarray] | None = None
    outer: int = 1

    @property
    def axis(self) -> int | None:
        """The one axis that is as many times as large; None where there is none."""
        if self.one is None or self.many is None or len(self.one) != len(self.many):
            return None
        grown = [axis for axis, (a, b) in enumerate(zip(self.one, self.many, strict=True)) if a != b]
        is_batch = len(grown) == 1 and self.many[grown[0]] == int(self.one[grown[0]] or 0) * _TIMES
        return grown[0] if is_batch else None

    @property
    def varies(self) -> bool:
        """Whether anything of it depends on the batch."""
        return self.one != self.many or (self.values is not None and not np.array_equal(*self.values))


class Batching:
    """Gives the nodes of a model's main graph the batch at run time."""

    def __init__(self, model: Model, axes: Mapping[str, int], shapes: Mapping[str, Shape]) -> None:
        """Takes a model, which `run` edits.

        Args:
            model: it; its `runtime` computes sizes.
            axes: of the inputs that have a batch the axis that it is.
            shapes: of all inputs, at the batch that is written in.
        """
        self._model, self._axes, self._shapes = model, axes, shapes
        name = next(iter(axes))
        self._first = next(t for t in model.graph.inputs if t.name == name)
        self._size = int(shapes[name][axes[name]] or 0)
        self._seen: dict[int, _Seen] = {}
        self._outer: dict[int, int] = {}  # of what Reshapes give
        self._new: list[Any] = []
        self._batches: dict[int, Any] = {}
        self.changed: list[str] = []

    def run(self, symbol: str) -> dict[str, BatchPlace]:
        """Edits the model.

        Args:
            symbol: what the batch is called.

        Returns:
            Of the inputs, outputs and tensors that hold a batch where it is, by name.

        Raises:
            NotBatched: a node keeps it at its batch.
        """
        model = self._model
        for tensor in model.graph.inputs:
            one = tuple(self._shapes[tensor.name])
            axis = self._axes.get(tensor.name)
            self._seen[id(tensor)] = _Seen(one, one if axis is None else _times(one, axis))
        for node in list(model.graph.nodes):
            self._follow(Node(model, node))
        model.add_nodes(self._new)
        model.sort()
        return self._named(symbol)

    def _named(self, symbol: str) -> dict[str, BatchPlace]:
        """Writes the shapes of what holds the batch."""
        rows = {}
        produced = (tensor for node in self._model.graph.nodes for tensor in node.outputs)
        for tensor in (*self._model.graph.inputs, *produced):
            seen = self._seen.get(id(tensor))
            axis = None if seen is None else seen.axis
            if seen is None or seen.one is None or axis is None:
                continue
            inner = int(seen.one[axis] or 0) // (self._size * seen.outer)
            rows[tensor.name] = BatchPlace(axis, seen.outer, inner)
            dims: list[Dim] = list(wiring.tensor_shape(tensor) or seen.one)
            dims[axis] = symbol if seen.outer == inner == 1 else None
            tensor.shape = tuple(dims)
        if self.changed:
            self._model.infer_shapes()
        return rows

    # -- following -----------------------------------------------------------------------------

    def _of(self, tensor: Any) -> _Seen:
        found = self._seen.get(id(tensor))
        if found is None:
            shape = wiring.tensor_shape(tensor)
            few = wiring.is_constant(tensor) and wiring.element_count(tensor) <= _FEW
            values = wiring.constant_of(tensor) if few else None
            found = _Seen(shape, shape, None if values is None else (values, values))
            self._seen[id(tensor)] = found
        return found

    def _follow(self, node: Node) -> None:
        read = [tensor for tensor in wiring.reads(node.node) if tensor.name]
        if not any(self._of(tensor).varies for tensor in read):
            for tensor, made in zip(node.node.outputs, self._at(node), strict=True):
                shape = made.one if is_static(made.one) else wiring.tensor_shape(tensor)
                self._seen[id(tensor)] = _Seen(shape, shape, made.values)
            return
        if node.has_body:
            raise NotBatched(node, noted("not-batched.body"))
        if any(axis in _along(node, len(seen.one or ())) for seen, axis in self._growing(node)[:1]):
            raise NotBatched(node, noted("not-batched.along"))
        first = _FIRST.get(node.op)
        if first is not None:
            first(self, node)
        if self._fits(node):
            return
        _REPAIRS.get(node.op, Batching._repeat_others)(self, node)
        if not self._fits(node):
            raise NotBatched(node, self._why(node))
        self.changed.append(node.name)

    def _growing(self, node: Node) -> list[tuple[_Seen, int]]:
        """What of the operands holds the batch, in their order, and the axis."""
        seen = [self._of(tensor) for tensor in node.node.inputs if tensor.name]
        return [(one, one.axis) for one in seen if one.axis is not None]

    def _at(self, node: Node) -> list[_Seen]:
        """What a node gives at the two batches."""
        one = self._given(node, 0)
        varies = any(self._of(tensor).varies for tensor in node.node.inputs if tensor.name)
        many = self._given(node, 1) if varies else one
        return [
            _Seen(a, b, (v, w) if v is not None and w is not None else None)
            for (a, v), (b, w) in zip(one, many, strict=True)
        ]

    def _given(self, node: Node, which: int) -> list[tuple[Shape | None, np.ndarray | None]]:
        """The shapes of what a node gives at one of the batches, and small values."""
        count, inputs = len(node.node.outputs), list(node.node.inputs)
        seen = [self._of(tensor) if tensor.name else None for tensor in inputs]
        shapes = [None if one is None else (one.one, one.many)[which] for one in seen]
        if node.op in ("Shape", "Size") and not node.domain and is_static(shapes[0]):
            dims = np.array(shapes[0], np.int64)[node.attr("start", 0) : node.attr("end")]
            value = dims if node.op == "Shape" else np.array(dims.prod())
            node.node.outputs[0].dtype = value.dtype
            return [(value.shape, value)]
        values = [None if one is None or one.values is None else one.values[which] for one in seen]
        if all(v is not None or one is None for v, one in zip(values, seen, strict=True)) and inputs:
            made = self._computed(node, values)
            if made is not None:
                for tensor, array in zip(node.node.outputs, made, strict=True):
                    tensor.dtype = tensor.dtype or array.dtype
                return [(array.shape, array if array.size <= _FEW else None) for array in made]
        types = node_types(
            node.node.proto,
            [
                None if one is None else (tensor.dtype, shape, value)
                for one, tensor, shape, value in zip(seen, inputs, shapes, values, strict=True)
            ],
            count,
            self._model.versions,
        )
        if types is None:
            return [(None, None)] * count
        for tensor, (dtype, _) in zip(node.node.outputs, types, strict=True):
            tensor.dtype = tensor.dtype or dtype
        return [(shape if is_static(shape) else None, None) for _, shape in types]

    def _computed(self, node: Node, values: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
        """What a node gives for values; None where nothing runs it."""
        if node.has_body or self._model.runtime is None:
            return None
        proto = onnx.NodeProto()
        proto.CopyFrom(node.node.proto)
        del proto.input[:], proto.output[:]
        weights = []
        for index, value in enumerate(values):
            proto.input.append("" if value is None else f"i{index}")
            if value is not None:
                weights.append(onnx.numpy_helper.from_array(value, f"i{index}"))
        proto.output.extend(f"o{index}" for index in range(len(node.node.outputs)))
        graph = onnx.GraphProto(name="sizes", node=[proto], initializer=weights)
        for name in proto.output:
            graph.output.add(name=name)
        imports = [onnx.helper.make_opsetid(*entry) for entry in self._model.versions.items()]
        model = onnx.ModelProto(ir_version=self._model.envelope.ir_version, graph=graph, opset_import=imports)
        made = self._model.runtime(model)
        return None if made is None or not all(isinstance(one, np.ndarray) for one in made) else made

    def _fits(self, node: Node) -> bool:
        """Whether a node runs at the larger batch, and gives as much more; notes what it gives."""
        growing, found = self._growing(node), self._at(node)
        for tensor, seen in zip(node.node.outputs, found, strict=True):
            is_same = seen.one == seen.many and (not growing or node.op in ("Shape", "Size"))
            if tensor.name and (seen.one is None or (seen.axis is None and not is_same)):
                return False
        for tensor, seen in zip(node.node.outputs, found, strict=True):
            size = None if seen.axis is None or seen.one is None else seen.one[seen.axis]
            outer = next((s.outer for s, axis in growing if s.one is not None and s.one[axis] == size), 1)
            self._seen[id(tensor)] = replace(seen, outer=self._outer.get(id(tensor), outer))
        return True

    def _why(self, node: Node) -> str:
        """Why a node keeps its batch."""
        found = self._at(node)
        if any(made.one is None for made in found):
            return noted("not-batched.unknown")
        if any(made.many is None for made in found):
            shapes = [list(self._of(tensor).one or ()) for tensor in node.node.inputs if tensor.name]
            return noted("not-batched.operands", shapes=" and ".join(map(str, shapes)))
        return noted("not-batched.lost", sizes=list(found[0].one or ()))

    # -- the batch at run time -----------------------------------------------------------------

    def _add(self, op: str, inputs: Sequence[Any], near: Node, **attrs: Any) -> Any:
        """A new node's output."""
        name = f"{near.name}_batch"
        out = wiring.new_tensor(self._model.unique(f"{near.outputs[0].name}_{op}"), None, None)
        made = self._model.new_node(op, inputs, [out], attrs, name=name)
        self._new.append(made)
        if not self._fits(Node(self._model, made)):
            raise NotBatched(near, self._why(near))
        one = self._seen[id(out)]
        out.shape = one.one if one.axis is None else None
        return out

    def _numbers(self, near: Node, numbers: Sequence[int]) -> Any:
        return self._model.new_constant(f"{near.name}_batch", np.array(numbers, np.int64))

    def _batch(self, near: Node, times: int = 1) -> Any:
        """So many times the batch, as a vector of one element."""
        if times not in self._batches:
            if times > 1:
                made = self._add("Mul", [self._batch(near), self._numbers(near, [times])], near)
            else:
                shape = self._add("Shape", [self._first], near)
                axis = self._axes[self._first.name]
                made = self._add("Gather", [shape, self._numbers(near, [axis])], near, axis=0)
            self._batches[times] = made
        return self._batches[times]

    def _with_size(self, near: Node, sizes: Any, place: int, size: Any) -> Any:
        """A vector of sizes with another one at a place: a number, or a vector of one element."""
        known, count = wiring.constant_of(sizes), int((self._of(sizes).one or (0,))[0] or 0)
        if known is not None and isinstance(size, int):
            return self._numbers(near, [*known[:place], size, *known[place + 1 :]])
        parts = []
        for places in (range(place), range(place + 1, count)):
            if known is not None:
                part = self._numbers(near, known[list(places)].tolist()) if places else None
            else:
                part = (
                    self._add("Gather", [sizes, self._numbers(near, places)], near, axis=0)
                    if places
                    else None
                )
            parts.append(part)
        middle = self._numbers(near, [size]) if isinstance(size, int) else size
        whole = [part for part in (parts[0], middle, parts[1]) if part is not None]
        return self._add("Concat", whole, near, axis=0)

    def _repeated(self, near: Node, tensor: Any, axis: int) -> Any | None:
        """A tensor that is the same for every sample, with the batch along an axis; None: it is not.

        Raises:
            NotBatched: it has other values for each sample.
        """
        seen = self._of(tensor)
        if seen.varies or seen.one is None or axis >= len(seen.one) or axis < 0:
            return None
        inner, rest = divmod(int(seen.one[axis] or 0), self._size)
        if rest or not inner:
            return None
        if self._size > 1:
            known = wiring.constant_of(tensor)
            if known is not None:
                parts = np.split(known, self._size, axis)
                if not all(np.array_equal(part, parts[0], equal_nan=True) for part in parts):
                    raise NotBatched(near, noted("not-batched.rows", tensor=tensor.name, size=self._size))
                tensor = self._model.new_constant(f"{tensor.name}_row", parts[0])
            else:
                tensor = self._add("Gather", [tensor, self._numbers(near, range(inner))], near, axis=axis)
        ones = self._numbers(near, [1] * len(seen.one))
        sizes = self._with_size(near, ones, axis, self._batch(near))
        return self._add("Expand" if inner == 1 else "Tile", [tensor, sizes], near)

    # -- repairs -------------------------------------------------------------------------------

    def _repeat_others(self, node: Node) -> None:
        """Gives operands that are the same for every sample a batch where those beside them have it."""
        for one, axis in self._growing(node)[:1]:
            shape = one.one or ()
            for index, tensor in enumerate(node.node.inputs):
                rank = len(self._of(tensor).one or ()) if tensor.name else 0
                place = rank - (len(shape) - axis)
                if one.outer > 1 or place < 0 or (self._of(tensor).one or ())[place] != shape[axis]:
                    continue
                made = self._repeated(node, tensor, place)
                if made is not None:
                    wiring.replace_input(node.node, index, made)

    def _recurrent(self, node: Node) -> None:
        """The first states, and the lengths."""
        data, axis = self._of(node.node.inputs[0]), 0 if node.attr("layout", 0) else 1
        if data.axis != axis:
            raise NotBatched(node, noted("not-batched.along"))
        for index, tensor in enumerate(node.node.inputs[_LENGTHS : STATES.stop], _LENGTHS):
            if tensor.name and not self._of(tensor).varies:
                made = self._repeated(node, tensor, 0 if index == _LENGTHS else axis)
                if made is not None:
                    wiring.replace_input(node.node, index, made)
                    self.changed.append(node.name)

    def _reshape(self, node: Node, out: Shape | None = None) -> None:
        """A Reshape, or what can be one: where the batch is in what it gives, and that it says so.

        `out`: what it gives, where that is no more what it reads.
        """
        growing = self._growing(node)
        made = self._at(node)[0] if out is None else _Seen(out, None)
        one = made.one
        if not growing or one is None:
            return
        data, axis = growing[0]
        assert data.one is not None
        places = self._places(data, axis, one)
        is_written = node.op != "Reshape" or not self._of(node.node.inputs[1]).varies
        rows = next((rows for rows in places if not is_written and rows.axis == made.axis), None)
        rows = rows or next(iter(places), None)
        if rows is None:
            raise NotBatched(node, noted("not-batched.reshape", sizes=list(one)))
        place, times = rows.axis, rows.outer * rows.inner
        if made.many != _times(one, place):
            self._give_shape(node, data.one, axis, one, place, times)
            self.changed.append(node.name)
        self._outer[id(node.node.outputs[0])] = rows.outer

    def _unsqueeze(self, node: Node) -> None:
        """An Unsqueeze of what has the batch joined with a neighbour."""
        for data, axis in self._growing(node)[:1]:
            if data.one is not None and data.one[axis] != self._size:
                self._reshape(node)

    def _places(self, data: _Seen, axis: int, out: Shape) -> list[BatchPlace]:
        """Where the batch may be in what a Reshape gives, the likeliest first."""
        assert data.one is not None
        before = math.prod(int(dim or 0) for dim in data.one[:axis]) * data.outer
        found = []
        for at, dim in enumerate(out):
            outer, rest = divmod(before, math.prod(int(one or 0) for one in out[:at]) or 1)
            inner, more = divmod(int(dim or 0), (outer or 1) * self._size)
            if outer and inner and not (rest or more):
                found.append(BatchPlace(at, outer, inner))

        def unlikely(place: BatchPlace) -> tuple[bool, bool]:
            is_last = place.axis == len(out) - 1 > 0  # which mostly holds features
            return is_last and place.outer * place.inner > 1, place.outer > 1

        return sorted(found, key=unlikely)

    def _give_shape(self, node: Node, data: Shape, axis: int, out: Shape, place: int, times: int) -> None:
        """Makes a node a Reshape that has the batch at a place of what it gives."""
        if node.op == "Reshape":
            sizes = node.node.inputs[1]
            keeps = axis == place and data[axis] == out[place] and not node.attr("allowzero", 0)
        else:
            declared = wiring.tensor_shape(node.node.outputs[0]) or ()
            if not is_static(declared[:place] + declared[place + 1 :]):
                raise NotBatched(node, noted("not-batched.reshape", sizes=list(out)))
            sizes, keeps = self._numbers(node, [int(dim or 0) for dim in out]), False
            node.node.op, node.node.proto = "Reshape", onnx.helper.make_node("Reshape", [], [])
            for index in range(len(node.node.inputs) - 1, 0, -1):
                wiring.replace_input(node.node, index, sizes)
            if len(node.node.inputs) < 2:
                node.node.inputs.append(sizes)
        known = wiring.constant_of(sizes)
        is_open = known is not None and -1 not in [*known[:place], *known[place + 1 :]]
        size = 0 if keeps else -1 if is_open else self._batch(node, times)
        wiring.replace_input(node.node, 1, self._with_size(node, sizes, place, size))

    def _expand(self, node: Node) -> None:
        """An Expand with a batch above 1 in its shape: 1 keeps what the data have."""
        for seen, axis in self._growing(node)[:1]:
            sizes = node.node.inputs[1]
            place = axis + int((self._of(sizes).one or (0,))[0] or 0) - len(seen.one or ())
            wiring.replace_input(node.node, 1, self._with_size(node, sizes, place, 1))

    def _resize(self, node: Node) -> None:
        """A Resize to sizes."""
        sizes = node.node.inputs[3] if len(node.node.inputs) > 3 else None
        for seen, axis in self._growing(node)[:1] if sizes is not None and sizes.name else ():
            times = int((seen.one or ())[axis] or 0) // self._size
            wiring.replace_input(node.node, 3, self._with_size(node, sizes, axis, self._batch(node, times)))

    def _slice(self, node: Node) -> None:
        """A Slice that takes the whole batch: to the end."""
        if len(node.node.inputs) < 3:
            return
        _, _, ends, axes, _ = node.operands(5)
        one = self._at(node)[0].one
        for seen, axis in self._growing(node)[:1]:
            rank = len(seen.one or ())
            known = None if ends is None else ends.constant
            along = np.arange(0 if known is None else len(known)) if axes is None else axes.constant
            if one is None or known is None or along is None or one[axis] != (seen.one or ())[axis]:
                return
            place = [int(a) % rank for a in along].index(axis)
            last = np.iinfo(known.dtype).max
            values = np.array([*known[:place], last, *known[place + 1 :]], known.dtype)
            wiring.replace_input(node.node, 2, self._model.new_constant(f"{node.name}_batch", values))

    def _gather(self, node: Node) -> None:
        """A Gather of what is of one sample: of each sample."""
        known = node.operands(2)[1]
        index = None if known is None else known.constant
        for data, axis in self._growing(node)[:1]:
            tensor = node.node.inputs[0]
            if axis != node.attr("axis", 0) % len(data.one or ()) or data is not self._of(tensor):
                return
            out = self._at(node)[0].one
            inner = int((data.one or ())[axis] or 0) // (self._size * data.outer)
            declared, one = wiring.tensor_shape(tensor) or (), [int(dim or 0) for dim in data.one or ()]
            if (
                index is None or out is None or data.outer > 1 or self._size > 1
                or index.min(initial=0) < -inner or index.max(initial=0) >= inner
                or not is_static(declared[:axis] + declared[axis + 1 :])
            ):  # fmt: skip
                raise NotBatched(node, noted("not-batched.along"))
            sizes = self._numbers(node, [*one[:axis], -1, inner, *one[axis + 1 :]])
            apart = self._add("Reshape", [tensor, sizes], node)
            taken = self._add("Gather", [apart, node.node.inputs[1]], node, axis=axis + 1)
            wiring.replace_input(node.node, 0, taken)
            self._reshape(node, out)


def can_be_dynamic(
    model: Model, symbol: str, size: int, runtime: Callable[[onnx.ModelProto], list[np.ndarray] | None]
) -> bool:
    """Whether a dimension that all inputs begin with, and that has one size baked in, can be made dynamic.

    Args:
        model: the model, whose inputs have no other dimension that is dynamic.
        symbol: what it is called.
        size: at which the model runs.
        runtime: what computes sizes.
    """
    shapes = {one.name: bind(one.shape, {symbol: size}) for one in model.inputs}
    axes = {one.name: 0 for one in model.inputs if one.shape and one.shape[0] == symbol}
    if not axes or not all(is_static(shape) for shape in shapes.values()):
        return False
    copy = Model(model.to_proto(), None, model.data_dir)
    copy.runtime = runtime
    try:
        Batching(copy, axes, {name: shape or () for name, shape in shapes.items()}).run(symbol)
    except NotBatched:
        return False
    return True


_FIRST: Mapping[str, Callable[[Batching, Node], None]] = {
    **dict.fromkeys(RECURRENT, Batching._recurrent),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze"), Batching._reshape),
    "Gather": Batching._gather,
    "Unsqueeze": Batching._unsqueeze,
}
_REPAIRS: Mapping[str, Callable[[Batching, Node], None]] = {
    "Expand": Batching._expand,
    "Resize": Batching._resize,
    "Slice": Batching._slice,
}


def _times(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], int(shape[axis] or 0) * _TIMES, *shape[axis + 1 :])


_AXIS = {
    "Softmax": -1, "LogSoftmax": -1, "Hardmax": -1, "ArgMax": 0, "ArgMin": 0, "TopK": -1, "Split": 0,
    "GatherElements": 0, "ScatterElements": 0, "Concat": 0, "LayerNormalization": -1,
}  # fmt: skip
"""Operators that work along an axis, and its default."""


def _along(node: Node, rank: int) -> Iterator[int]:
    """The axes along which a node works, of those that give as much as they read."""
    if node.op not in _AXIS or node.domain or not rank:
        return
    is_flat = node.op in ("Softmax", "LogSoftmax", "Hardmax") and node.opset < 13
    axis = node.attr("axis", 1 if is_flat else _AXIS[node.op]) % rank
    yield from range(axis, rank) if is_flat or node.op == "LayerNormalization" else (axis,)
