"""Nodes that compute the same: a compiler makes one kernel of them, under the name of one."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import onnx

from onnxq.graph.value import RANDOM

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def twins(model: onnx.ModelProto) -> dict[str, tuple[str, ...]]:
    """The other nodes that compute what a node does: the same operator on the same values.

    Constants are the same where their bytes are, or where they are the same range of a file.

    Returns:
        By name of each node of the main graph that has such others their names, in order.
    """
    graph = model.graph
    classes: dict[str, Hashable] = {"": ""}  # of each tensor; one of its own for every input
    classes.update((tensor.name, _digest(tensor)) for tensor in graph.initializer)
    classes.update((info.name, info.name) for info in graph.input)
    alike: dict[bytes, list[str]] = {}
    for node in graph.node:
        key = _key(node, classes)
        for place, name in enumerate(node.output):
            classes[name] = (key, place)
        alike.setdefault(key, []).append(node.name)
    return {
        name: tuple(other for other in names if other != name)
        for names in alike.values()
        if len(names) > 1
        for name in names
    }


def _key(node: onnx.NodeProto, classes: dict[str, Hashable]) -> bytes:
    """Equal for nodes that compute the same."""
    own = node.op_type in RANDOM or any(attribute.type in _GRAPHS for attribute in node.attribute)
    said = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
    read = [classes.get(name, name) for name in node.input]
    what = (node.domain, node.op_type, len(node.output), said, read, node.output[0] if own else "")
    return hashlib.sha256(repr(what).encode()).digest()


def _digest(tensor: onnx.TensorProto) -> bytes:
    """Equal for constants that hold the same."""
    bare = onnx.TensorProto()
    bare.CopyFrom(tensor)
    for field in ("name", "doc_string"):
        bare.ClearField(field)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).digest()
