"""Random models: what exporters write, in combinations that nobody would write by hand.

A dimension is known by its sizes under each of a few choices of the symbols (`SYMBOLS`), so that a model
is valid for all of them, and shapes are followed with the arithmetic of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

Sizes = tuple[int, ...]
"""A dimension: its size under each choice of the symbols."""
Shape = tuple[Sizes, ...]

SYMBOLS: dict[str, Sizes] = {"N": (2, 1, 3), "H": (4, 2, 7), "W": (6, 3, 4), "T": (5, 1, 2)}
CHOICES = len(SYMBOLS["N"])
OPSETS = range(9, 22)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -2.5, 3e38, 1e-40, 0.5, 7, -1], np.float32)

_MAX_ELEMENTS = 2048
_MAX_RANK = 5
_MAX_DEPTH = 2
_FLOAT, _INT64, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-30)
_END = 2**63 - 1
_LOCAL = "random.local"


def fixed(size: int) -> Sizes:
    return (size,) * CHOICES


def is_fixed(sizes: Sizes) -> bool:
    return len(set(sizes)) == 1


def broadcast(one: Shape, other: Shape) -> Shape | None:
    """The shape that two shapes broadcast to; None where they do not under every choice."""
    rank = max(len(one), len(other))
    a, b = ((fixed(1),) * (rank - len(s)) + s for s in (one, other))
    pairs = [list(zip(d, e, strict=True)) for d, e in zip(a, b, strict=True)]
    if any(d != e and 1 not in (d, e) for pair in pairs for d, e in pair):
        return None
    return tuple(tuple(max(pair) for pair in dim) for dim in pairs)


@dataclass(frozen=True, slots=True)
class Val:
    """A float tensor."""

    name: str
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    def fixed_axes(self) -> list[int]:
        return [axis for axis, sizes in enumerate(self.shape) if is_fixed(sizes)]

    def size(self, axis: int) -> int:
        """The size of a dimension, which is the same under every choice."""
        assert is_fixed(self.shape[axis])
        return self.shape[axis][0]


Step = Callable[["Build", Val], Val | list[Val] | None]
"""Adds a node or a few; what they compute, None where the step does not apply."""

STEPS: dict[str, Step] = {}
_SINCE: dict[str, int] = {}


def step(*, since: int = 1, ranks: Container[int] = range(99)) -> Callable[[Step], Step]:
    """Registers a step under its name, for models from opset `since` on and tensors of these ranks."""

    def register(function: Step) -> Step:
        def guarded(g: Build, x: Val) -> Val | list[Val] | None:
            return function(g, x) if x.rank in ranks else None

        STEPS[function.__name__] = guarded
        _SINCE[function.__name__] = since
        return function

    return register


@dataclass(slots=True)
class Build:
    """A graph that grows; subgraph bodies have their own, and see what is known around them.

    Attributes:
        steps: the names of the steps to draw from.
        names: how nodes are named: "unique", "empty" or "by operator", so that many have the same.
        bare: whether all initializers are the main graph's, as IR version 3 has it.
        outer: the graph around a subgraph body.
        known: the tensors that a step may read.
        shared: the main graph's constants, by content.
        count: how many names are given.
    """

    draw: st.DrawFn
    opset: int
    steps: Sequence[str]
    names: str = "unique"
    bare: bool = False
    outer: Build | None = None
    known: list[Val] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    shared: dict[Any, str] = field(default_factory=dict)
    count: int = 0

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else self.outer.depth + 1

    @property
    def root(self) -> Build:
        return self if self.outer is None else self.outer.root

    # -- drawing -------------------------------------------------------------------------------

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def yes(self) -> bool:
        return self.draw(st.booleans())

    def values(self, *shape: int) -> np.ndarray:
        """Weights: multiples of 1/8 of about 1, of few different kinds, so that some are shared."""
        rng = np.random.default_rng(self.draw(st.integers(0, 2)))
        return np.round(rng.standard_normal(shape) * 8).astype(np.float32) / 8

    def some(self, x: Val) -> Val:
        """A tensor that broadcasts with `x`: one that is known, or a constant."""
        fitting = [v for v in self.known if broadcast(x.shape, v.shape) is not None]
        if fitting and self.yes():
            return self.pick(*fitting)
        keep = self.draw(st.integers(0, x.rank))
        shape = [s[0] if is_fixed(s) and self.yes() else 1 for s in x.shape[x.rank - keep :]]
        array = self.values(*shape) if self.yes() else np.full(shape, self.pick(*_NUMBERS))
        return self.weight(array)

    # -- adding --------------------------------------------------------------------------------

    def name(self) -> str:
        """A new name; bodies that do not see each other use the same ones."""
        self.count += 1
        return f"{'t' * (self.depth + 1)}{self.count}"

    def const(self, values: Any, dtype: Any = np.float32) -> str:
        """A constant: an initializer here or of the main graph, perhaps one that is there, or a node."""
        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        place = self.pick("shared", "main", "here", "node")
        if place == "shared" and key in self.root.shared:
            return self.root.shared[key]
        graph = self if place == "node" or (place == "here" and not self.bare) else self.root
        name = graph.name()
        tensor = numpy_helper.from_array(array, name)
        if place == "node":
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            graph.initializers.append(tensor)
        if graph is self.root and place != "node":
            self.root.shared[key] = name
        return name

    def weight(self, array: np.ndarray) -> Val:
        return Val(self.const(array), tuple(map(fixed, array.shape)))

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def add(self, op: str, *inputs: str | Val, outputs: int = 1, **attrs: Any) -> str:
        """A node; the name of its first output (the others are in the node)."""
        outs = [self.name() for _ in range(outputs)]
        name = {"unique": f"node_{self.depth}_{outs[0]}", "empty": "", "by operator": op}[self.names]
        read = [i.name if isinstance(i, Val) else i for i in inputs]
        self.nodes.append(helper.make_node(op, read, outs, name=name, **attrs))
        return outs[0]

    def axes(self, op: str, x: str | Val, axes: Sequence[int], since: int, **attrs: Any) -> str:
        """A node whose axes are an attribute before opset `since`, and an input from then on."""
        if self.opset < since:
            return self.add(op, x, axes=list(axes), **attrs)
        return self.add(op, x, self.ints(*axes), **attrs)

    def scalar(self, x: str | Val) -> Val:
        """The largest element."""
        return Val(self.add("ReduceMax", x, keepdims=0), ())

    def shape_of(self, x: Val, sizes: Sequence[int | tuple[int, ...]]) -> str:
        """A shape computed from that of `x`: numbers as they are, and products of its dimensions."""
        parts = []
        for entry in sizes:
            if isinstance(entry, int):
                parts.append(self.ints(entry))
                continue
            product = ""
            for axis in entry:
                size = self.add("Gather", self.add("Shape", x), self.ints(axis))
                product = self.add("Mul", product, size) if product else size
            parts.append(self.detour(product))
        return self.add("Concat", *parts, axis=0) if len(parts) > 1 or self.yes() else parts[0]

    def detour(self, size: str) -> str:
        """The same size, as exporters compute it."""
        way = self.pick("", "int", "float", "cast")
        if way == "int":
            return self.add("Div", self.add("Mul", size, self.ints(2)), self.ints(2))
        if way == "float":
            real = self.add("Cast", size, to=_FLOAT)
            half = self.add("Floor", self.add("Mul", real, self.const([1.0])))
            return self.add("Cast", half, to=_INT64)
        return self.add("Cast", size, to=_INT64) if way == "cast" else size

    # -- steps ---------------------------------------------------------------------------------

    def grow(self, most: int) -> None:
        """Up to so many steps; some leave nodes that nobody reads."""
        for _ in range(self.draw(st.integers(1, most))):
            self.advance()

    def advance(self) -> None:
        """A step at a tensor, mostly a late one; another where it does not apply."""
        usable = [s for s in self.steps if _SINCE[s] <= self.opset]
        usable = [s for s in usable if self.depth < _MAX_DEPTH or s not in BODIES]
        for _ in range(3):
            x = self.pick(*self.known[-3:]) if self.yes() else self.pick(*self.known)
            made = STEPS[self.pick(*usable)](self, x)
            values = made if isinstance(made, list) else [made] if made is not None else []
            self.known += [value for value in values if _is_handy(value)]
            if made is not None:
                return

    def body(self, extra: Sequence[Val] = ()) -> Build:
        """A subgraph body that sees all of this graph, and its own inputs."""
        inner = Build(self.draw, self.opset, self.steps, self.names, self.bare, self)
        inner.known = [*self.known, *extra]
        return inner

    def result_like(self, x: Val) -> str:
        """Something of the shape of `x`, computed in this body."""
        last = self.known[-1]
        if last.shape == x.shape:
            return self.add("Identity", last)
        return self.add("Add", x, self.scalar(last))

    def graph(
        self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, f"body{self.depth}", inputs, outputs, self.initializers)


def _is_handy(value: Val) -> bool:
    counts = np.prod(np.array(value.shape, np.int64).reshape(value.rank, CHOICES), axis=0)
    return bool(counts.min() > 0 and counts.max() <= _MAX_ELEMENTS and value.rank <= _MAX_RANK)


# -- elementwise -----------------------------------------------------------------------------------

_UNARY = ("Abs", "Neg", "Relu", "Identity", "Floor", "Ceil", "Sign", "Tanh", "Sigmoid", "LeakyRelu", "Exp",
          "Sqrt", "Erf", "HardSigmoid", "Softplus", "Reciprocal", "Elu")  # fmt: skip
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")


@step()
def unary(g: Build, x: Val) -> Val:
    return Val(g.add(g.pick(*_UNARY), x), x.shape)


@step()
def binary(g: Build, x: Val) -> Val:
    return _binary(g, x, g.pick(*_BINARY))


def _binary(g: Build, x: Val, op: str) -> Val:
    other = g.some(x)
    shape = broadcast(x.shape, other.shape)
    assert shape is not None
    one, two = (x, other) if g.yes() else (other, x)
    return Val(g.add(op, one, two), shape)


@step()
def affine(g: Build, x: Val) -> Val:
    return _binary(g, x, g.pick("Add", "Sub", "Mul"))


@step()
def relu(g: Build, x: Val) -> Val:
    return Val(g.add("Relu", x), x.shape)


@step()
def variadic(g: Build, x: Val) -> Val:
    others = [v for v in g.known if v.shape == x.shape]
    operands = [x, *(g.pick(*others) for _ in range(g.pick(0, 1, 2)))]
    return Val(g.add(g.pick("Sum", "Mean", "Max", "Min"), *operands), x.shape)


@step()
def identity(g: Build, x: Val) -> Val:
    return Val(g.add("Identity", x), x.shape)


@step()
def dropout(g: Build, x: Val) -> Val:
    if g.opset < 12:
        return Val(g.add("Dropout", x, ratio=0.3, outputs=g.pick(1, 2)), x.shape)
    more = [g.const(0.3), *([g.const(False, np.bool_)] if g.yes() else [])]
    return Val(g.add("Dropout", x, *more, outputs=g.pick(1, 2)), x.shape)


@step()
def cast(g: Build, x: Val) -> Val:
    there = g.add("Cast", x, to=g.pick(_FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16))
    return Val(g.add("Cast", there, to=_FLOAT), x.shape)


@step()
def clip(g: Build, x: Val) -> Val:
    low, high = g.pick((-0.5, 0.5), (0.0, 6.0), (None, 1.0), (0.0, None), (None, None))
    if g.opset < 11:
        given = {name: v for name, v in (("min", low), ("max", high)) if v is not None}
        return Val(g.add("Clip", x, **given), x.shape)
    return Val(g.add("Clip", x, *("" if v is None else g.const(v) for v in (low, high))), x.shape)


@step()
def compare(g: Build, x: Val) -> Val:
    other = g.some(x)
    shape = broadcast(x.shape, other.shape)
    assert shape is not None
    test = g.add(g.pick("Less", "Greater", *(["Equal"] if g.opset >= 11 else [])), x, other)
    if g.yes():
        test = g.add("Not", test)
    if g.yes():
        test = g.add(g.pick("And", "Or", "Xor"), test, test if g.yes() else g.const(g.yes(), np.bool_))
    if g.yes():
        return Val(g.add("Cast", test, to=_FLOAT), shape)
    return Val(g.add("Where", test, *((x, other) if g.yes() else (other, x))), shape)


@step()
def activation(g: Build, x: Val) -> Val | None:
    """SiLU, or a PRelu with a slope for each last index."""
    if g.yes():
        return Val(g.add("Mul", x, g.add("Sigmoid", x)), x.shape)
    if not x.rank or not is_fixed(x.shape[-1]):
        return None
    return Val(g.add("PRelu", x, g.const(g.values(x.size(-1)))), x.shape)


# -- movement --------------------------------------------------------------------------------------


def _axis(g: Build, x: Val, axis: int) -> int:
    """The axis, perhaps counted from the end, which all operators allow since opset 13."""
    return axis - x.rank if g.opset >= 13 and g.yes() else axis


@step()
def reshape(g: Build, x: Val) -> Val | None:
    """Two dimensions become one, one becomes two, or all stay; by numbers or by Shape arithmetic."""
    if not x.rank:
        return Val(g.add("Reshape", x, g.ints(1)), (fixed(1),))
    axis = g.draw(st.integers(0, x.rank - 1))
    sources: list[Any] = [(i,) for i in range(x.rank)]
    shape = list(x.shape)
    how = g.pick("merge", "split", "same")
    if how == "merge" and axis + 1 < x.rank:
        sources[axis : axis + 2] = [(axis, axis + 1)]
        shape[axis : axis + 2] = [tuple(a * b for a, b in zip(*shape[axis : axis + 2], strict=True))]
    elif how == "split" and is_fixed(shape[axis]):
        part = 2 if x.size(axis) % 2 == 0 else 1
        sources[axis : axis + 1] = [part, x.size(axis) // part]
        shape[axis : axis + 1] = [fixed(part), fixed(x.size(axis) // part)]
    if g.yes():
        return Val(g.add("Reshape", x, g.shape_of(x, sources)), tuple(shape))
    numbers, rest = [], True
    for index, (source, sizes) in enumerate(zip(sources, shape, strict=True)):
        if source == (index,) and (not is_fixed(sizes) or g.yes()):
            numbers.append(0)
        elif rest and (not is_fixed(sizes) or g.yes()):
            numbers.append(-1)
            rest = False
        elif is_fixed(sizes):
            numbers.append(sizes[0])
        else:
            return None
    return Val(g.add("Reshape", x, g.ints(*numbers)), tuple(shape))


@step()
def flatten(g: Build, x: Val) -> Val:
    axis = g.draw(st.integers(0, x.rank))
    halves = (x.shape[:axis], x.shape[axis:])
    shape = tuple(tuple(int(np.prod([s[i] for s in half])) for i in range(CHOICES)) for half in halves)
    return Val(g.add("Flatten", x, axis=axis), shape)


@step()
def unsqueeze(g: Build, x: Val) -> Val:
    axis = g.draw(st.integers(0, x.rank))
    wide = Val(g.axes("Unsqueeze", x, [axis], 13), (*x.shape[:axis], fixed(1), *x.shape[axis:]))
    return wide if g.yes() else Val(g.axes("Squeeze", wide, [axis], 13), x.shape)


@step()
def squeeze(g: Build, x: Val) -> Val | None:
    ones = [axis for axis in x.fixed_axes() if x.size(axis) == 1]
    if not ones:
        return None
    axis = g.pick(*ones)
    return Val(g.axes("Squeeze", x, [axis], 13), (*x.shape[:axis], *x.shape[axis + 1 :]))


@step(ranks=range(1, 9))
def transpose(g: Build, x: Val) -> Val:
    perm = list(g.draw(st.permutations(range(x.rank))))
    moved = Val(g.add("Transpose", x, perm=perm), tuple(x.shape[i] for i in perm))
    return moved if g.yes() else Val(g.add("Transpose", moved, perm=list(np.argsort(perm))), x.shape)


@step(ranks=range(1, 9))
def cut(g: Build, x: Val) -> Val | None:
    """A Slice: of everything, from an end, with steps, or as far as another computed size."""
    axis = g.draw(st.integers(0, x.rank - 1))
    backwards = [(-1, -_END, -1), (_END, -_END, -2)] if g.opset >= 10 else []
    forwards = [(0, _END, 1), (0, 99, 1), (0, 2, 1), (1, _END, 1), (-2, _END, 1), (0, -1, 1)]
    start, end, by = g.pick(*forwards, *backwards)
    shape = list(x.shape)
    shape[axis] = tuple(len(range(s)[_python_slice(start, end, by, s)]) for s in x.shape[axis])
    if g.opset < 10:
        return Val(g.add("Slice", x, starts=[start], ends=[end], axes=[axis]), tuple(shape))
    if (start, end) == (0, _END) and g.yes():
        stop = g.add("Gather", g.add("Shape", x), g.ints(axis))
        return Val(g.add("Slice", x, g.ints(0), stop, g.ints(axis)), x.shape)
    more = [g.ints(by)] if by != 1 or g.yes() else []
    name = g.add("Slice", x, g.ints(start), g.ints(end), g.ints(_axis(g, x, axis)), *more)
    return Val(name, tuple(shape))


def _python_slice(start: int, end: int, by: int, size: int) -> slice:
    if by > 0:
        return slice(start, end, by)
    return slice(min(start, size - 1), None if end < -size else end, by)


@step(ranks=range(1, 9))
def concat(g: Build, x: Val) -> Val | None:
    axis = g.draw(st.integers(0, x.rank - 1))

    def rest(shape: Shape) -> tuple[Shape, Shape]:
        return shape[:axis], shape[axis + 1 :]

    fitting = [v for v in g.known if v.rank == x.rank and rest(v.shape) == rest(x.shape)]
    parts = [x, *(g.pick(x, *fitting) for _ in range(g.pick(0, 1, 2)))]
    if len(x.fixed_axes()) == x.rank and g.yes():
        parts.append(g.weight(g.values(*(sizes[0] for sizes in x.shape))))
    total = tuple(sum(part.shape[axis][i] for part in parts) for i in range(CHOICES))
    shape = (*x.shape[:axis], total, *x.shape[axis + 1 :])
    return Val(g.add("Concat", *parts, axis=_axis(g, x, axis)), shape)


@step()
def split(g: Build, x: Val) -> list[Val] | None:
    axes = [axis for axis in x.fixed_axes() if x.size(axis) > 1]
    if not axes:
        return None
    axis = g.pick(*axes)
    first = x.size(axis) // 2
    sizes = [first, x.size(axis) - first]
    if sizes[0] == sizes[1] and g.yes():
        more = {"num_outputs": 2} if g.opset >= 18 else {}
        g.add("Split", x, axis=axis, outputs=2, **more)
    elif g.opset < 13:
        g.add("Split", x, axis=axis, split=sizes, outputs=2)
    else:
        g.add("Split", x, g.ints(*sizes), axis=axis, outputs=2)
    return [
        Val(name, (*x.shape[:axis], fixed(size), *x.shape[axis + 1 :]))
        for name, size in zip(g.nodes[-1].output, sizes, strict=True)
    ]


@step(ranks=range(1, 9))
def pad(g: Build, x: Val) -> Val:
    begin, end = ([g.pick(0, 0, 1) for _ in x.shape] for _ in range(2))
    shape = tuple(tuple(s + b + e for s in sizes) for sizes, b, e in zip(x.shape, begin, end, strict=True))
    mode, value = g.pick(("constant", 0.0), ("constant", 1.5), ("edge", 0.0))
    if g.opset < 11:
        return Val(g.add("Pad", x, pads=[*begin, *end], mode=mode, value=value), shape)
    more = [g.const(value)] if value or g.yes() else []
    return Val(g.add("Pad", x, g.ints(*begin, *end), *more, mode=mode), shape)


@step(ranks=range(1, 9))
def tile(g: Build, x: Val) -> Val:
    times = [g.pick(1, 1, 2) for _ in x.shape]
    shape = tuple(tuple(s * t for s in sizes) for sizes, t in zip(x.shape, times, strict=True))
    return Val(g.add("Tile", x, g.ints(*times)), shape)


@step()
def expand(g: Build, x: Val) -> Val | None:
    wider = [v for v in g.known if v.rank and broadcast(x.shape, v.shape) is not None]
    if not wider or g.yes():
        ones = g.ints(*[1] * g.pick(1, max(1, x.rank)))
        return Val(g.add("Expand", x, ones), x.shape or (fixed(1),))
    other = g.pick(*wider)
    shape = broadcast(x.shape, other.shape)
    assert shape is not None
    return Val(g.add("Expand", x, g.add("Shape", other)), shape)


@step()
def gather(g: Build, x: Val) -> Val | None:
    axes = x.fixed_axes()
    if not axes:
        return None
    axis = g.pick(*axes)
    size, least = x.size(axis), -1 if g.opset >= 11 else 0
    if g.yes():
        index = g.const(g.pick(0, least), np.int64)
        return Val(g.add("Gather", x, index, axis=axis), (*x.shape[:axis], *x.shape[axis + 1 :]))
    indices = g.draw(st.lists(st.integers(least, size - 1), min_size=1, max_size=4))
    shape = (*x.shape[:axis], fixed(len(indices)), *x.shape[axis + 1 :])
    return Val(g.add("Gather", x, g.ints(*indices), axis=axis), shape)


@step(since=11)
def gather_elements(g: Build, x: Val) -> Val | None:
    axes = x.fixed_axes()
    if not axes:
        return None
    axis = g.pick(*axes)
    shape = [min(sizes) if i == axis or g.yes() else 1 for i, sizes in enumerate(x.shape)]
    indices = np.arange(int(np.prod(shape))).reshape(shape)[::-1] % x.size(axis)
    name = g.add("GatherElements", x, g.const(indices, np.int64), axis=axis)
    return Val(name, tuple(map(fixed, shape)))


@step()
def depth_to_space(g: Build, x: Val) -> Val | None:
    if x.rank != 4 or not is_fixed(x.shape[1]) or x.size(1) % 4:
        return None
    n, _, h, w = x.shape
    shape = (n, fixed(x.size(1) // 4), *(tuple(2 * s for s in sizes) for sizes in (h, w)))
    wide = Val(g.add("DepthToSpace", x, blocksize=2), shape)
    return wide if g.yes() else Val(g.add("SpaceToDepth", wide, blocksize=2), x.shape)


@step()
def resize(g: Build, x: Val) -> Val | None:
    """Upsampling by two, by scales or by sizes computed from the shape."""
    if x.rank != 4:
        return None
    shape = (*x.shape[:2], *(tuple(2 * s for s in sizes) for sizes in x.shape[2:]))
    scales = [1.0, 1.0, 2.0, 2.0]
    if g.opset < 11:
        op = "Upsample" if g.opset < 10 else "Resize"
        return Val(g.add(op, x, g.const(scales), mode="nearest"), shape)
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    roi = g.const(np.zeros(0)) if g.opset < 13 else ""
    if g.yes():
        return Val(g.add("Resize", x, roi, g.const(scales), **mode), shape)
    sizes = g.add("Mul", g.add("Shape", x), g.ints(1, 1, 2, 2))
    empty = g.const(np.zeros(0)) if g.opset < 13 else ""
    return Val(g.add("Resize", x, roi, empty, g.detour(sizes), **mode), shape)


# -- reductions and norms --------------------------------------------------------------------------

_REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd", "ReduceSumSquare")


@step(ranks=range(1, 9))
def reduce(g: Build, x: Val) -> Val | None:
    axes = sorted(g.draw(st.sets(st.integers(0, x.rank - 1), min_size=1)))
    op, keep = g.pick(*_REDUCE), g.yes()
    shape = tuple(fixed(1) if i in axes else s for i, s in enumerate(x.shape) if keep or i not in axes)
    axes = [_axis(g, x, axis) for axis in axes]
    return Val(g.axes(op, x, axes, 13 if op == "ReduceSum" else 18, keepdims=int(keep)), shape)


@step(ranks=range(1, 9))
def arg_max(g: Build, x: Val) -> Val | None:
    axis = g.draw(st.integers(0, x.rank - 1))
    found = g.add(g.pick("ArgMax", "ArgMin"), x, axis=axis, keepdims=1)
    return Val(g.add("Cast", found, to=_FLOAT), (*x.shape[:axis], fixed(1), *x.shape[axis + 1 :]))


@step(ranks=range(1, 9))
def top_k(g: Build, x: Val) -> list[Val] | None:
    axis = g.draw(st.integers(0, x.rank - 1))
    count = g.pick(1, min(x.shape[axis]))
    if g.opset < 10:
        g.add("TopK", x, k=count, axis=axis, outputs=2)
    else:
        g.add("TopK", x, g.ints(count), axis=axis, outputs=2)
    values, indices = g.nodes[-1].output
    shape = (*x.shape[:axis], fixed(count), *x.shape[axis + 1 :])
    return [Val(values, shape), *([Val(g.add("Cast", indices, to=_FLOAT), shape)] if g.yes() else [])]


@step(since=11, ranks=range(1, 9))
def cum_sum(g: Build, x: Val) -> Val | None:
    return Val(g.add("CumSum", x, g.const(g.draw(st.integers(0, x.rank - 1)), np.int64)), x.shape)


@step(ranks=range(1, 9))
def softmax(g: Build, x: Val) -> Val | None:
    axis = g.draw(st.integers(0, x.rank - 1))
    return Val(g.add(g.pick("Softmax", "LogSoftmax"), x, axis=_axis(g, x, axis)), x.shape)


@step()
def batch_norm(g: Build, x: Val) -> Val | None:
    if x.rank < 2 or not is_fixed(x.shape[1]):
        return None
    channels = x.size(1)
    scale, bias, mean = (g.const(g.values(channels)) for _ in range(3))
    variance = g.const(np.abs(g.values(channels)) + 0.5)
    return Val(g.add("BatchNormalization", x, scale, bias, mean, variance), x.shape)


@step()
def instance_norm(g: Build, x: Val) -> Val | None:
    if x.rank < 3 or not is_fixed(x.shape[1]):
        return None
    return Val(g.add("InstanceNormalization", x, *(g.const(g.values(x.size(1))) for _ in range(2))), x.shape)


@step(since=17)
def layer_norm(g: Build, x: Val) -> Val | None:
    if not x.rank or not is_fixed(x.shape[-1]):
        return None
    return Val(g.add("LayerNormalization", x, g.const(g.values(x.size(-1))), axis=-1), x.shape)


# -- layers ----------------------------------------------------------------------------------------


@step()
def conv(g: Build, x: Val) -> Val | None:
    if x.rank not in (3, 4) or not is_fixed(x.shape[1]):
        return None
    channels, spatial = x.size(1), x.rank - 2
    out, group = g.pick((3, 1), (16, 1), (channels, channels))
    kernel, by = g.pick((1, 1), (3, 1), (3, 2))
    weight = g.values(out, channels // group, *[kernel] * spatial)
    shape = (x.shape[0], fixed(out), *(tuple((s - 1) // by + 1 for s in sizes) for sizes in x.shape[2:]))
    bias = [g.const(g.values(out))] if g.yes() else []
    name = g.add("Conv", x, _weights(g, weight), *bias, group=group, strides=[by] * spatial,
                 pads=[kernel // 2] * 2 * spatial)  # fmt: skip
    return _after_layer(g, Val(name, shape), 1)


def _weights(g: Build, array: np.ndarray) -> str:
    """Constant weights: as they are, computed from other constants, or int8 with their scale."""
    form = g.pick("plain", "plain", "computed", "int8")
    if form == "computed":
        perm = list(range(array.ndim))[::-1]
        turned = g.const(np.ascontiguousarray(np.transpose(array, perm)))
        return g.add("Mul", g.add("Transpose", turned, perm=perm), g.const(2.0))
    if form == "int8" and g.opset >= 10:
        codes = g.const(np.clip(array * 8, -127, 127), np.int8)
        return g.add("DequantizeLinear", codes, g.const(0.125), g.const(0, np.int8))
    return g.const(array)


def _after_layer(g: Build, y: Val, axis: int) -> Val:
    """What folds into a layer: a constant a channel, or a BatchNormalization."""
    follow = g.pick("", "", "norm", "Mul", "Add", "Sub", "Div")
    if follow == "norm":
        return batch_norm(g, y) or y if axis == 1 else y
    if not follow:
        return y
    shape = [y.size(axis) if i == axis % y.rank else 1 for i in range(y.rank)]
    number = g.const(np.abs(g.values(*shape)) + 0.25) if g.yes() else g.const(g.pick(2.0, 0.5, 3.0))
    swapped = follow != "Div" and g.yes()
    return Val(g.add(follow, *((number, y) if swapped else (y, number))), y.shape)


@step(since=11)
def conv_transpose(g: Build, x: Val) -> Val | None:
    if x.rank != 4 or not is_fixed(x.shape[1]):
        return None
    out, extra = g.pick(2, 16), g.pick(0, 1)
    weight = g.const(g.values(x.size(1), out, 3, 3))
    sizes = [tuple(2 * (s - 1) + 1 + extra for s in dim) for dim in x.shape[2:]]
    more = {"output_padding": [extra, extra]} if extra else {}
    name = g.add("ConvTranspose", x, weight, strides=[2, 2], pads=[1, 1, 1, 1], **more)
    return _after_layer(g, Val(name, (x.shape[0], fixed(out), *sizes)), 1)


@step()
def gemm(g: Build, x: Val) -> Val | None:
    if x.rank != 2 or not is_fixed(x.shape[1]):
        return None
    out, turned = g.pick(3, 16), g.pick(0, 1)
    weight = _weights(g, g.values(*((out, x.size(1)) if turned else (x.size(1), out))))
    bias = [g.const(g.values(*g.pick((out,), (1, out), (1,), ())))] if g.opset < 11 or g.yes() else []
    more = g.pick({}, {"alpha": 0.5}, {"beta": 2.0})
    name = g.add("Gemm", x, weight, *bias, transB=turned, **more)
    return _after_layer(g, Val(name, (x.shape[0], fixed(out))), -1)


@step()
def matmul(g: Build, x: Val) -> Val | None:
    """A product with weights, from the right or from the left."""
    out, left = g.pick(3, 16), g.yes()
    axis = -2 if left else -1
    if x.rank < 2 or not is_fixed(x.shape[axis]):
        return None
    if left:
        weight = _weights(g, g.values(out, x.size(axis)))
        return Val(g.add("MatMul", weight, x), (*x.shape[:-2], fixed(out), x.shape[-1]))
    batch = g.pick((), (1,))
    weight = _weights(g, g.values(*batch, x.size(axis), out))
    more = (fixed(1),) * (len(batch) + 2 - x.rank)
    return _after_layer(g, Val(g.add("MatMul", x, weight), (*more, *x.shape[:-1], fixed(out))), -1)


@step()
def attention(g: Build, x: Val) -> Val | None:
    """A product of activations."""
    if x.rank < 2:
        return None
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    scores = g.add("MatMul", x, g.add("Transpose", x, perm=perm))
    return Val(g.add("MatMul", g.add("Softmax", scores, axis=x.rank - 1), x), x.shape)


@step()
def pool(g: Build, x: Val) -> Val | None:
    if x.rank not in (3, 4):
        return None
    spatial = x.rank - 2
    if g.yes():
        op = g.pick("GlobalAveragePool", "GlobalMaxPool")
        return Val(g.add(op, x), (*x.shape[:2], *[fixed(1)] * spatial))
    kernel, by, padding = g.pick((2, 2, 0), (3, 1, 1), (3, 2, 1), (1, 1, 0))
    sizes = [tuple((s + 2 * padding - kernel) // by + 1 for s in dim) for dim in x.shape[2:]]
    name = g.add(g.pick("MaxPool", "AveragePool"), x, kernel_shape=[kernel] * spatial,
                 strides=[by] * spatial, pads=[padding] * 2 * spatial)  # fmt: skip
    return Val(name, (*x.shape[:2], *sizes))


@step(since=10)
def qdq(g: Build, x: Val) -> Val:
    """A Q/DQ pair that is there already."""
    dtype, zero = g.pick((np.int8, 0), (np.uint8, 128), (np.int8, 3))
    scale, zero_point = g.const(g.pick(0.125, 0.05)), g.const(zero, dtype)
    codes = g.add("QuantizeLinear", x, scale, zero_point)
    return Val(g.add("DequantizeLinear", codes, scale, zero_point), x.shape)


# -- constants, shapes, what nobody reads ----------------------------------------------------------


@step()
def constants(g: Build, x: Val) -> Val:
    """A subtree without inputs."""
    one, other = g.const(g.values(3, 1)), g.const(g.values(1, 2))
    total = g.add("ReduceMax", g.add("Add", one, other), keepdims=0)
    return Val(g.add("Mul", x, total), x.shape)


@step()
def shape_values(g: Build, x: Val) -> Val:
    """A float that depends on the sizes."""
    count = g.add("Cast", g.add("Size", x), to=_FLOAT)
    return Val(g.add("Div", x, count), x.shape)


@step(ranks=range(1, 9))
def filled(g: Build, x: Val) -> Val:
    """A constant of the shape of `x`, or of that shape backwards."""
    value = numpy_helper.from_array(np.array([g.pick(0.0, 1.0, -2.0)], np.float32))
    size, shape = g.add("Shape", x), x.shape
    if g.opset >= 10 and g.yes():
        backwards = (g.ints(-1), g.ints(-_END), g.ints(0), g.ints(-1))
        size, shape = g.add("Slice", size, *backwards), shape[::-1]
    return Val(g.add("ConstantOfShape", size, value=value), shape)


@step()
def dead(g: Build, x: Val) -> None:
    g.add("Exp", g.add("Abs", x))


@step(since=12)
def local_function(g: Build, x: Val) -> Val:
    """A call of one of the model's own functions; IR version 3 has none."""
    return Val(g.add("Shrunk", x, domain=_LOCAL, by=g.pick(0.5, 2.0)), x.shape)


