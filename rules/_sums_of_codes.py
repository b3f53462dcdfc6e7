"""Sums of products of 8-bit codes in float arithmetic, exact.

A code less its zero point has at most 8 bits and a sign, which float32, TF32 and half precision hold; products are exact
in float32, and their sums as long as they stay below 2**24. What may be larger is summed in parts, and the parts
as int32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from _quantized import FLOAT, INT32, less

from onnxq.rule import Node, Skip, Tensor, Value, constant, float32_only, op

_EXACT = 1 << 24
_PARTS = 64
"""More parts than this are not made of a sum."""


def centred(codes: Tensor, zero: Tensor | None, shape: list[int] | None = None) -> Value | np.ndarray:
    """Codes less their zero point, as float32.

    Args:
        codes: uint8 or int8.
        zero: the zero point, None for 0.
        shape: the shape in which several zero points broadcast with the codes; None where they do as they are.
    """
    values, zeros = codes.constant, constant(zero)
    floats: Value | np.ndarray = op.Cast(codes, to=FLOAT) if values is None else values.astype(np.float32)
    if zero is None or (zeros is not None and not zeros.any()):
        return floats
    if zeros is None:
        moved: Value = op.Cast(zero, to=FLOAT)
        several = shape is not None and zero.rank == 1 and zero.shape != (1,)
        return op.Sub(floats, op.Reshape(moved, np.array(shape)) if several else moved)
    several = shape is not None and zeros.ndim == 1 and zeros.size > 1
    one = zeros.reshape(shape) if several else zeros.reshape(()) if zeros.size == 1 else zeros
    return less(floats, one.astype(np.float32))


def reach(codes: Tensor, zero: Tensor | None) -> int:
    """How far codes may be from their zero point."""
    zeros = constant(zero)
    if codes.dtype not in (np.uint8, np.int8):
        raise Skip(f"the type of {codes.name!r} is {codes.dtype}, not uint8 or int8")
    low, high = (0, 255) if codes.dtype == np.uint8 else (-128, 127)
    if zero is None:
        return max(-low, high)
    if zeros is None:
        return 255
    return max(int(zeros.max()) - low, high - int(zeros.min()), 1)


def matmul(node: Node, a: Value | np.ndarray, b: Value | np.ndarray, far: tuple[int, int]) -> Value:
    """The product of whole numbers, exact: float32 where its sums stay below 2**24, else int32.

    Args:
        node: the node that it stands in for.
        a: its rows, float32.
        b: its columns, float32.
        far: the largest magnitudes in a and b.

    Raises:
        Skip: the number of products in a sum is not known, or too large.
    """
    if isinstance(b, np.ndarray):
        sizes = (
            np.abs(b.astype(np.float64)).reshape(-1, *b.shape[-2:]).max(axis=0)
            if b.ndim > 1
            else np.abs(b)[:, None]
        )
    else:
        count = b.shape[-2] if b.shape is not None and len(b.shape) > 1 else b.shape[0] if b.shape else None
        if not isinstance(count, int):
            raise Skip(f"the number of products in a sum is dynamic ({count})")
        sizes = np.full((count, 1), float(far[1]))
    spans = list(_spans(sizes.astype(np.float64) * far[0]))
    if len(spans) == 1:
        return float32_only(op.MatMul(a, b))
    parts = [
        op.MatMul(_cut(a, -1, low, high), _cut(b, -2 if sizes.shape and _rank(b) > 1 else 0, low, high))
        for low, high in spans
    ]
    return _sum(parts)


def conv(
    node: Node, x: Value | np.ndarray, w: Value | np.ndarray, far: tuple[int, int], attrs: dict[str, Any]
) -> Value:
    """The convolution of whole numbers, exact: float32 where its sums stay below 2**24, else int32.

    Args:
        node: the node that it stands in for.
        x: what is convolved, float32.
        w: the kernels, float32.
        far: the largest magnitudes in x and w.
        attrs: the attributes of the Conv.

    Raises:
        Skip: the number of products in a sum is not known, or too large.
    """
    if isinstance(w, np.ndarray):
        sizes = np.abs(w.astype(np.float64)).reshape(*w.shape[:2], -1).sum(axis=2).T
    else:
        shape = w.shape or ()
        if len(shape) < 3 or not all(isinstance(size, int) for size in shape[1:]):
            raise Skip(f"the number of products in a sum is dynamic (weights {w.shape})")
        sizes = np.full(
            (int(shape[1] or 0), 1), float(np.prod([int(size or 0) for size in shape[2:]])) * far[1]
        )
    spans = list(_spans(sizes * far[0]))
    if len(spans) == 1:
        return float32_only(op.Conv(x, w, **attrs))
    if attrs.get("group", 1) != 1:
        raise Skip("the sums of a convolution in groups may be 2**24 or more, where float32 is not exact")
    return _sum([op.Conv(_cut(x, 1, low, high), _cut(w, 1, low, high), **attrs) for low, high in spans])


def biased(value: Value, bias: Tensor | None, shape: list[int] | None = None) -> Value:
    """What `matmul` or `conv` gives, and a bias of int32, as float32.

    Args:
        value: the sums.
        bias: what is added, None for nothing.
        shape: the shape in which it broadcasts with the sums; None where it does as it is.
    """
    if bias is None:
        return as_float32(value)
    codes = bias.constant
    added: Value | np.ndarray = bias
    if shape is not None:
        added = op.Reshape(bias, np.array(shape)) if codes is None else codes.reshape(shape)
    return op.Cast(op.Add(as_int32(value), added), to=FLOAT)


def as_int32(value: Value) -> Value:
    """What `matmul` or `conv` gives, as int32."""
    return value if value.dtype == np.int32 else op.Cast(value, to=INT32)


def as_float32(value: Value) -> Value:
    """What `matmul` or `conv` gives, as float32."""
    return op.Cast(value, to=FLOAT) if value.dtype == np.int32 else value


def _spans(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of rows whose columns add up to less than 2**24, as few as possible."""
    start, total, parts = 0, np.zeros(sizes.shape[1:]), 0
    for index, row in enumerate(sizes):
        if (total + row >= _EXACT).any() and index > start:
            yield start, index
            start, total, parts = index, np.zeros(sizes.shape[1:]), parts + 1
        if (row >= _EXACT).any() or parts >= _PARTS:
            raise Skip(f"its sums of {len(sizes)} products may be 2**24 or more, where float32 is not exact")
        total = total + row
    yield start, len(sizes)


def _rank(value: Value | np.ndarray) -> int:
    return value.ndim if isinstance(value, np.ndarray) else len(value.shape or ())


def _cut(value: Value | np.ndarray, axis: int, low: int, high: int) -> Value | np.ndarray:
    """A range of an axis."""
    if isinstance(value, np.ndarray):
        return np.take(value, np.arange(low, high), axis)
    return op.Slice(value, np.array([low]), np.array([high]), np.array([axis]))


def _sum(parts: list[Value]) -> Value:
    """The sum of exact float parts, as int32."""
    total = as_int32(parts[0])
    for part in parts[1:]:
        total = op.Add(total, op.Cast(part, to=INT32))
    return total
