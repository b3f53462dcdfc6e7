"""What stays float32 by what is known before the body has run, and why.

Ranges that the type does not reach, by calibration; long sums; what normalizes, and powers; numbers that
count, index or measure. Judged are operators, sizes and ranges alone; `measured_body.py` runs the body.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.base.reason import Reason, reason
from onnxq.body.bounds import Ranges, bounds, is_float32
from onnxq.body.formats import DTYPES, Kind, highest
from onnxq.body.masks import Masks, find_masks
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.types import float_info
from onnxq.graph.view import Tensor
from onnxq.graph.wiring import constant_of, is_constant

MARGIN = 4.0
"""How many times further than in calibration a tensor may go in use."""

_SUMS = (
    "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceProd", "GlobalAveragePool", "GlobalLpPool", "CumSum",
)  # fmt: skip
_NORMS = ("ReduceL2", "ReduceSumSquare")
_POWERS = ("Pow", "Exp", "Log", "Expm1", "Sinh", "Cosh", "Tan")
_CHEAP = (
    *MOVES, *_POWERS, "Concat", "Add", "Sub", "Mul", "Div", "Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt",
    "Reciprocal", "Max", "Min", "Clip", "Where", "Relu", "Sigmoid", "Tanh", "Mod", "Sum", "Sign", "Cast",
    "Sin", "Cos",
)  # fmt: skip
"""Elementwise operators and moves, through which numbers are followed."""

_SPREAD = ("Add", "Sub", "Sqrt", "Reciprocal", "Pow", "Max", "Min", "Clip", "Div", "Mul", *MOVES)
"""What follows a mean of squares up to the division by its root."""


@dataclass(frozen=True, slots=True)
class Islands:
    """What stays float32.

    Attributes:
        stays: the names of the nodes, and why.
        masks: the masks, which need not.
        without_range: the names of the tensors that nothing is known of.
        float32_io: the inputs and outputs that the type does not reach, and why.
    """

    stays: Mapping[str, Reason]
    masks: Masks
    without_range: tuple[str, ...]
    float32_io: Mapping[str, Reason]


def islands(model: Model, kind: Kind, ranges: Ranges) -> Islands:
    """What stays float32 in a body of half precision.

    Args:
        model: the float32 model.
        kind: the type of the body.
        ranges: what calibration measured, by tensor: of `onnxq.body.bounds.needed`, as far as it did.
    """
    return _Islands(model, kind, ranges).found()


class _Islands:
    def __init__(self, model: Model, kind: Kind, ranges: Ranges) -> None:
        self.model, self.kind = model, kind
        self.bounds = bounds(model, ranges)
        self.masks = find_masks(model, kind, self.bounds)
        self.nodes = [node for graph in model.graphs() for node in graph.nodes]
        self.stays: dict[str, Reason] = {}
        self.unknown: list[str] = []
        self.float32_io: dict[str, Reason] = {}
        self.most = 2 ** (float_info(DTYPES[kind]).nmant + 1)

    def found(self) -> Islands:
        own = [node for node in self.nodes if node.domain in (None, "", "ai.onnx")]
        for node in own:
            self._normalizes(node)
        for node in own:
            self._judge(node)
        self._indices()
        self._positions()
        self._ranges()
        self._close()
        return Islands(self.stays, self.masks, tuple(self.unknown), self.float32_io)

    def _stay(self, nodes: Iterable[Any], why: Reason) -> None:
        for node in nodes:
            if any(is_float32(tensor) for tensor in (*node.inputs, *node.outputs)):
                self.stays.setdefault(node.name, why)

    # -- operators ----------------------------------------------------------------------------------

    def _normalizes(self, node: Any) -> None:
        squares = _square(node) if node.op in ("ReduceMean", "ReduceSum") else None
        if squares is not None or node.op in _NORMS:
            why = reason("normalization", node=node.name)
            self._stay(_normalization(node, squares), why)

    def _judge(self, node: Any) -> None:
        if node.op in _POWERS:
            why = reason("power", op=node.op)
            self._stay([node], why)
        terms = self._terms(node) if node.op in _SUMS else 0
        if terms is None:
            self._stay([node], reason("long-sum.unknown"))
        elif terms > self.most:
            why = reason("long-sum", terms=terms, dtype=DTYPES[self.kind], most=self.most)
            self._stay([node], why)

    def _terms(self, node: Any) -> int | None:
        """How many elements make one of what a node gives; None where a size is not known."""
        shape = Tensor(self.model, node.inputs[0]).typical_shape
        if shape is None:
            return None
        axes = list(range(2, len(shape))) if node.op.startswith("Global") else _axes(node, len(shape))
        sizes = [shape[axis] for axis in axes or ()]
        if axes is None or not all(isinstance(size, int) for size in sizes):
            return None
        return math.prod(size for size in sizes if isinstance(size, int))

    # -- numbers that count, index or measure ---------------------------------------------------------

    def _indices(self) -> None:
        """What is computed in floats to become an index, a size or a scale."""
        for node in self.nodes:
            if node.op == "Cast" and is_float32(node.inputs[0]) and _is_whole(node.outputs[0]):
                why = reason("index", node=node.name)
                self._stay([node, *_computing(node.inputs[0])], why)
            for index in {"Resize": (1, 2), "Upsample": (1,), "Range": (0, 1, 2)}.get(node.op, ()):
                if index < len(node.inputs) and is_float32(node.inputs[index]):
                    why = reason("index.size", op=node.op, node=node.name)
                    self._stay(_computing(node.inputs[index]), why)

    def _positions(self) -> None:
        """Whole numbers that the type rounds, and what is computed of them alone."""
        of: dict[int, Reason] = {}
        for node in self.nodes:
            whole = node.op == "Cast" and _is_whole(node.inputs[0])
            if node.op == "Range" and is_float32(node.outputs[0]):
                why = reason("position.range")
            elif whole and is_float32(node.outputs[0]):
                bound = self.bounds.get(id(node.outputs[0]))
                if bound is not None and bound * MARGIN <= self.most:
                    continue
                code = "position.unknown" if bound is None else "position"
                why = reason(code, bound=bound, dtype=DTYPES[self.kind], most=self.most)
            else:
                read = [t for t in node.inputs if is_float32(t) and not is_constant(t)]
                alone = bool(read) and all(id(t) in of for t in read)
                if not alone or node.op not in _CHEAP or node.domain:
                    continue
                why = of[id(read[0])]
            of.update((id(tensor), why) for tensor in node.outputs if is_float32(tensor))
            self._stay([node], why)

    # -- ranges -------------------------------------------------------------------------------------

    def _ranges(self) -> None:
        """Tensors that the type does not reach, or of which nothing is known: who makes and reads them."""
        end = highest(self.kind)
        tensors = {id(t): t for t in self.model.graph.inputs}
        tensors.update((id(t), t) for node in self.nodes for t in node.outputs)
        ends = {id(t) for t in (*self.model.graph.inputs, *self.model.graph.outputs)}
        for tensor in tensors.values():
            if not is_float32(tensor):
                continue
            bound = self.bounds.get(id(tensor))
            nodes = [] if tensor.name in self.masks.tensors else [*tensor.inputs, *tensor.outputs]
            if bound is None or math.isnan(bound):
                if self.kind == "bf16" or all(node.name in self.stays for node in nodes):
                    continue  # it has the range of float32
                self.unknown.append(tensor.name)
                self._stay(nodes, reason("no-range", tensor=tensor.name))
            elif bound * MARGIN > end:
                code = f"range.{self.kind}-in-use" if bound <= end else f"range.{self.kind}"
                why = reason(code, tensor=tensor.name, bound=bound, margin=MARGIN, end=end)
                self._stay(nodes, why)
                if id(tensor) in ends:
                    self.float32_io[tensor.name] = why

    # -- few casts ----------------------------------------------------------------------------------

    def _close(self) -> None:
        """Leaves float32 what is cheap and stands between such nodes: it would take two casts."""
        changed = True
        while changed:
            changed = False
            for node in self.nodes:
                if node.name in self.stays or node.op not in _CHEAP or node.domain:
                    continue
                makers = [m for t in node.inputs if is_float32(t) for m in t.inputs]
                readers = [reader for t in node.outputs if is_float32(t) for reader in t.outputs]
                around = [*makers, *readers]
                if makers and readers and all(one.name in self.stays for one in around):
                    self._stay([node], reason("between.as", node=makers[0].name))
                    changed = True


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor holds whole numbers."""
    return tensor.dtype is not None and np.dtype(tensor.dtype).kind in "iu"


