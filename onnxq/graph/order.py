"""The order of a graph's nodes in the file: topological, as ONNX asks and not every exporter keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import onnx

from onnxq.base.grouped import grouped


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

    Of a graph without a cycle.
    """
    nodes = _sorted(graph.node, _needs(graph.node), range(len(graph.node)), key=int)
    del graph.node[:]
    graph.node.extend(nodes)


def deepest_first(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """A graph's nodes so that few tensors wait: of what a node reads, the longest chain comes first.

    So a long sum has one term at a time, and what is made of weights alone stands in front of its reader. Of
    a graph in order.
    """
    needs = _needs(graph.node)
    depth: list[int] = []
    for needed in needs:
        depth.append(1 + max((depth[index] for index in needed), default=0))
    ends = sorted(set(range(len(needs))).difference(*needs))
    return _sorted(graph.node, needs, ends, key=lambda index: (-depth[index], index))


def _sorted(
    nodes: Sequence[onnx.NodeProto],
    needs: Sequence[set[int]],
    starts: Iterable[int],
    key: Callable[[int], Any],
) -> list[onnx.NodeProto]:
    """Nodes, each behind those that it needs: the least of them by a key first."""
    order: dict[int, None] = {}
    started: set[int] = set()
    for start in starts:
        stack = [start]
        while stack:
            index = stack[-1]
            started.add(index)
            open_ones = sorted(needs[index] - started, key=key)
            stack.extend(reversed(open_ones))
            if not open_ones:
                order.setdefault(stack.pop())
    return [nodes[index] for index in order]


def _needs(nodes: Sequence[onnx.NodeProto]) -> list[set[int]]:
    """The places of the nodes that each node reads."""
    places = _places(nodes)
    return [{places[name] for name in reads(node) if name in places} for node in nodes]


def cycle(graph: onnx.GraphProto | onnx.FunctionProto) -> list[onnx.NodeProto]:
    """Nodes of which each reads the one before it, and the first the last; empty where there are none."""
    needs = _needs(graph.node)
    readers: list[list[int]] = [[] for _ in needs]
    for index, needed in enumerate(needs):
        for other in needed:
            readers[other].append(index)
    waits = [len(needed) for needed in needs]
    ready = [index for index, count in enumerate(waits) if count == 0]
    while ready:
        for reader in readers[ready.pop()]:
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.append(reader)
    index = next((index for index, count in enumerate(waits) if count), -1)
    path: list[int] = []
    seen: set[int] = set()
    while index >= 0 and index not in seen:  # backwards: each that waits does so for one that waits
        path.append(index)
        seen.add(index)
        index = next(other for other in sorted(needs[index]) if waits[other])
    return [graph.node[i] for i in reversed(path[path.index(index) :])] if path else []


def makers_in(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """The node of a graph that gives each tensor, by the tensor's name."""
    return {name: node for node in graph.node for name in node.output if name}


def readers_in(graph: onnx.GraphProto) -> dict[str, list[onnx.NodeProto]]:
    """The nodes of a graph that read each tensor, each once, by the tensor's name."""
    return grouped((name, node) for node in graph.node for name in dict.fromkeys(reads(node)))


def own_names(body: onnx.GraphProto) -> set[str]:
    """The names of the tensors that a body has itself; what else it reads is of the graphs around it."""
    names = {info.name for info in (*body.input, *body.initializer)}
    return names.union(name for node in body.node for name in node.output)


def _places(nodes: Sequence[onnx.NodeProto]) -> dict[str, int]:
    """The place of the node that gives each tensor."""
    return {name: place for place, node in enumerate(nodes) for name in node.output if name}


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, its bodies' captures included."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            body = attribute.g
            own = own_names(body)
            for inner in body.node:
                yield from (name for name in reads(inner) if name not in own)
            yield from (info.name for info in body.output if info.name not in own)


def insert_early(graph: onnx.GraphProto, added: onnx.GraphProto) -> None:
    """Puts nodes into a graph, each right behind the last one that it depends on; see `deepest_first`.

    So are nodes of the graph that none of its others reads. In this order, what only they read is free at
    once, and few nodes are ready to run at a time: onnxruntime goes through all of those again and again.

    Args:
        graph: a graph in order; it is modified.
        added: nodes in order, with inputs, initializers and outputs of their own.
    """
    ordered = deepest_first(graph)
    read = {name for node in ordered for name in reads(node) if name}
    stay = [node for node in ordered if not read.isdisjoint(node.output)]
    ends = [node for node in ordered if read.isdisjoint(node.output)]
    places = _places(stay)
    behind: dict[int, list[onnx.NodeProto]] = {}
    for node in (*ends, *added.node):
        place = max((places.get(name, -1) for name in reads(node)), default=-1)
        places.update(dict.fromkeys(filter(None, node.output), place))
        behind.setdefault(place, []).append(node)
    nodes = behind.get(-1, [])
    for place, node in enumerate(stay):
        nodes += [node, *behind.get(place, ())]
    in_place = onnx.GraphProto(node=nodes)
    graph.ClearField("node")
    graph.MergeFrom(in_place)
    graph.input.extend(added.input)
    graph.initializer.extend(added.initializer)
    graph.output.extend(added.output)
