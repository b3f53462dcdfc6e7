"""The end of a model alone: some nodes, and all that depends on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from onnxq.graph.duplicate import duplicate
from onnxq.graph.model import Model
from onnxq.graph.wiring import bodies, captures, detach, is_constant, with_bodies


def tail_nodes(model: Model, nodes: Collection[str], given: Collection[str]) -> frozenset[str]:
    """The names of the nodes of the main graph that depend on some nodes, and of what they need beside these.

    Args:
        model: the model.
        nodes: names of nodes; one in a body stands for the node around it.
        given: the tensors that the tail may be fed, beside the model's inputs. What makes others that it
            reads is part of it, back to one of these.
    """
    kept, changed = set[str](), set[int]()
    for node in model.graph.nodes:
        named = any(one.name in nodes for one in with_bodies(node))
        if named or any(id(tensor) in changed for tensor in _reads(node)):
            kept.add(node.name)
            changed.update(id(tensor) for tensor in node.outputs if tensor.name)
    needed = set[int]()
    for node in reversed(model.graph.nodes):
        if node.name in kept or any(id(tensor) in needed for tensor in node.outputs):
            kept.add(node.name)
            needed.update(id(tensor) for tensor in _reads(node) if tensor.name not in given)
    return frozenset(kept)


def tail_of(model: Model, nodes: Collection[str]) -> Model:
    """A model of its own of the nodes of a tail; weights are shared.

    Args:
        model: the model; it is not modified.
        nodes: their names, see `tail_nodes`.

    Returns:
        The tail. Its inputs are what it reads and does not make, its outputs those of the model's that it
        makes.
    """
    result = duplicate(model)
    graph = result.graph
    for node in graph.nodes:
        if node.name not in nodes:
            for one in with_bodies(node):
                detach(one)
    graph.nodes = [node for node in graph.nodes if node.name in nodes]
    made = {id(tensor) for node in graph.nodes for tensor in node.outputs}
    read = {id(t): t for node in graph.nodes for t in _reads(node) if t.name and not is_constant(t)}
    graph.inputs = [tensor for key, tensor in read.items() if key not in made]
    graph.outputs = [tensor for tensor in graph.outputs if id(tensor) in made]
    return result


def _reads(node: Any) -> Iterator[Any]:
    """The tensors of the graph around it that a node reads."""
    yield from node.inputs
    for body in bodies(node):
        yield from captures(body)