def _square(node: Any) -> Any | None:
    """The node whose squares are averaged or summed."""
    for producer in node.inputs[0].inputs:
        if producer.op == "Mul" and producer.inputs[0] is producer.inputs[1]:
            return producer
        if producer.op == "Pow" and is_constant(producer.inputs[1]):
            values = constant_of(producer.inputs[1])
            if values is not None and values.size == 1 and values.reshape(-1)[0] == 2:
                return producer
    return None


def _normalization(node: Any, square: Any | None) -> list[Any]:
    """What computes a mean, the deviations, their squares, and divides by the root of the mean of those."""
    nodes = {id(node): node} if square is None else {id(square): square, id(node): node}
    for deviation in (square or node).inputs[0].inputs:
        if deviation.op == "Sub":
            nodes[id(deviation)] = deviation
            means = [p for t in deviation.inputs for p in t.inputs if p.op in ("ReduceMean", "ReduceSum")]
            nodes.update((id(mean), mean) for mean in means)
    small = {id(tensor) for tensor in node.outputs}
    stack = [reader for tensor in node.outputs for reader in tensor.outputs]
    while stack:
        reader = stack.pop()
        if id(reader) in nodes or reader.op not in _SPREAD or reader.domain:
            continue
        nodes[id(reader)] = reader
        computed = [t for t in reader.inputs if is_float32(t) and not is_constant(t)]
        if all(id(tensor) in small for tensor in computed):  # it is still the statistics alone
            small.update(id(tensor) for tensor in reader.outputs)
            stack += [one for tensor in reader.outputs for one in tensor.outputs]
    return list(nodes.values())


def _computing(tensor: Any) -> list[Any]:
    """The cheap nodes that compute a tensor, back to what is none."""
    nodes: dict[int, Any] = {}
    stack = [tensor]
    while stack:
        for node in stack.pop().inputs:
            if id(node) not in nodes and node.op in _CHEAP and not node.domain:
                nodes[id(node)] = node
                stack += [t for t in node.inputs if is_float32(t)]
    return list(nodes.values())


def _axes(node: Any, rank: int) -> list[int] | None:
    """The axes that a node reduces; None where they are not known."""
    stated: Any = None
    for attribute in node.proto.attribute:
        if attribute.name == "axes":
            stated = list(attribute.ints)
    if len(node.inputs) > 1 and node.inputs[1].name:
        if not is_constant(node.inputs[1]):
            return None
        values = constant_of(node.inputs[1])
        stated = np.asarray(values).reshape(-1).tolist()
    if not stated:
        return list(range(rank))
    return [int(axis) % rank for axis in stated] if rank else []
