"""New nodes as expressions: `op.Clip(x, low, high)` is a value whose node does not exist yet."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from onnxq.graph.view import Node, Value

_OPERANDS = (Value, np.ndarray, np.generic, int, float, bool)
Operand = Value | np.ndarray | np.generic | int | float | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class NewNode:
    """A node that does not exist yet.

    Attributes:
        op: the operator, one of ONNX's own.
        inputs: values, constants (arrays), Python numbers (which take the dtype of the operands that
            share their type variable in the operator's schema), or None for one that is left out.
        attrs: the attributes.
        outputs: the number of outputs.
        like: the node that it stands in for, whose name and constants' names it keeps, or None.
    """

    op: str
    inputs: tuple[Operand, ...]
    attrs: Mapping[str, Any]
    outputs: int = 1
    like: Node | None = None


class Result(Value):
    """An output of a node that does not exist yet."""

    __slots__ = ("index", "node")

    def __init__(self, node: NewNode, index: int = 0) -> None:
        self.node = node
        self.index = index


class _Builder:
    """`op.NAME(inputs..., attribute=value...)` for each of ONNX's own operators."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not onnx.defs.has(name):
            raise AttributeError(f"ONNX has no operator {name!r}")
        return functools.partial(self._build, name)

    def _build(self, op: str, *inputs: Operand, outputs: int = 1, **attrs: Any) -> Any:
        unknown = set(attrs) - _attribute_names(op)
        if unknown:
            raise AttributeError(f"{op} has no attribute {sorted(unknown)[0]!r}")
        node = NewNode(op, inputs, {k: v for k, v in attrs.items() if v is not None}, outputs)
        return Result(node) if outputs == 1 else tuple(Result(node, i) for i in range(outputs))


op = _Builder()
"""Builds values: `op.Relu(x)` is the result of a Relu node that does not exist yet."""


def remake(node: Node, *inputs: Operand, outputs: int = 1, **attrs: Any) -> Any:
    """The same operator, with its attributes and its name, on other inputs.

    Args:
        node: the node that it stands in for.
        inputs: what it reads.
        outputs: how many outputs it has.
        attrs: attributes that are other ones; None for one that goes.

    Returns:
        A value, or a tuple of them where it has several outputs.
    """
    kept = {name: value for name, value in {**node.attrs, **attrs}.items() if value is not None}
    new = NewNode(node.op, inputs, kept, outputs, node)
    return Result(new) if outputs == 1 else tuple(Result(new, index) for index in range(outputs))


@functools.cache
def _attribute_names(op: str) -> frozenset[str]:
    return frozenset(
        name
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op and schema.domain == ""
        for name in schema.attributes
    )


def constant_operands(node: NewNode, opset: int, dtypes: list[np.dtype | None]) -> list[np.ndarray | None]:
    """The arrays of a new node's numeric inputs, None for the other inputs.

    A Python number takes the dtype of an operand that shares its type variable in the schema of
    this opset, else bool, int64 or float32.

    Args:
        node: the node.
        opset: the model's opset.
        dtypes: the dtype of each input that is a value.

    Raises:
        ValueError: the operator does not exist in this opset, or takes fewer inputs.
    """
    if not onnx.defs.has(node.op, opset, ""):
        raise ValueError(f"opset {opset} has no operator {node.op}")
    schema = onnx.defs.get_schema(node.op, opset, "")
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        raise ValueError(f"{node.op} takes {schema.min_input} to {schema.max_input} inputs")
    unknown = set(node.attrs) - set(schema.attributes)
    if unknown:
        raise ValueError(f"{node.op} of opset {opset} has no attribute {sorted(unknown)[0]!r}")
    formal = list(schema.inputs)
    letters = [formal[min(i, len(formal) - 1)].type_str for i in range(len(node.inputs))]
    known = {letter: dtype for letter, dtype in zip(letters, dtypes, strict=True) if dtype is not None}
    arrays: list[np.ndarray | None] = []
    for letter, operand in zip(letters, node.inputs, strict=True):
        if isinstance(operand, np.ndarray | np.generic):
            arrays.append(np.asarray(operand))
        elif isinstance(operand, bool | int | float):
            fallback = np.dtype(np.float32 if isinstance(operand, float) else np.int64)
            if isinstance(operand, bool):
                fallback = np.dtype(bool)
            arrays.append(np.array(operand, known.get(letter, fallback)))
        else:
            arrays.append(None)
    return arrays


def validate(value: Operand, opset: int) -> None:
    """Checks the new nodes of a value, all the way to what is there already.

    Raises:
        ValueError: an operator, an attribute or a number of inputs that this opset does not have.
        TypeError: an operand or an attribute of a type that ONNX does not have.
    """
    seen: set[int] = set()
    todo = [value]
    while todo:
        operand = todo.pop()
        if isinstance(operand, Result) and id(operand.node) not in seen:
            node = operand.node
            seen.add(id(node))
            dtypes = [one.dtype if isinstance(one, Value) else None for one in node.inputs]
            constant_operands(node, opset, dtypes)
            onnx.helper.make_node(node.op, [], [], **dict(node.attrs))
            todo += node.inputs
        elif not (operand is None or isinstance(operand, _OPERANDS)):
            raise TypeError(f"{type(operand).__name__} is no operand")
