"""Scatter with a reduction, for constant indices in rounds, for others by comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from _opsets import reduced, unsqueezed

from onnxq.rule import Close, Except, Node, Skip, Tensor, Value, op

MOST_ROUNDS = 32
MOST_COMPARED = 4096
MOST_ELEMENTS = 1 << 26

_COMBINE = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_REDUCE = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


def combined(reduction: str, x: Any, updates: Any) -> Value:
    """What the reduction makes of a value and its update."""
    value: Value = getattr(op, _COMBINE[reduction])(x, updates)
    return value


def neutral(reduction: str, dtype: np.dtype | None) -> np.ndarray:
    """The update that changes nothing, of rank 0."""
    if dtype is None:
        raise Skip("the type of its data is not known")
    if reduction in ("add", "mul"):
        return np.array(reduction == "mul", dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return np.array(bounds.min if reduction == "max" else bounds.max, dtype)
    return np.array(-np.inf if reduction == "max" else np.inf, dtype)


def rounds(targets: np.ndarray) -> list[np.ndarray]:
    """The positions of updates such that no target is twice in a round, and each target's are in order.

    Args:
        targets: [updates], where each goes.
    """
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]] if len(ordered) else np.zeros(0, bool)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(ordered)), 0)) if len(ordered) else first
    number = np.empty(len(targets), np.int64)
    number[order] = np.arange(len(ordered)) - starts
    count = int(number.max(initial=-1)) + 1
    if count > MOST_ROUNDS:
        raise Skip(f"one of its indices is there {count} times, more than {MOST_ROUNDS}")
    return [np.flatnonzero(number == one) for one in range(count)]


def by_comparison(
    node: Node, targets: Any, updates: Any, count: Any, axis: int, kind: np.dtype | None
) -> Value:
    """What is added (multiplied, ...) at each of `count` positions of an axis.

    Args:
        node: the Scatter.
        targets: [..., M, ...] int64, from 0, with M along `axis`; broadcast against the updates.
        updates: [..., M, ...].
        count: a number, or a value of rank 0.
        axis: from 0.
        kind: the type of the updates.

    Returns:
        [..., count, ...].
    """
    reduction = node.attr("reduction")
    rank = updates.rank
    computed = isinstance(count, Value)
    places: Any = op.Range(np.int64(0), count, np.int64(1)) if computed else np.arange(int(count))
    shape = [1] * (rank + 1)
    shape[axis] = -1
    places = op.Reshape(places, np.array(shape)) if isinstance(places, Value) else places.reshape(shape)
    hits = op.Equal(unsqueezed(node, targets, [axis]), places)
    spread = op.Where(hits, unsqueezed(node, updates, [axis]), neutral(reduction, kind))
    return reduced(node, _REDUCE[reduction], spread, [axis + 1])


def claimed(node: Node, value: Value, kind: np.dtype | None) -> Any:
    """What of the result by comparison is not bit-equal."""
    if kind is None or kind.kind != "f":
        return value
    if node.attr("reduction") in ("add", "mul"):
        result: Any = Close(value)
        if node.attr("reduction") == "add":
            result = Except(result, "zero-sign", "a zero that gets no update is added to a zero")
        return result
    return extreme(node.attr("reduction"), value, kind)


def extreme(reduction: str, value: Value, kind: np.dtype | None) -> Any:
    """The value, and what a maximum or minimum of floats leaves open."""
    if kind == np.float16 and reduction in ("add", "mul"):
        return Close(value)  # several updates of a place are rounded one by one
    if reduction not in ("max", "min") or kind is None or kind.kind != "f":
        return value
    result = Except(value, "nan-input", "which of two numbers is the larger is not defined of a NaN")
    return Except(result, "zero-sign", "which of two zeros is the larger is not defined")


def compared(updates: int | None, places: int | None, rest: int | None) -> None:
    """Whether each update can be compared with each place.

    Raises:
        Skip: there are too many.
    """
    known = [count for count in (updates, places) if count is not None]
    if not known:
        raise Skip(
            "neither the number of its updates nor of the places that they go to is known: give the sizes with "
            "--shape INPUT:SIZES"
        )
    if min(known) > MOST_COMPARED:
        raise Skip(f"its indices are computed, and there are more than {MOST_COMPARED} places and updates")
    if updates is not None and places is not None and updates * places * (rest or 1) > MOST_ELEMENTS:
        raise Skip(
            f"its indices are computed, and {updates} updates of {places} places are too many to compare each with each"
        )


def product(sizes: Any) -> int | None:
    """The product of sizes, None where one is not known."""
    total = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        total *= size
    return total


def from_zero(index: Any, size: Any) -> Any:
    """An int64 index, counted from the start of its axis."""
    if isinstance(index, np.ndarray) and not isinstance(size, Value):
        return np.where(index < 0, index + size, index)
    if isinstance(index, np.ndarray) and (index >= 0).all():
        return index
    return op.Where(op.Less(index, np.int64(0)), op.Add(index, size), index)


def reduction_of(node: Node, data: Tensor) -> str | None:
    """The reduction; None where there is none."""
    reduction = node.attr("reduction", "none")
    if reduction not in _COMBINE:
        return None
    if reduction in ("max", "min") and data.dtype == np.dtype(bool):
        raise Skip("its data are booleans")
    return str(reduction)
