"""The order of a graph's nodes in the file: topological, as ONNX asks and not every exporter keeps."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def in_order(graph: onnx.GraphProto) -> bool:
    """Whether each node stands after those that it reads."""
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        if any(name in later for name in reads(node)):
            return False
        later.difference_update(node.output)
    return True


def put_in_order(graph: onnx.GraphProto) -> None:
    """Sorts a graph's nodes: each after those that it reads, else in the order of the file.

    Nodes of a cycle keep their order.
    """
    producer = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    order: dict[int, None] = {}
    started: set[int] = set()
    for start in range(len(graph.node)):
        stack = [start]
        while stack:
            index = stack[-1]
            started.add(index)
            needed = {producer[name] for name in reads(graph.node[index]) if name in producer}
            open_ones = sorted(needed - started)
            stack.extend(reversed(open_ones))
            if not open_ones:
                order.setdefault(stack.pop())
    nodes = [graph.node[index] for index in order]
    del graph.node[:]
    graph.node.extend(nodes)


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, its bodies' captures included."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            body = attribute.g
            own = {info.name for info in (*body.input, *body.initializer)}
            own.update(name for inner in body.node for name in inner.output)
            for inner in body.node:
                yield from (name for name in reads(inner) if name not in own)
            yield from (info.name for info in body.output if info.name not in own)
