"""Sizes that are named dynamic and baked in: nodes that run at one size of an input's dimension alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.base.reason import noted
from onnxq.graph.elements import known_elements
from onnxq.graph.model import Model
from onnxq.graph.types import Dim, Shape
from onnxq.graph.view import Node


@dataclass(frozen=True, slots=True)
class BakedSize:
    """A size that is baked in.

    Attributes:
        node: the node that has it.
        symbol: the dimension that the inputs name.
        size: at which alone the node runs.
        why: what in the node has the size.
    """

    node: Node
    symbol: str
    size: int
    why: str

    def __str__(self) -> str:
        return noted("baked-size", symbol=self.symbol, size=self.size, why=self.why)


def baked_sizes(model: Model) -> list[BakedSize]:
    """The sizes that are baked into the main graph: of each dimension the first node."""
    found: dict[str, BakedSize] = {}
    for node in model.nodes:
        rule = None if node.domain else _RULES.get(node.op)
        for symbol, size, why in () if rule is None else rule(node):
            if node.is_input_dim(symbol):
                found.setdefault(symbol, BakedSize(node, symbol, size, why))
    return list(found.values())


def _reshape(node: Node) -> Iterator[tuple[str, int, str]]:
    """The one free dimension of what is reshaped, where the shape is constant and wants so many elements."""
    data, shape = node.operands(2)
    known = None if shape is None else known_elements(shape)
    if data is None or data.shape is None or known is None:
        return
    wanted = [dim if dim or node.attr("allowzero", 0) else _at(data.shape, axis)
              for axis, dim in enumerate(known.reshape(-1))]  # fmt: skip
    given = list(data.shape)
    for dim in [one for one in given if isinstance(one, str) and one in wanted]:  # on both sides
        given.remove(dim)
        wanted.remove(dim)
    free = [dim for dim in given if not isinstance(dim, int)]
    fixed = math.prod(dim for dim in given if isinstance(dim, int))
    counts = [dim for dim in wanted if isinstance(dim, int) and dim > 0]
    if len(free) != 1 or free[0] is None or len(counts) < len(wanted):
        return
    size, rest = divmod(math.prod(counts), fixed or 1)
    if fixed and not rest:
        yield free[0], size, noted("baked-size.reshape", sizes=_text(known.reshape(-1).tolist()))


def _concat(node: Node) -> Iterator[tuple[str, int, str]]:
    """Free dimensions, not that along which is joined, which another operand has fixed."""
    shapes = {one.name: one.shape for one in node.inputs if one is not None and one.shape is not None}
    rank = max(map(len, shapes.values()), default=0)
    if rank and all(len(shape) == rank for shape in shapes.values()):
        for axis in {*range(rank)} - {node.attr("axis", 0) % rank}:
            sizes = {shape[axis]: name for name, shape in shapes.items()}
            fixed = next((dim for dim in sizes if isinstance(dim, int)), None)
            for dim in sizes:
                if isinstance(dim, str) and fixed is not None:
                    yield (
                        dim,
                        fixed,
                        noted(
                            "baked-size.concat",
                            tensor=sizes[dim],
                            other=sizes[fixed],
                            sizes=_text(shapes[sizes[fixed]]),
                        ),
                    )


_RULES = {"Reshape": _reshape, "Concat": _concat}


def _at(shape: Shape, axis: int) -> Dim:
    return shape[axis] if axis < len(shape) else None


def _text(dims: Shape | list[Dim]) -> str:
    return f"[{', '.join(map(str, dims))}]"
