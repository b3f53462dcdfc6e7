"""What is known of the elements of small tensors: shape arithmetic, followed element by element.

So the known sizes of a shape are found even where another dimension is dynamic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onnxq.graph import wiring
from onnxq.graph.types import dtype_of, is_static, limits
from onnxq.graph.view import Node, Tensor, Value

# Shape arithmetic is about a handful of numbers.
_MAX_ELEMENTS = 64
_MAX_DEPTH = 60

Element = int | float | bool | str | None
"""An element of a tensor: its value, the symbol of the dimension that it is, or None."""


def known_elements(value: Value) -> np.ndarray | None:
    """What is known of each element of a small tensor.

    Returns:
        An object array of the tensor's shape: numbers, dimension symbols, None where an element is
        not known; or None where not even the shape is known.
    """
    return _known(value, 0) if isinstance(value, Tensor) else None


def _known(value: Tensor | None, depth: int) -> np.ndarray | None:
    if value is None or depth > _MAX_DEPTH:
        return None
    tensor, memo = value.tensor, value.model.known
    if value.is_constant:
        if wiring.element_count(tensor) > _MAX_ELEMENTS:
            return None
        array = value.constant
        return None if array is None else np.array(array.tolist(), object).reshape(array.shape)
    if id(tensor) not in memo:
        memo[id(tensor)] = (tensor, _followed(value, depth))
    return memo[id(tensor)][1]


def _followed(value: Tensor, depth: int) -> np.ndarray | None:
    """What is known of the output of a node."""
    node = value.producer
    follow = None if node is None or node.domain else _FOLLOW.get(node.op)
    if node is None or follow is None or len(node.node.outputs) != 1:
        return None
    if math.prod(dim for dim in value.shape or () if isinstance(dim, int)) > _MAX_ELEMENTS:
        return None
    try:
        elements = follow(node, [functools.partial(_known, i, depth + 1) for i in node.inputs])
    except (IndexError, TypeError, ValueError, OverflowError):
        return None
    return elements if elements is not None and elements.size <= _MAX_ELEMENTS else None


_Inputs = list[Callable[[], np.ndarray | None]]


def _shape(node: Node, inputs: _Inputs) -> np.ndarray | None:
    source = node.inputs[0]
    if source is None or source.shape is None:
        return None
    dims = source.shape[node.attr("start", 0) : node.attr("end", len(source.shape))]
    return np.array([*dims, None], object)[:-1]


def _size(node: Node, inputs: _Inputs) -> np.ndarray | None:
    source = node.inputs[0]
    shape = None if source is None else source.shape
    return np.array(math.prod(shape), object) if is_static(shape) else None


def _constant_of_shape(node: Node, inputs: _Inputs) -> np.ndarray | None:
    sizes = inputs[0]()
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    if any(size < 0 for size in sizes) or math.prod(int(size) for size in sizes) > _MAX_ELEMENTS:
        return None
    value = node.attr("value")
    fill = 0.0 if value is None else value.reshape(-1)[0].item()
    return np.full(tuple(int(size) for size in sizes), fill, object)


def _gather(node: Node, inputs: _Inputs) -> np.ndarray | None:
    data, index = inputs[0](), inputs[1]()
    if data is None or index is None:
        return None
    return np.asarray(np.take(data, index.astype(np.int64), axis=node.attr("axis", 0)), object)


# The largest integers mean "to the end" in either direction (onnxruntime; ONNX's text up to opset 10).
_TO_THE_END = (2**31 - 1, 2**63 - 1)


def _slice(node: Node, inputs: _Inputs) -> np.ndarray | None:
    data = inputs[0]()
    if data is None:
        return None
    if node.opset < 10:
        starts, ends, axes = node.attr("starts"), node.attr("ends"), node.attr("axes")
        steps = None
    else:
        numbers = [_integers(read()) for read in inputs[1:]]
        if any(given is None and tensor for given, tensor in zip(numbers, node.inputs[1:], strict=True)):
            return None
        starts, ends, axes, steps = [*numbers, None, None][:4]
    if starts is None or ends is None:
        return None
    axes = range(len(starts)) if axes is None else axes
    cut = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
        cut[axis] = cut_slice(data.shape[axis], start, end, step)
    return data[tuple(cut)]


def cut_slice(size: int, start: int, end: int, step: int) -> slice:
    """What ONNX's Slice takes of an axis of `size`, in Python's terms."""
    if step < 0:  # ONNX clamps to the first element, Python to before it
        start, end = max(start, -size), None if end < -size or end in _TO_THE_END else end  # type: ignore[assignment]
    return slice(start, end, step)


def _integers(array: np.ndarray | None) -> list[int] | None:
    if array is None or not all(isinstance(v, int) for v in array.reshape(-1)):
        return None
    return [int(v) for v in array.reshape(-1)]


def _concat(node: Node, inputs: _Inputs) -> np.ndarray | None:
    parts = [read() for read in inputs]
    if any(part is None for part in parts):
        return None
    return np.concatenate([p for p in parts if p is not None], axis=node.attr("axis"))


def _reshape(node: Node, inputs: _Inputs) -> np.ndarray | None:
    data = inputs[0]()
    out = node.outputs[0].shape
    return data.reshape(tuple(out)) if data is not None and is_static(out) else None


def _same(node: Node, inputs: _Inputs) -> np.ndarray | None:
    return inputs[0]()


def _cast(node: Node, inputs: _Inputs) -> np.ndarray | None:
    data, dtype = inputs[0](), dtype_of(node.attr("to"))
    if data is None or dtype is None:
        return None

    def convert(element: Element) -> Element:
        if element is None:
            return None
        if isinstance(element, str):  # a size stays the same size in every wider type
            return element if dtype.kind in "iuf" and dtype.itemsize >= 4 else None
        if isinstance(element, float) and dtype.kind in "iu" and not _fits(element, dtype):
            return None  # C leaves it undefined
        with np.errstate(all="ignore"):
            converted: Element = np.array(element).astype(dtype).item()
        return converted

    return _each(convert, data)


def _fits(value: float, dtype: np.dtype) -> bool:
    low, high = limits(dtype)
    return math.isfinite(value) and int(low) <= int(value) <= int(high)


def _each(function: Callable[..., Element], *arrays: np.ndarray) -> np.ndarray:
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object)


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Any:
    """An elementwise operator of two operands, in the exact arithmetic of the tensor's dtype."""

    def follow(node: Node, inputs: _Inputs) -> np.ndarray | None:
        if len(inputs) != 2:  # Min and Max take any number
            return None
        one, other = inputs[0](), inputs[1]()
        source = next((t for t in node.inputs if t is not None and t.dtype is not None), None)
        if one is None or other is None or source is None or source.dtype is None:
            return None
        dtype = source.dtype

        def apply(a: Element, b: Element) -> Element:
            if a is None or b is None or isinstance(a, str) or isinstance(b, str):
                neutral = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}.get(node.op)
                if neutral is not None and b == neutral and dtype.kind in "iu":
                    return a
                if node.op in ("Add", "Mul") and a == neutral and dtype.kind in "iu":
                    return b
                return None
            with np.errstate(all="ignore"):
                result = compute(np.array(a, dtype), np.array(b, dtype))
            return None if result is None else np.asarray(result).item()

        return _each(apply, one, other)

    return follow


