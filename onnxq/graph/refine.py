"""Shapes that ONNX's inference leaves open, from what is known of shape arithmetic.

Inference follows `Shape -> Slice -> Concat` only from opset 13 on, and gives a shape that is known in
part (`[N, 32, 24, 48]` with a dynamic N) up as a whole.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.base.grouped import grouped
from onnxq.graph.elements import cut_slice, known_elements
from onnxq.graph.topology import Topology
from onnxq.graph.types import Dim, Shape
from onnxq.graph.view import Node, Tensor

_BEYOND = 1 << 63  # a size is a number of 64 bits


def refine_shapes(model: Topology) -> bool:
    """Fills in dimensions that inference left open; returns whether there were any.

    What is found is noted in `model.refined`, so that the next inference starts from it.
    """
    refined = False
    for graph in model.graphs():
        for raw in graph.nodes:
            rule = _RULES.get(raw.op)
            if rule is None or raw.domain or not _is_open(raw.outputs[0].shape, model.symbols):
                continue
            node = Node(model, raw)
            try:
                shape = rule(node)
            except (IndexError, OverflowError, TypeError, ValueError):  # an axis that is not there, say
                continue
            merged = _merge(node.outputs[0].shape, shape, model.symbols)
            if merged is not None and merged != node.outputs[0].shape:
                raw.outputs[0].shape = merged
                model.refined.add(id(raw.outputs[0]))
                refined = True
    return refined


def _is_open(shape: Shape | None, symbols: set[str]) -> bool:
    """Whether a shape has dimensions of which the model's own sizes and symbols say nothing."""
    return shape is None or any(not isinstance(dim, int) and (not dim or dim in symbols) for dim in shape)


def _merge(old: Shape | None, new: Shape | None, symbols: set[str]) -> Shape | None:
    if new is None or (old is not None and len(old) != len(new)):
        return old
    new = tuple(None if isinstance(dim, int) and not 0 <= dim < _BEYOND else dim for dim in new)
    if old is None:
        return new
    return tuple(
        b if b is not None and b != a and (not a or a in symbols) and _is_better(a, b, symbols) else a
        for a, b in zip(old, new, strict=True)
    )


def _is_better(old: Dim, new: Dim, symbols: set[str]) -> bool:
    return isinstance(new, int) or not old or new not in symbols


def _elements(tensor: Tensor | None) -> list[Any] | None:
    """What is known of the elements of a vector: sizes, symbols, None; None where nothing is."""
    elements = known_elements(tensor) if tensor is not None else None
    return None if elements is None else list(elements.reshape(-1))


def _sizes(elements: Sequence[Any]) -> Shape:
    """Elements as dimensions."""
    return tuple(
        int(e) if isinstance(e, int | float) and e >= 0 else e if isinstance(e, str) else None
        for e in elements
    )


def _reshape(node: Node) -> Shape | None:
    source, sizes = node.operands(2)
    elements = _elements(sizes)
    if source is None or elements is None:
        return None
    keeps = not node.attr("allowzero", 0)
    dims: list[Dim] = []
    for axis, element in enumerate(elements):
        if element == 0 and keeps:
            dims.append(source.shape[axis] if source.shape and axis < len(source.shape) else None)
        else:
            dims.append(_sizes([element])[0])
    rest = [axis for axis, element in enumerate(elements) if element == -1]
    if len(rest) == 1 and source.shape is not None:
        dims[rest[0]] = _quotient(source.shape, [dim for axis, dim in enumerate(dims) if axis != rest[0]])
    return tuple(dims)


def _quotient(whole: Sequence[Dim], parts: Sequence[Dim]) -> Dim:
    """The dimension that, with the others, makes up as many elements."""
    if None in whole or None in parts:
        return None
    above, below = (Counter(dim for dim in dims if isinstance(dim, str)) for dims in (whole, parts))
    left = list((above - below).elements())
    if below - above or len(left) > 1:
        return None
    one, other = (math.prod(dim for dim in dims if isinstance(dim, int)) for dims in (whole, parts))
    if not left:
        return one // other if other and one % other == 0 else None
    return left[0] if one == other else None


def _resize(node: Node) -> Shape | None:
    if node.op == "Upsample" or node.opset < 11:
        return _scaled(node.inputs[0], _elements(node.operands(2)[1]))
    source, _, scales, sizes = node.operands(4)
    if node.attr("axes") or node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    elements = _elements(sizes)
    return _sizes(elements) if elements else _scaled(source, _elements(scales))


def _scaled(source: Tensor | None, scales: Sequence[Any] | None) -> Shape | None:
    if source is None or source.shape is None or not scales or len(scales) != len(source.shape):
        return None
    dims: list[Dim] = []
    for dim, scale in zip(source.shape, scales, strict=True):
        is_number = isinstance(scale, int | float)
        if is_number and scale == 1:
            dims.append(dim)
        else:
            dims.append(_times(dim, scale) if is_number and isinstance(dim, int) else None)
    return tuple(dims)


