"""Small graphs as drawings: nodes in layers, what they read above them, edges between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.rewrite.change_sketch import SketchedNode

_WIDE, _HIGH, _GAP_X, _GAP_Y = 150, 36, 14, 26


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box.

    Attributes:
        x: its left side.
        y: its upper side.
        title: the operator, "" for a tensor from or to elsewhere.
        label: the name.
    """

    x: int
    y: int
    title: str
    label: str


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A graph, drawn.

    Attributes:
        width: of the view box.
        height: of the view box.
        boxes: nodes, and tensors that come from elsewhere or go there.
        edges: the `d` of an SVG path each.
        box: width and height of each box.
    """

    width: int
    height: int
    boxes: tuple[DrawnBox, ...]
    edges: tuple[str, ...]
    box: tuple[int, int] = (_WIDE, _HIGH)


def graph_drawing(nodes: Sequence[SketchedNode]) -> GraphDrawing | None:
    """Nodes from top to bottom, each below what it reads; None for no nodes."""
    if not nodes:
        return None
    maker = {name: place for place, node in enumerate(nodes) for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    sources = tuple(dict.fromkeys(name for node in nodes for name in node.inputs if name not in maker))
    ends = tuple(name for node in nodes for name in node.outputs if name not in read)
    depth = _depths(nodes, maker)
    last = max(depth) + 1
    layers: list[list[tuple[str, int, str]]] = [[] for _ in range(last + 2)]
    layers[0] = [("in", at, name) for at, name in enumerate(sources)]
    for place in range(len(nodes)):
        layers[depth[place] + 1].append(("node", place, nodes[place].name))
    layers[-1] = [("out", at, name) for at, name in enumerate(ends)]
    layers = [layer for layer in layers if layer]
    widest = max(map(len, layers))
    width = widest * (_WIDE + _GAP_X) + _GAP_X
    spots: dict[tuple[str, int], tuple[int, int]] = {}
    boxes = []
    for row, layer in enumerate(layers):
        left = (width - len(layer) * (_WIDE + _GAP_X) + _GAP_X) // 2
        for column, (kind, place, name) in enumerate(layer):
            x, y = left + column * (_WIDE + _GAP_X), 6 + row * (_HIGH + _GAP_Y)
            spots[kind, place] = (x, y)
            boxes.append(DrawnBox(x, y, nodes[place].op if kind == "node" else "", name))
    edges = []
    for place, node in enumerate(nodes):
        for name in dict.fromkeys(node.inputs):
            start = ("node", maker[name]) if name in maker else ("in", sources.index(name))
            edges.append(_edge(spots[start], spots["node", place]))
        edges += [_edge(spots["node", place], spots["out", ends.index(n)]) for n in node.outputs if n in ends]
    return GraphDrawing(width, 12 + len(layers) * (_HIGH + _GAP_Y) - _GAP_Y, tuple(boxes), tuple(edges))


def _depths(nodes: Sequence[SketchedNode], maker: dict[str, int]) -> list[int]:
    """How many nodes stand above each at least, by the longest way; what is no graph ends all the same."""
    depth = [0] * len(nodes)
    for _ in nodes:
        for place, node in enumerate(nodes):
            above = [depth[maker[n]] + 1 for n in node.inputs if n in maker and maker[n] != place]
            depth[place] = min(max(above, default=0), len(nodes) - 1)
    return depth


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + _WIDE // 2, start[1] + _HIGH, end[0] + _WIDE // 2, end[1]
    middle = (y1 + y2) // 2
    return f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"