def _function(opset: int) -> onnx.FunctionProto:
    """Shrunk(x) = by * Tanh(x) + Identity(x)."""
    by = helper.make_node("Constant", [], ["b"])
    by.attribute.add(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    nodes = [
        by,
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Mul", ["b", "t"], ["m"]),
        helper.make_node("Identity", ["x"], ["i"]),
        helper.make_node("Add", ["m", "i"], ["y"]),
    ]
    imports = [helper.make_opsetid("", opset)]
    return helper.make_function(_LOCAL, "Shrunk", ["x"], ["y"], nodes, imports, ["by"])


# -- subgraph bodies -------------------------------------------------------------------------------


def _info(name: str, kind: int = _FLOAT, rank: int | None = 0) -> onnx.ValueInfoProto:
    """The type of an input or output; of its shape the rank, or nothing."""
    return helper.make_tensor_value_info(name, kind, None if rank is None else [None] * rank)


def _condition(g: Build, x: Val) -> str:
    how = g.pick("input", "constant", "constant", "data", "size")
    if how == "input":
        return "c" if g.yes() else g.add("Not", "c")
    if how == "constant":
        return g.const(g.yes(), np.bool_)
    if how == "data" or not x.rank:
        return g.add("Greater", g.scalar(x), g.const(0.0))
    size = g.add("Gather", g.add("Shape", x), g.const(g.draw(st.integers(0, x.rank - 1)), np.int64))
    return g.add("Equal", size, g.const(g.pick(1, 3), np.int64))


@step()
def if_(g: Build, x: Val) -> list[Val]:
    condition = _condition(g, x)
    likes = [x, *([g.pick(*g.known)] if g.yes() else [])]
    branches = {}
    for branch in ("then_branch", "else_branch"):
        inner = g.body()
        results = []
        for like in likes:
            if g.yes():
                inner.grow(3)
            results.append(_info(inner.result_like(like), rank=like.rank if g.yes() else None))
        branches[branch] = inner.graph([], results)
    g.add("If", condition, outputs=len(likes), **branches)
    return [Val(name, like.shape) for name, like in zip(g.nodes[-1].output, likes, strict=True)]


@step(since=11)
def loop(g: Build, x: Val) -> list[Val]:
    """A Loop that carries `x`: a number of times, as often as the input says, or while a condition holds."""
    how = g.pick("number", "input", "while")
    times = g.pick(1, 2, 3)
    count = "k" if how == "input" else g.const(times, np.int64)
    going = g.const(True, np.bool_) if how == "while" or g.yes() else ""
    inner = g.body()
    turn, goes, carried = inner.name(), inner.name(), Val(inner.name(), x.shape)
    inner.known += [Val(inner.add("Cast", turn, to=_FLOAT), ()), carried]
    inner.grow(3)
    stacked = inner.known[-1]
    result = inner.result_like(carried)
    if how == "while":
        on = inner.add("Less", inner.scalar(result), inner.const(2.0))
    else:
        on = inner.add("Identity", goes) if inner.yes() else inner.const(True, np.bool_)
        on = on if any(on in (*n.output,) for n in inner.nodes) else inner.add("Identity", on)
    outputs = [_info(on, _BOOL), _info(result, rank=x.rank)]
    stacks = how == "number" and g.yes()
    if stacks:
        outputs.append(_info(inner.add("Identity", stacked), rank=stacked.rank))
    inputs = [_info(turn, _INT64), _info(goes, _BOOL), _info(carried.name, rank=None)]
    g.add("Loop", count, going, x, body=inner.graph(inputs, outputs), outputs=len(outputs) - 1)
    made = [Val(g.nodes[-1].output[0], x.shape)]
    if stacks:
        made.append(Val(g.nodes[-1].output[1], (fixed(times), *stacked.shape)))
    return made


@step(ranks=range(1, 9))
def scan(g: Build, x: Val) -> list[Val] | None:
    """A Scan over the first dimension, with a running state."""
    state = g.scalar(x)
    inner = g.body()
    carried, row = Val(inner.name(), ()), Val(inner.name(), x.shape[1:])
    inner.known += [carried, row]
    inner.grow(2)
    outputs = [_info(inner.result_like(carried)), _info(inner.result_like(row), rank=row.rank)]
    body = inner.graph([_info(carried.name, rank=None), _info(row.name, rank=None)], outputs)
    g.add("Scan", state, x, body=body, num_scan_inputs=1, outputs=2)
    last, rows = g.nodes[-1].output
    return [Val(last, ()), Val(rows, x.shape)]


BODIES = ("if_", "loop", "scan")
LAYERS = ("conv", "conv_transpose", "gemm", "matmul")
ALL = (*STEPS, *LAYERS, *LAYERS, *BODIES, "if_", "reshape", "cut", "unsqueeze", "identity", "cast", "tile")
"""All steps, the more interesting ones more often."""
CHANGED = (*BODIES, "unsqueeze", "squeeze", "reduce", "split", "softmax", "dropout", "clip", "pad", "resize",
           "cut", "top_k", "batch_norm", "unary")  # fmt: skip
"""Steps whose operators changed between opsets."""
SMOOTH = (*LAYERS, *LAYERS, "relu", "affine", "pool", "batch_norm", "reshape", "transpose", "concat",
          "split", "identity", "dropout", "unsqueeze", "resize", "if_")  # fmt: skip
"""Steps that do not amplify rounding: for bounds on results that are not bit-equal."""
LAYERED = (*SMOOTH, *LAYERS, *BODIES, "qdq", "attention", "clip", "gather", "pad", "local_function")
"""Steps of models to quantize."""


# -- models ----------------------------------------------------------------------------------------


@st.composite
def models(
    draw: st.DrawFn, steps: Sequence[str] = ALL, opsets: Sequence[int] = OPSETS, most: int = 18
) -> onnx.ModelProto:
    """A model with inputs x [N, C, H, W], z [N, K], s [N, T, 4], all float, c (bool) and k (int64)."""
    opset = draw(st.sampled_from(opsets))
    listed = draw(st.sampled_from((False, False, False, True)))
    build = Build(draw, opset, steps, draw(st.sampled_from(("unique", "empty", "by operator"))), listed)
    dims: dict[str, list[int | str]] = {
        "x": [build.pick("N", 2), build.pick(2, 4, 16), build.pick("H", 4), build.pick("W", 4)],
        "z": [build.pick("N", 1), build.pick(4, 16)],
        "s": ["N", build.pick("T", 5), 4],
    }
    build.known = [
        Val(name, tuple(SYMBOLS[d] if isinstance(d, str) else fixed(d) for d in shape))
        for name, shape in dims.items()
    ]
    build.grow(most)
    inputs = [helper.make_tensor_value_info(name, _FLOAT, shape) for name, shape in dims.items()]
    inputs += [_info("c", _BOOL), _info("k", _INT64)]
    if listed:  # as IR version 3 has it; later ones allow it
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in build.initializers]
    ends = dict.fromkeys([build.known[-1], *_more_ends(build)])
    outputs = [helper.make_tensor_value_info(end.name, _FLOAT, _declared(build, end)) for end in ends]
    graph = helper.make_graph(build.nodes, "random", inputs, outputs, build.initializers)
    ir_version = 10 if opset >= 19 else 3 if listed and opset == 9 else 8
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    if opset >= _SINCE["local_function"]:
        model.functions.append(_function(opset))
        model.opset_import.add(domain=_LOCAL, version=1)
    return onnx.shape_inference.infer_shapes(model) if draw(st.booleans()) else model