def _times(dim: int, scale: float) -> Dim:
    """A size times a scale, rounded down; None where that depends on the precision of the product."""
    exact = math.floor(dim * scale)
    return exact if exact == int(np.float32(dim) * np.float32(scale)) else None


def _expand(node: Node) -> Shape | None:
    source, sizes = node.operands(2)
    elements = _elements(sizes)
    if source is None or source.shape is None or elements is None:
        return None
    rank = max(len(elements), len(source.shape))
    padded = [(1,) * (rank - len(dims)) + dims for dims in (source.shape, _sizes(elements))]
    return tuple(_broadcast(one, other) for one, other in zip(*padded, strict=True))


def _broadcast(one: Dim, other: Dim) -> Dim:
    if one == 1 or one == other:
        return other
    if other == 1:
        return one
    return one if isinstance(one, int) else other if isinstance(other, int) else None


def _constant_of_shape(node: Node) -> Shape | None:
    elements = _elements(node.inputs[0])
    return None if elements is None else _sizes(elements)


def _tile(node: Node) -> Shape | None:
    source, repeats = node.operands(2)
    counts = _elements(repeats)
    if source is None or source.shape is None or counts is None or len(counts) != len(source.shape):
        return None
    return tuple(
        dim if count == 1 else dim * count if isinstance(dim, int) and isinstance(count, int) else None
        for dim, count in zip(source.shape, counts, strict=True)
    )


def _slice(node: Node) -> Shape | None:
    """The sizes of a slice whose bounds are known, or that keeps a dimension whole."""
    source, starts, ends, axes, steps = node.operands(5)
    if source is None or source.shape is None or node.opset < 10:
        return None
    begin, end, by = _elements(starts), _elements(ends), _elements(steps)
    along = _elements(axes) if axes is not None else list(range(len(begin or ())))
    if begin is None or end is None or along is None or any(not isinstance(a, int) for a in along):
        return None
    dims = list(source.shape)
    for index, axis in enumerate(along):
        step = by[index] if by is not None else 1 if steps is None else None
        dims[axis] = _cut(dims[axis], begin[index], end[index], step)
    return tuple(dims)


def _cut(dim: Dim, start: Any, end: Any, step: Any) -> Dim:
    if start == 0 and step == 1 and dim is not None and end == dim:
        return dim
    if not all(isinstance(value, int) for value in (dim, start, end, step)) or step == 0:
        return None
    size = int(dim or 0)
    return len(range(size)[cut_slice(size, start, end, step)])


_RULES: dict[str, Callable[[Node], Shape | None]] = {
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Tile": _tile,
    "Upsample": _resize,
}


# Element types that follow from a node's other operands: what shares a type variable has one type.
#
# ONNX's inference knows nothing of what an operator of another domain gives (com.microsoft's attention, say),
# nor of what is computed from that. Its own operators tell: what is multiplied by float16 weights is float16.


def spread_types(model: Topology) -> None:
    """Gives tensors of unknown type that of the operands that they share a type variable with."""
    todo = [bound for graph in model.graphs() for node in graph.nodes for bound in _open(node, model.opset)]
    while todo:
        left = [bound for bound in todo if not _bind(bound)]
        if len(left) == len(todo):
            return
        todo = left


def _open(node: Any, opset: int) -> list[list[Any]]:
    """The tensors of each type variable of a node, where some are of known type and some are not."""
    if (node.domain or "") not in ("", "ai.onnx"):
        return []
    if all(tensor.dtype is not None for tensor in (*node.inputs, *node.outputs) if tensor.name):
        return []
    sides = zip((node.inputs, node.outputs), _variables(node.op, opset), strict=True)
    bound = grouped(
        (formal[min(index, len(formal) - 1)], tensor)
        for tensors, formal in sides
        for index, tensor in enumerate(tensors)
        if formal and tensor.name
    )
    bound.pop(None, None)
    return [tensors for tensors in bound.values() if any(tensor.dtype is None for tensor in tensors)]


def _bind(tensors: Sequence[Any]) -> bool:
    """Gives all of them the type of those that have one; returns whether there is one."""
    dtypes: list[np.dtype] = [tensor.dtype for tensor in tensors if tensor.dtype is not None]
    for tensor in tensors:
        if dtypes and tensor.dtype is None and isinstance(tensor, gs.Variable):
            tensor.dtype = dtypes[0]
    return bool(dtypes)


@functools.cache
def _variables(op: str, opset: int) -> tuple[Sequence[str | None], Sequence[str | None]]:
    """The type variable of each input and each output of an operator; None for what has its own type."""
    if not onnx.defs.has(op, opset, ""):
        return (), ()
    schema = onnx.defs.get_schema(op, opset, "")
    names = {constraint.type_param_str for constraint in schema.type_constraints}

    def of(formal: Sequence[Any]) -> tuple[str | None, ...]:
        return tuple(one.type_str if one.type_str in names and one.is_homogeneous else None for one in formal)

    return of(schema.inputs), of(schema.outputs)
