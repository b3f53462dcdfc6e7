"""Which rows of which axes a scatter writes, where these make a box: some rows of each axis, each with all of the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxq.rule import Skip, Tensor, Value, constant, known_elements, made_by, operands

Box = list[np.ndarray | None]
"""The rows of each leading axis, in the order of the updates; None for all of an axis, in order."""


def box_of_places(indices: Tensor, data: Tensor) -> Box:
    """The box that the indices of a ScatterND name, [sizes of the box, axes].

    Raises:
        Skip: they are not known, or make no box.
    """
    shape, values = data.shape, constant(indices)
    if shape is None:
        raise Skip(f"the rank of {data.name!r} is not known")
    if values is None:
        return _computed(indices, data)
    depth = values.shape[-1]
    rows = _from_start(values.reshape(-1, depth).astype(np.int64), data)
    box = [rows[np.sort(np.unique(column, return_index=True)[1]), axis] for axis, column in enumerate(rows.T)]
    grid = np.stack([part.reshape(-1) for part in np.meshgrid(*box, indexing="ij")], 1) if box else rows[:0]
    if not np.array_equal(grid, rows):
        raise Skip("its indices are no box of rows, or name a place several times")
    return [None if _is_whole(part, size) else part for part, size in zip(box, shape[:depth], strict=True)]


def rows_of_elements(indices: Tensor, data: Tensor, axis: int) -> tuple[int, np.ndarray]:
    """The axis, from 0, and its rows that a ScatterElements writes in full.

    Raises:
        Skip: they are not known, are others elsewhere along the other axes, or do not fill these.
    """
    if data.shape is None or indices.shape is None:
        raise Skip("the ranks of its inputs are not known")
    rank = len(data.shape)
    axis %= rank
    for other in range(rank):
        if other != axis and not _same(indices.shape[other], data.shape[other]):
            raise Skip(f"it may write a part of dimension {other} of {data.name!r} only")
    values = constant(indices)
    spread = made_by(indices, "Expand")
    if values is None and spread is not None:
        values = constant(operands(spread, 1)[0])
    if values is None:
        raise Skip("its indices are computed")
    values = values.reshape((1,) * (rank - values.ndim) + values.shape)
    if values.size:
        values = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    if not values.size or (values != values[:, :1]).any():
        raise Skip("its indices are no rows of an axis")
    rows = _from_start(values[:, :1].astype(np.int64), data, axis)[:, 0]
    if not _same(indices.shape[axis], len(rows)) or len(np.unique(rows)) < len(rows):
        raise Skip("its indices name a place several times")
    return axis, rows


def _computed(indices: Tensor, data: Tensor) -> Box:
    """The box of indices that are joined of a part for each axis, as exporters write them for dynamic sizes."""
    assert data.shape is not None
    joined = made_by(indices, "Concat")
    grid = indices.shape
    if grid is None or (joined is None and grid[-1] != 1):
        raise Skip("its indices are computed")
    rank = len(grid) - 1
    columns = [indices] if joined is None else list(operands(joined, len(joined.inputs)))
    if len(columns) != rank or (joined is not None and joined.attr("axis") not in (-1, rank)):
        raise Skip("its indices are computed")
    box = []
    for axis, column in enumerate(columns):
        part = _part(column, rank)
        size = data.shape[axis]
        values = constant(part)
        if values is not None:
            rows: np.ndarray | None = _from_start(values.reshape(-1, 1).astype(np.int64), data, axis)[:, 0]
            fits = grid[axis] == values.size
        elif _counts(part, size):  # the box's own size is computed of it, and has another symbol
            rows, fits = None, not isinstance(grid[axis], int)
        else:
            raise Skip("its indices are computed")
        sizes = (1,) * (rank - (part.rank or 0)) + tuple(part.shape or ())
        if any(other != 1 for other in sizes[:axis] + sizes[axis + 1 :]) or not fits:
            raise Skip("its indices are no box of rows")
        if rows is not None and len(np.unique(rows)) < len(rows):
            raise Skip("its indices name a place several times")
        box.append(None if rows is not None and _is_whole(rows, size) else rows)
    return box


def _part(column: Tensor | None, rank: int) -> Tensor:
    """What a column of the indices was before it was spread over the box."""
    node = made_by(column, "Unsqueeze")
    if node is not None:
        first, second = operands(node, 2)
        axes = node.attr("axes") if node.opset < 13 else constant(second)
        if first is not None and axes is not None and list(axes) in ([-1], [rank]):
            spread = made_by(first, "Expand")
            part = first if spread is None else operands(spread, 1)[0]
            if part is not None and part.shape is not None and len(part.shape) <= rank:
                return part
    raise Skip("its indices are computed")


def _counts(value: Value, size: Any) -> bool:
    """Whether it is 0, 1, ... up to a size, along one axis."""
    node = value.producer
    while node is not None and node.op in ("Reshape", "Unsqueeze", "Cast", "Identity") and node.inputs[0]:
        node = node.inputs[0].producer
    if node is None or node.domain or node.op != "Range":
        return False
    start, limit, step = operands(node, 3)
    if start is None or limit is None or step is None or start.scalar != 0 or step.scalar != 1:
        return False
    known = known_elements(limit)
    return known is not None and known.size == 1 and _same(known.reshape(-1)[0], size)


def _same(one: Any, other: Any) -> bool:
    return one is not None and one == other


def _is_whole(rows: np.ndarray, size: Any) -> bool:
    return isinstance(size, int) and np.array_equal(rows, np.arange(size))


def _from_start(rows: np.ndarray, data: Tensor, first: int = 0) -> np.ndarray:
    """Rows of some axes, counted from the start where the size is known, else from one end.

    Args:
        rows: [places, axes].
        data: what is written into.
        first: the axis of the first column.
    """
    assert data.shape is not None
    counted = rows.copy()
    for number in range(rows.shape[1]):
        size, column = data.shape[first + number], rows[:, number]
        if isinstance(size, int):
            counted[:, number] = np.where(column < 0, column + size, column)
        elif (column < 0).any() and (column >= 0).any():
            raise Skip(
                f"some indices are counted from the end, and dimension {first + number} of {data.name!r} is dynamic "
                f"({size}): give the size with --shape"
            )
    return counted


def sizes_of(box: Box, data: Tensor) -> list[Any]:
    """The sizes of what is written into a box: ints, symbols, None."""
    sizes = list(data.shape or ())
    return [size if rows is None else len(rows) for rows, size in zip(box, sizes, strict=False)] + sizes[
        len(box) :
    ]
