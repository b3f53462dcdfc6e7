"""Constants that an edit gives to nodes: collected while it is looked whether all fits, then written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.graph.wiring import replace_input
from onnxq.repair.found_edits import NoFit


class Writer:
    """What inputs of nodes become.

    Values are float64 until they are written, in the type of what they stand for: an edit that changes a
    constant twice rounds it once.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._given: dict[tuple[str, int], tuple[Node, np.ndarray, bool]] = {}
        self._ops: dict[str, tuple[Node, str, list[np.ndarray], Mapping[str, Any]]] = {}

    def copy(self) -> Writer:
        """Another one that was given the same."""
        twin = Writer(self.model)
        twin._given, twin._ops = dict(self._given), dict(self._ops)
        return twin

    @property
    def given(self) -> Iterator[tuple[Node, int, np.ndarray]]:
        """The node, the input and the new values, float64, of each constant."""
        yield from ((node, index, values) for (_, index), (node, values, _) in self._given.items())

    def value(self, node: Node, index: int) -> np.ndarray | None:
        """The constant that an input is by now, float64; None where it is none, or left out.

        Raises:
            NoFit: it holds NaN or infinities.
        """
        if (node.name, index) in self._given:
            return self._given[node.name, index][1]
        tensor = node.operands(index + 1)[index]
        if tensor is None or not tensor.is_constant:
            return None
        values = tensor.constant
        if values is None or values.dtype.kind in "iubO":
            return None
        wide: np.ndarray = values.astype(np.float64)
        if not np.isfinite(wide).all():
            raise NoFit("not-finite.tensor", tensor=tensor.name)
        return wide

    def has(self, node: Node, index: int) -> bool:
        """Whether an input is there by now."""
        return (node.name, index) in self._given or node.operands(index + 1)[index] is not None

    def put(self, node: Node, index: int, values: np.ndarray, *, weight: bool = False) -> None:
        """Makes an input a constant.

        Args:
            node: the node.
            index: which input; at most one more than it has.
            values: float64.
            weight: whether the constant keeps its name, and what reads it.
        """
        self._given[node.name, index] = (node, values, weight)

    def remake(
        self, node: Node, op: str, constants: list[np.ndarray], attrs: Mapping[str, Any] | None = None
    ) -> None:
        """Makes a node another one with the same name, first input and output, and these further inputs."""
        self._ops[node.name] = (node, op, constants, attrs or {})

    def check(self, *, exact: bool = False) -> None:
        """Looks whether all can be written.

        Args:
            exact: whether no value may be rounded.

        Raises:
            NoFit: something else reads weights that are to change, values leave the range of their type, or
                are rounded.
        """
        for (_, index), (node, values, weight) in self._given.items():
            dtype = _dtype(node, index)
            with np.errstate(over="ignore", under="ignore"):
                written = values.astype(dtype)
            if not np.isfinite(written).all() or (exact and not np.array_equal(written, values)):
                raise NoFit("half-range.type", node=node.name, dtype=dtype)
            if weight:
                self._check_readers(node, index)

    def commit(self) -> None:
        """Writes all.

        Raises:
            NoFit: as `check`; nothing is written then.
        """
        self.check()
        for (_, index), (node, values, weight) in self._given.items():
            with np.errstate(under="ignore"):
                written = values.astype(_dtype(node, index))
            if weight:
                constant = node.node.inputs[index]
                constant._values = self.model.constant("", written)._values
            else:
                self._give(node, index, written)
        for node, op, constants, attrs in self._ops.values():
            self._remake(node, op, constants, attrs)

    def _check_readers(self, node: Node, index: int) -> None:
        tensor = node.inputs[index]
        assert tensor is not None
        values = self._given[node.name, index][1]
        for user in tensor.users:
            for place, read in enumerate(user.inputs):
                change = self._given.get((user.name, place))
                if read == tensor and (change is None or not np.array_equal(change[1], values)):
                    raise NoFit("weights-of-several.node", node=user.name, tensor=tensor.name)
            if user.has_body:
                raise NoFit("weights-of-several.node", node=user.name, tensor=tensor.name)
        if tensor.is_output:
            raise NoFit("is-output.weights", tensor=tensor.name)

    def _give(self, node: Node, index: int, values: np.ndarray) -> None:
        old = node.operands(index + 1)[index]
        inputs = node.node.inputs
        only = old is not None and sum(one is old.tensor for user in old.users for one in user.node.inputs)
        if old is not None and only == 1 and old.is_constant and not old.is_output:
            old.tensor._values = self.model.constant("", values)._values
            return
        base = old.name if old is not None else f"{node.name}_bias"
        new = self.model.new_constant(base, values)
        if index < len(inputs):
            replace_input(node.node, index, new)
        else:
            inputs.append(new)

    def _remake(self, node: Node, op: str, constants: list[np.ndarray], attrs: Mapping[str, Any]) -> None:
        raw = node.node
        first = raw.inputs[0]
        for index in reversed(range(len(raw.inputs))):
            del raw.inputs[index]
        raw.inputs.append(first)
        for place, values in enumerate(constants):
            raw.inputs.append(self.model.new_constant(f"{node.name}_{place + 1}", values))
        raw.op, raw.domain = op, None
        raw.proto = onnx.helper.make_node(op, [], [], **dict(attrs))


def _dtype(node: Node, index: int) -> np.dtype:
    """The type of an input: its own, else that of the first."""
    old = node.operands(index + 1)[index]
    tensor = old if old is not None and old.dtype is not None else node.inputs[0]
    assert tensor is not None
    assert tensor.dtype is not None
    return tensor.dtype