def _divide(a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.kind in "iu":  # ONNX: integer division truncates
        one, other = int(a), int(b)
        if other == 0:
            return None
        quotient = abs(one) // abs(other)
        return np.array(quotient if (one < 0) == (other < 0) else -quotient, a.dtype)
    return a / b


def _where(node: Node, inputs: _Inputs) -> np.ndarray | None:
    condition, one, other = (read() for read in inputs)
    if condition is None or one is None or other is None:
        return None
    return _each(lambda c, a, b: None if c is None else a if c else b, condition, one, other)


def _rounded(compute: Callable[[Any], Any]) -> Any:
    def follow(node: Node, inputs: _Inputs) -> np.ndarray | None:
        data = inputs[0]()
        if data is None or node.inputs[0] is None or node.inputs[0].dtype is None:
            return None
        dtype = node.inputs[0].dtype

        def apply(element: Element) -> Element:
            if element is None or isinstance(element, str):
                return element if node.op in ("Floor", "Ceil") else None
            return np.asarray(compute(np.array(element, dtype))).item()  # type: ignore[no-any-return]

        return _each(apply, data)

    return follow


def _product(node: Node, inputs: _Inputs) -> np.ndarray | None:
    data = inputs[0]()
    if data is None or not all(isinstance(v, int) for v in data.reshape(-1)) or data.ndim != 1:
        return None
    if node.attr("noop_with_empty_axes", 0):
        return None
    result = np.array(int(np.prod(data.astype(np.int64))), object)
    return result.reshape(1) if node.attr("keepdims", 1) else result


_FOLLOW: dict[str, Callable[[Node, _Inputs], np.ndarray | None]] = {
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Identity": _same,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Cast": _cast,
    "Add": _arithmetic(lambda a, b: a + b),
    "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(lambda a, b: a * b),
    "Div": _arithmetic(_divide),
    "Min": _arithmetic(np.minimum),
    "Max": _arithmetic(np.maximum),
    "Equal": _arithmetic(lambda a, b: a == b),
    "Less": _arithmetic(lambda a, b: a < b),
    "Greater": _arithmetic(lambda a, b: a > b),
    "And": _arithmetic(np.logical_and),
    "Or": _arithmetic(np.logical_or),
    "Where": _where,
    "Floor": _rounded(np.floor),
    "Ceil": _rounded(np.ceil),
    "Not": _rounded(np.logical_not),
    "Neg": _rounded(np.negative),
    "ReduceProd": _product,
}
