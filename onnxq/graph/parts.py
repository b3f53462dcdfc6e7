"""Parts of a model that run alone: what onnxruntime knows, and the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import onnx

from onnxq.graph.duplicate import duplicate
from onnxq.graph.load import opset_of
from onnxq.graph.model import Model
from onnxq.graph.order import reads
from onnxq.graph.wiring import bodies, captures, detach, is_constant, with_bodies

# The part of a model that onnxruntime can run: everything that no unknown operator feeds.

_KNOWN_DOMAINS = ("ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")


def runnable_part(
    model: onnx.ModelProto, known: Callable[[onnx.NodeProto], bool] = lambda node: False
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Leaves out operators of unknown domains, and all that depends on them.

    Args:
        model: a model whose nodes are in topological order and have names.
        known: of which nodes of such domains something runs.

    Returns:
        The model itself where all of it is known. Else a model without the others, whose outputs
        are the original's that are left and the tensors that the others read; and for each node
        left out, the unknown operator that it is or depends on.
    """
    opset = opset_of(model)
    blame: dict[str, str] = {}
    left: dict[str, str] = {}
    kept: list[onnx.NodeProto] = []
    read_by_left: list[str] = []
    for node in model.graph.node:
        why = (None if known(node) else next(_foreign(node, opset), None)) or next(
            (blame[name] for name in reads(node) if name in blame), None
        )
        if why is None:
            kept.append(node)
            continue
        left[node.name] = why
        blame.update((name, why) for name in node.output if name)
        read_by_left += reads(node)
    if not left:
        return model, {}
    part = onnx.ModelProto(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(kept)
    part.graph.input.extend(model.graph.input)
    part.graph.initializer.extend(model.graph.initializer)
    part.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    part.graph.output.extend(info for info in model.graph.output if info.name not in blame)
    made = {name for node in kept for name in node.output}
    listed = {info.name for info in part.graph.output}
    for name in dict.fromkeys(read_by_left):
        if name in made and name not in listed:
            part.graph.output.add(name=name)
    return part, left


def _foreign(node: onnx.NodeProto, opset: int) -> Iterator[str]:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain and domain not in _KNOWN_DOMAINS:
        yield f"{domain}.{node.op_type}"
    elif not domain and not onnx.defs.has(node.op_type, opset, ""):
        yield node.op_type
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _foreign(inner, opset)


# The end of a model alone: some nodes, and all that depends on them.


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