def _more_ends(build: Build) -> list[Val]:
    """All that nothing reads, so that nothing is dead; or any few tensors, an input perhaps."""
    if build.yes():
        read = {name for node in build.nodes for name in node.input}
        return [value for value in build.known if value.name not in read]
    return build.draw(st.lists(st.sampled_from(build.known[::-1]), max_size=3, unique=True))


def _declared(build: Build, value: Val) -> list[int | str] | None:
    """What the file says of an output's shape."""
    if build.yes():
        return None
    return [s[0] if is_fixed(s) else f"{value.name}_{axis}" for axis, s in enumerate(value.shape)]


def feeds_of(model: onnx.ModelProto, choice: int, *, special: bool, c: bool, k: int) -> dict[str, np.ndarray]:
    """Inputs for one choice of the symbols: normal deviates, or NaN, infinities and their kin."""
    rng = np.random.default_rng(choice)
    feeds: dict[str, np.ndarray] = {"c": np.array(c), "k": np.array(k, np.int64)}
    weights = {tensor.name for tensor in model.graph.initializer}
    for index, info in enumerate(model.graph.input):
        if info.name in feeds or info.name in weights:
            continue
        dims = info.type.tensor_type.shape.dim
        shape = [SYMBOLS[d.dim_param][choice] if d.dim_param else d.dim_value for d in dims]
        values = np.resize(np.roll(SPECIAL, index), shape) if special else rng.standard_normal(shape)
        with np.errstate(over="ignore"):
            feeds[info.name] = values.astype(np.float32).astype(
                helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            )
    return feeds
