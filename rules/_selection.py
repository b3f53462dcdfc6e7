"""Boolean selection: x[mask], and what is computed of it element by element, seen as a whole tensor and a mask."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.rule import Node, Skip, Tensor, Value, constant, made_by, op, operands, remake

MOST_STEPS = 16
_FLOATS = {"Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Cast", "Identity"}
_BOTH = {"Add", "Sub", "Mul", "Div", "Max", "Min"}
ELEMENTWISE = _FLOATS | _BOTH
_BOOL = 9


@dataclass(frozen=True)
class Selection:
    """Which rows are selected.

    Attributes:
        condition: what is not zero where a row is selected.
        axes: of the data, which the mask is of.
        axis: of the selected, where the rows lie.
        rank: of the data.
        flat: whether the data are flattened before.
    """

    condition: Tensor
    axes: tuple[int, ...]
    axis: int
    rank: int
    flat: bool = False

    def mask(self) -> Value:
        """The mask, with a dimension for each of the data's behind its own."""
        given: Any = self.condition
        if given.dtype != np.dtype(bool):
            given = op.Cast(given, to=_BOOL)
        behind = self.rank - 1 - self.axes[-1]
        if not behind:
            return given  # type: ignore[no-any-return]
        made: Value = op.Reshape(given, np.array([0] * len(self.axes) + [1] * behind))
        return made


def positions(indices: Value | None) -> Tensor | None:
    """What is not zero at the positions [count, rank] of Transpose(NonZero(x))."""
    turned = made_by(indices, "Transpose")
    if turned is None or (turned.attr("perm") or [1, 0]) != [1, 0]:
        return None
    return _searched(turned.inputs[0])


def _searched(value: Value | None) -> Tensor | None:
    found = made_by(value, "NonZero")
    return None if found is None else operands(found, 1)[0]


def _rows(value: Value | None) -> Tensor | None:
    """What of one dimension is not zero at the positions [count]."""
    node = made_by(value, "Squeeze", "Reshape", "Gather")
    if node is None or value is None or value.rank != 1:
        return None
    if node.op == "Gather":  # the only row of NonZero's, or the only column of its Transpose
        places = constant(operands(node, 2)[1])
        if places is None or places.size != 1 or places.reshape(-1)[0] not in (0, -1):
            return None
        if node.attr("axis", 0) % 2 != (_searched(node.inputs[0]) is None):
            return None
    first = node.inputs[0]
    condition = _searched(first) or positions(first)
    return condition if condition is not None and condition.rank == 1 else None


def selection(node: Node) -> tuple[Tensor, Selection] | None:
    """What a GatherND, Gather or Compress takes rows of by a mask that is computed, and which.

    Raises:
        Skip: it does, but the sizes of mask and data are not known to be equal.
    """
    if node.domain or node.op not in ("GatherND", "Gather", "Compress"):
        return None
    data, which = operands(node, 2)
    if data is None or which is None:
        return None
    axis, flat = int(node.attr("axis") or 0), False
    if node.op == "Compress":
        condition: Tensor | None = which if constant(which) is None else None
        flat = node.attr("axis") is None
    elif node.op == "Gather":
        condition = _rows(which)
    else:
        condition = positions(which) if node.attr("batch_dims", 0) == 0 else None
    if condition is None:
        return None
    return data, among(data, condition, axis, flat and data.rank != 1)


def among(data: Value, condition: Tensor, axis: int = 0, flat: bool = False) -> Selection:
    """The selection of data by a condition from this axis on.

    Raises:
        Skip: their sizes are not known to be equal.
    """
    shape, own = data.shape, condition.shape
    if shape is None or own is None or not own:
        raise Skip(f"the ranks of {data.name!r} and of the condition {condition.name!r} are not known")
    if flat:
        known = [size for size in shape if isinstance(size, int)]
        if len(known) < len(shape) or own[0] != math.prod(known):
            raise Skip(f"{data.name!r} and the condition {condition.name!r} are not known to be of one size")
        return Selection(condition, (0,), 0, 1, flat=True)
    axis %= len(shape)
    there = shape[axis : axis + len(own)]
    if there != own or None in own:
        raise Skip(f"{data.name!r} and the condition {condition.name!r} are not known to be of one size")
    return Selection(condition, tuple(range(axis, axis + len(own))), axis, len(shape))


def rows_of(data: Value, which: Selection) -> Value:
    """The data that a selection is of."""
    flat: Value = op.Reshape(data, np.array([-1])) if which.flat else data
    return flat


def whole(value: Tensor, which: Selection, steps: int = MOST_STEPS) -> Any:
    """What is computed element by element of selected rows, computed of all rows; None where it is something else.

    It is broadcast against the data.
    """
    if value.is_constant:
        spread = value.shape in ((), (1,))
        return value if spread else None
    node = value.producer
    if node is None or node.domain or not steps:
        return None
    if node.op in ("GatherND", "Gather", "Compress"):
        found = selection(node)
        if found is None or found[1] != which:
            return None
        return rows_of(found[0], which)
    if node.op == "ConstantOfShape":
        given = node.attr("value")
        return np.zeros((), np.float32) if given is None else np.asarray(given).reshape(())
    if node.op == "Expand":
        given = operands(node, 1)[0]
        rest = which.rank - len(which.axes)
        if given is None or given.shape is None or which.axis:
            return None
        return (
            given
            if len(given.shape) <= rest or (len(given.shape) == rest + 1 and given.shape[0] == 1)
            else None
        )
    if node.op not in ELEMENTWISE or (node.op in _BOTH and not _is_float(value)):
        return None
    parts = [None if one is None else whole(one, which, steps - 1) for one in node.inputs]
    return None if any(one is None for one in parts) else remake(node, *parts)


def _is_float(value: Value) -> bool:
    return value.dtype is not None and value.dtype.kind == "f"
