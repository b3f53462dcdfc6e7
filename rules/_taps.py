"""Sums of a few weighted elements along an axis, as Gather, Mul and Add: no product that TF32 would round."""

from __future__ import annotations

from typing import Any

import numpy as np
from _opsets import reduced

from onnxq.rule import Node, Value, op

_UNROLLED = 8
_ROUNDING = 2.0**-22  # smaller weights are what rounding left of a zero


def taps(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each column of a matrix reads: row numbers and weights, as many for each column.

    Where a column has fewer, its last weight is halved as often: the same sum, bit for bit, also of infinities.

    Args:
        matrix: [n, m].

    Returns:
        (int64 [taps, m], [taps, m]).
    """
    sizes = np.abs(matrix)
    matrix = np.where(sizes > sizes.max(initial=0) * _ROUNDING, matrix, 0)
    columns = [np.flatnonzero(column) for column in matrix.T]
    count = max([1, *map(len, columns)])
    rows = np.zeros((count, len(columns)), np.int64)
    weights = np.zeros((count, len(columns)), matrix.dtype)
    for number, found in enumerate(columns):
        if not len(found):
            continue
        rows[: len(found), number] = found
        weights[: len(found), number] = matrix[found, number]
        for more in range(len(found), count):
            weights[more - 1, number] /= 2
            weights[more, number] = weights[more - 1, number]
            rows[more, number] = found[-1]
    return rows, weights


def along(node: Node, x: Any, matrix: np.ndarray, axis: int, rank: int) -> Any:
    """X times the matrix along an axis: [..., n, ...] becomes [..., m, ...].

    Args:
        node: whose opset it is written for.
        x: a float value.
        matrix: [n, m] of its type.
        axis: from 0.
        rank: of x.
    """
    if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
        return x
    rows, weights = taps(matrix)
    shape = [1] * rank
    shape[axis] = -1
    if len(rows) > _UNROLLED:
        picked = op.Gather(x, np.ascontiguousarray(rows.T), axis=axis)
        spread = np.ascontiguousarray(weights.T).reshape([*shape[: axis + 1], len(rows), *shape[axis + 1 :]])
        return reduced(node, "ReduceSum", op.Mul(picked, spread), [axis + 1])
    total: Value | None = None
    for row, weight in zip(rows, weights, strict=True):
        term = picked_along(x, row, axis, len(matrix))
        if (weight != 1).any():
            term = op.Mul(term, weight.reshape(shape))
        total = term if total is None else op.Add(total, term)
    return total


def picked_along(x: Any, rows: np.ndarray, axis: int, size: int) -> Any:
    """A Gather of these rows of an axis, x itself where they are all rows in order."""
    if len(rows) == size and (rows == np.arange(size)).all():
        return x
    return op.Gather(x, rows, axis=axis)
