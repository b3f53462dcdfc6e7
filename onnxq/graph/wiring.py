"""The wiring of onnx-graphsurgeon's nodes and tensors, edited by identity.

graphsurgeon's own lists remove by deep comparison of nodes: slow, and wrong for equal nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.base.errors import UserError
from onnxq.graph.constants import SourceValues, array_of
from onnxq.graph.source import constant_value
from onnxq.graph.types import Shape


def bodies(node: Any) -> list[Any]:
    """The subgraph bodies of a node."""
    return list(node.attrs.values()) if node.attrs else []  # they hold nothing else


def reads(node: Any) -> Iterator[Any]:
    """The tensors that a node reads, those that its bodies read included."""
    yield from node.inputs
    for body in bodies(node):
        for inner in body.nodes:
            yield from reads(inner)
        yield from body.outputs


def with_bodies(node: Any) -> Iterator[Any]:
    """A node and those of its bodies."""
    yield node
    for body in bodies(node):
        for inner in body.nodes:
            yield from with_bodies(inner)


def captures(body: Any) -> Iterator[Any]:
    """The tensors that a subgraph body reads and does not compute itself, constants included."""
    own = {id(tensor) for tensor in _defined(body)}
    read = (*(t for node in body.nodes for t in reads(node)), *body.outputs)
    seen = {id(tensor): tensor for tensor in read if tensor.name and id(tensor) not in own}
    yield from seen.values()


def _defined(body: Any) -> Iterator[Any]:
    yield from body.inputs
    for node in body.nodes:
        yield from node.outputs
        for inner in bodies(node):
            yield from _defined(inner)


def sorted_nodes(nodes: Sequence[Any]) -> list[Any]:
    """Nodes in topological order; those that are in order already keep their places.

    Raises:
        UserError: there is a cycle.
    """
    owner = {id(tensor): node for node in nodes for tensor in node.outputs}
    started: set[int] = set()
    done: dict[int, Any] = {}
    for start in nodes:
        stack = [start]
        while stack:
            node = stack[-1]
            producers = (owner.get(id(tensor), node) for tensor in reads(node))
            needs = [p for p in producers if p is not node and id(p) not in done]
            if not needs:
                done[id(node)] = node
                stack.pop()
            elif id(node) in started:  # it waits for itself
                raise UserError(f"node {node.name!r} is part of a cycle")
            else:
                started.add(id(node))
                stack.extend(needs)
    return list(done.values())


def new_tensor(name: str, dtype: np.dtype | None, shape: Shape | None) -> Any:
    """A new tensor that is not connected yet."""
    return gs.Variable(name, dtype, shape)


def detach(node: Any) -> None:
    """Takes a node off its tensors."""
    for tensor in {id(t): t for t in node.inputs}.values():
        _drop(tensor.outputs, node)
    for tensor in node.outputs:
        _drop(tensor.inputs, node)
    list.clear(node.inputs)
    list.clear(node.outputs)


def replace_input(node: Any, index: int, tensor: Any) -> None:
    """Makes input `index` of a node read another tensor."""
    old = node.inputs[index]
    list.__setitem__(node.inputs, index, tensor)
    if old is not tensor:
        for position, user in enumerate(old.outputs):
            if user is node:
                list.pop(old.outputs, position)
                break
        list.append(tensor.outputs, node)


def replace_output(node: Any, index: int, tensor: Any) -> None:
    """Makes output `index` of a node write another tensor."""
    old = node.outputs[index]
    list.__setitem__(node.outputs, index, tensor)
    _drop(old.inputs, node)
    list.append(tensor.inputs, node)


def replace_uses(old: Any, new: Any) -> list[Any]:
    """Makes every reader of `old` read `new`; returns the readers."""
    users = list({id(node): node for node in old.outputs}.values())
    for node in users:
        for index, tensor in enumerate(node.inputs):
            if tensor is old:
                list.__setitem__(node.inputs, index, new)
                list.append(new.outputs, node)
    list.clear(old.outputs)
    return users


def make_constant(tensor: Any, values: np.ndarray | SourceValues) -> None:
    """Turns a variable that nothing produces into a constant of the same name."""
    for attribute in ("dtype", "shape", "type"):
        tensor.__dict__.pop(attribute, None)
    tensor.__class__ = gs.Constant
    tensor._values = values
    tensor.data_location = None
    tensor._export_dtype = None


def is_constant(tensor: Any) -> bool:
    """Whether a tensor is a constant; does not read its values."""
    return isinstance(tensor, gs.Constant)


def constant_of(tensor: Any) -> np.ndarray | None:
    """A constant tensor's values, None for a variable."""
    return array_of(tensor) if isinstance(tensor, gs.Constant) else None


def value_of(node: Any) -> np.ndarray | None:
    """What a Constant node gives, None for another node."""
    tensor = constant_value(node.proto) if node.op == "Constant" and not node.domain else None
    return None if tensor is None else onnx.numpy_helper.to_array(tensor)


def _drop(members: Any, node: Any) -> None:
    kept = [member for member in members if member is not node]
    list.clear(members)
    list.extend(members, kept)


def tensor_shape(tensor: Any) -> Shape | None:
    """A tensor's dimensions; what graphsurgeon gives as empty or negative is unknown."""
    shape = tensor.shape
    if shape is None:
        return None
    return tuple(None if dim == "" or (isinstance(dim, int) and dim < 0) else dim for dim in shape)


def element_count(tensor: Any) -> int:
    """The number of elements of a constant."""
    return math.prod(int(d) for d in tensor.shape)
