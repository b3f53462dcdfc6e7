"""Element types that follow from a node's other operands: what shares a type variable has one type.

ONNX's inference knows nothing of what an operator of another domain gives (com.microsoft's attention, say),
nor of what is computed from that. Its own operators tell: what is multiplied by float16 weights is float16.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.base.grouped import grouped
from onnxq.graph.topology import Topology


def spread_types(model: Topology) -> None:
    """Gives tensors of unknown type that of the operands that they share a type variable with."""
    todo = [bound for graph in model.graphs() for node in graph.nodes for bound in _open(node, model.opset)]
    while todo:
        left = [bound for bound in todo if not _bind(bound)]
        if len(left) == len(todo):
            return
        todo = left


def _open(node: Any, opset: int) -> list[list[Any]]:
    """The tensors of each type variable of a node, where some are of known type and some are not."""
    if (node.domain or "") not in ("", "ai.onnx"):
        return []
    if all(tensor.dtype is not None for tensor in (*node.inputs, *node.outputs) if tensor.name):
        return []
    sides = zip((node.inputs, node.outputs), _variables(node.op, opset), strict=True)
    bound = grouped(
        (formal[min(index, len(formal) - 1)], tensor)
        for tensors, formal in sides
        for index, tensor in enumerate(tensors)
        if formal and tensor.name
    )
    bound.pop(None, None)
    return [tensors for tensors in bound.values() if any(tensor.dtype is None for tensor in tensors)]


def _bind(tensors: Sequence[Any]) -> bool:
    """Gives all of them the type of those that have one; returns whether there is one."""
    dtypes: list[np.dtype] = [tensor.dtype for tensor in tensors if tensor.dtype is not None]
    for tensor in tensors:
        if dtypes and tensor.dtype is None and isinstance(tensor, gs.Variable):
            tensor.dtype = dtypes[0]
    return bool(dtypes)


@functools.cache
def _variables(op: str, opset: int) -> tuple[Sequence[str | None], Sequence[str | None]]:
    """The type variable of each input and each output of an operator; None for what has its own type."""
    if not onnx.defs.has(op, opset, ""):
        return (), ()
    schema = onnx.defs.get_schema(op, opset, "")
    names = {constraint.type_param_str for constraint in schema.type_constraints}

    def of(formal: Sequence[Any]) -> tuple[str | None, ...]:
        return tuple(one.type_str if one.type_str in names and one.is_homogeneous else None for one in formal)

    return of(schema.inputs), of(schema.outputs)
