"""What stays float32 by what is known before the body has run, and why.

Ranges that the type does not reach, by calibration; long sums; what normalizes, and powers; numbers that
count, index or measure. Judged are operators, sizes and ranges alone; `measured_body.py` runs the body.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np

from onnxq.base.grouped import reached
from onnxq.base.reason import Reason, reason
from onnxq.body.bounds import Ranges, bounds, is_float32, magnitude
from onnxq.body.formats import DTYPES, MASKED, Kind, highest
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.types import float_info
from onnxq.graph.view import Node, Tensor, every_node

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
        self.nodes = [*every_node(model)]
        self.stays: dict[str, Reason] = {}
        self.unknown: list[str] = []
        self.float32_io: dict[str, Reason] = {}
        self.most = 2 ** (float_info(DTYPES[kind]).nmant + 1)

    def found(self) -> Islands:
        own = [node for node in self.nodes if not node.domain]
        for node in own:
            self._normalizes(node)
        for node in own:
            self._judge(node)
        self._indices()
        self._positions()
        self._ranges()
        self._close()
        return Islands(self.stays, self.masks, tuple(self.unknown), self.float32_io)

    def _stay(self, nodes: Iterable[Node], why: Reason) -> None:
        for node in nodes:
            if any(is_float32(tensor) for tensor in (*node.inputs, *node.outputs)):
                self.stays.setdefault(node.name, why)

    # -- operators ----------------------------------------------------------------------------------

    def _normalizes(self, node: Node) -> None:
        squares = _square(node) if node.op in ("ReduceMean", "ReduceSum") else None
        if squares is not None or node.op in _NORMS:
            why = reason("normalization", node=node.name)
            self._stay(_normalization(node, squares), why)

    def _judge(self, node: Node) -> None:
        if node.op in _POWERS:
            why = reason("power", op=node.op)
            self._stay([node], why)
        terms = self._terms(node) if node.op in _SUMS else 0
        if terms is None:
            self._stay([node], reason("long-sum.unknown"))
        elif terms > self.most:
            why = reason("long-sum", terms=terms, dtype=DTYPES[self.kind], most=self.most)
            self._stay([node], why)

    def _terms(self, node: Node) -> int | None:
        """How many elements make one of what a node gives; None where a size is not known."""
        shape = None if node.inputs[0] is None else node.inputs[0].typical_shape
        if shape is None:
            return None
        axes = list(range(2, len(shape))) if node.op.startswith("Global") else _axes(node, len(shape))
        sizes = [shape[axis] for axis in axes or ()]
        if axes is None or not all(isinstance(size, int) for size in sizes):
            return None
        return math.prod(size for size in sizes if isinstance(size, int))

    # -- numbers that count, index or measure ---------------------------------------------------------

    def _indices(self) -> None:
        """What is computed in floats to become an index, a size or a scale: of sizes by any operator."""
        sizes = _of_sizes(self.nodes)
        for node in self.nodes:
            if node.op == "Cast" and is_float32(node.inputs[0]) and _is_whole(node.outputs[0]):
                why = reason("index", node=node.name)
                self._stay([node, *_computing(node.inputs[0], sizes)], why)
            for index in {"Resize": (1, 2), "Upsample": (1,), "Range": (0, 1, 2)}.get(node.op, ()):
                if index < len(node.inputs) and is_float32(node.inputs[index]):
                    why = reason("index.size", op=node.op, node=node.name)
                    self._stay(_computing(node.inputs[index], sizes), why)

    def _positions(self) -> None:
        """Whole numbers that the type rounds, and what is computed of them alone."""
        of: dict[Tensor, Reason] = {}
        for node in self.nodes:
            whole = node.op == "Cast" and _is_whole(node.inputs[0])
            if node.op == "Range" and is_float32(node.outputs[0]):
                why = reason("position.range")
            elif whole and is_float32(node.outputs[0]):
                bound = self.bounds.get(node.outputs[0])
                if bound is not None and bound * MARGIN <= self.most:
                    continue
                code = "position.unknown" if bound is None else "position"
                why = reason(code, bound=bound, dtype=DTYPES[self.kind], most=self.most)
            else:
                read = _computed(node)
                alone = bool(read) and all(tensor in of for tensor in read)
                if not alone or node.op not in _CHEAP or node.domain:
                    continue
                why = of[read[0]]
            of.update((tensor, why) for tensor in node.outputs if is_float32(tensor))
            self._stay([node], why)

    # -- ranges -------------------------------------------------------------------------------------

    def _ranges(self) -> None:
        """Tensors that the type does not reach, or of which nothing is known: who makes and reads them."""
        end = highest(self.kind)
        made = (tensor for node in self.nodes for tensor in node.outputs)
        ends = {*self.model.inputs, *self.model.outputs}
        for tensor in dict.fromkeys((*self.model.inputs, *made)):
            if not is_float32(tensor):
                continue
            bound = self.bounds.get(tensor)
            nodes = [] if tensor.name in self.masks.tensors else _around(tensor)
            if bound is None or math.isnan(bound):
                if self.kind == "bf16" or all(node.name in self.stays for node in nodes):
                    continue  # it has the range of float32
                self.unknown.append(tensor.name)
                self._stay(nodes, reason("no-range", tensor=tensor.name))
            elif bound * MARGIN > end:
                code = f"range.{self.kind}-in-use" if bound <= end else f"range.{self.kind}"
                why = reason(code, tensor=tensor.name, bound=bound, margin=MARGIN, end=end)
                self._stay(nodes, why)
                if tensor in ends:
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
                read = (t.producer for t in node.inputs if t is not None and is_float32(t))
                makers = [maker for maker in read if maker is not None]
                readers = [reader for t in node.outputs if is_float32(t) for reader in t.users]
                if makers and readers and all(one.name in self.stays for one in (*makers, *readers)):
                    self._stay([node], reason("between.as", node=makers[0].name))
                    changed = True


def _is_whole(tensor: Tensor | None) -> bool:
    """Whether a tensor holds whole numbers."""
    return tensor is not None and tensor.dtype is not None and tensor.dtype.kind in "iu"


def _maker(tensor: Tensor | None) -> Node | None:
    return None if tensor is None else tensor.producer


def _around(tensor: Tensor) -> list[Node]:
    """The nodes that make and read a tensor."""
    return [*filter(None, [tensor.producer]), *tensor.users]


def _computed(node: Node) -> list[Tensor]:
    """The float32 tensors that a node reads, without constants."""
    return [one for one in node.inputs if one is not None and is_float32(one) and not one.is_constant]


def _square(node: Node) -> Node | None:
    """The node whose squares are averaged or summed."""
    producer = _maker(node.inputs[0])
    if producer is None:
        return None
    if producer.op == "Mul" and producer.inputs[0] == producer.inputs[1]:
        return producer
    exponent = producer.inputs[1] if producer.op == "Pow" else None
    return producer if exponent is not None and exponent.scalar == 2 else None


def _normalization(node: Node, square: Node | None) -> list[Node]:
    """What computes a mean, the deviations, their squares, and divides by the root of the mean of those."""
    nodes = dict.fromkeys([node] if square is None else [square, node])
    deviation = _maker((square or node).inputs[0])
    if deviation is not None and deviation.op == "Sub":
        makers = [one for one in map(_maker, deviation.inputs) if one is not None]
        means = [one for one in makers if one.op in ("ReduceMean", "ReduceSum")]
        nodes.update(dict.fromkeys([deviation, *means]))
    small = {*node.outputs}
    stack = [reader for tensor in node.outputs for reader in tensor.users]
    while stack:
        reader = stack.pop()
        if reader in nodes or reader.op not in _SPREAD or reader.domain:
            continue
        nodes[reader] = None
        if small.issuperset(_computed(reader)):  # it is still the statistics alone
            small.update(reader.outputs)
            stack += [one for tensor in reader.outputs for one in tensor.users]
    return list(nodes)


def _of_sizes(nodes: Iterable[Node]) -> set[Node]:
    """The nodes that compute with sizes alone, and constants."""
    found: set[Node] = set()
    for node in nodes:
        read = [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]
        if node.op in ("Shape", "Size") or (read and all(_maker(tensor) in found for tensor in read)):
            found.add(node)
    return found


def _computing(tensor: Tensor | None, sizes: Set[Node]) -> list[Node]:
    """The nodes that compute a tensor, those of `sizes` and cheap ones, back to what is neither."""
    nodes: dict[Node, None] = {}
    stack = [tensor]
    while stack:
        node = _maker(stack.pop())
        if node is None or node in nodes or node.domain:
            continue
        if node.op in _CHEAP or node in sizes:
            nodes[node] = None
            stack += [t for t in node.inputs if is_float32(t)]
    return list(nodes)


def _axes(node: Node, rank: int) -> list[int] | None:
    """The axes that a node reduces; None where they are not known."""
    stated, given = node.attr("axes"), node.operands(2)[1]
    if given is not None:
        values = given.constant
        if values is None:
            return None
        stated = values.reshape(-1).tolist()
    if not stated:
        return list(range(rank))
    return [int(axis) % rank for axis in stated] if rank else []


# Masks: constants like -1e9 that only say which entries a Softmax is to leave out.
#
# Half precision does not hold them, and need not: any number far below the scores does the same. So the
# scores may be of half precision, and their attention fused.

_HAND_ON = (*MOVES, "Cast", "Concat", "Where", "Trilu", "Max")
_SOFTMAX = ("Softmax", "LogSoftmax")

_SCORES = MASKED / 8
"""The greatest score that a mask may be added to."""


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of a model.

    Attributes:
        sources: the names of the constants that hold one, of what a ConstantOfShape gives, and of inputs.
        tensors: the names of the tensors that they are in, up to the Softmax.
    """

    sources: frozenset[str]
    tensors: frozenset[str]


def find_masks(model: Model, kind: Kind, bounds: Mapping[Tensor, float]) -> Masks:
    """The masks that a type cannot hold.

    Args:
        model: a model.
        kind: the type.
        bounds: the greatest magnitude of its tensors.
    """
    flows = {source: _flow(source) for source in _beyond(model, kind, bounds)}
    while True:  # they may be added to each other
        tensors = set[Tensor]().union(*flows.values())
        right = {source: flow for source, flow in flows.items() if _is_mask(flow, tensors, bounds)}
        if len(right) == len(flows):
            break
        flows = right
    return Masks(frozenset(one.name for one in flows), frozenset(one.name for one in tensors))


def _beyond(model: Model, kind: Kind, bounds: Mapping[Tensor, float]) -> Iterator[Tensor]:
    """The constants, what a ConstantOfShape gives and the inputs that a type cannot hold."""
    yield from (t for t in model.inputs if is_float32(t) and bounds.get(t, 0.0) > highest(kind))
    for node in every_node(model):
        for tensor in node.inputs:
            if (
                tensor is not None
                and tensor.is_constant
                and is_float32(tensor)
                and _reach(tensor) > highest(kind)
            ):
                yield tensor
        if node.op == "ConstantOfShape" and bounds.get(node.outputs[0], 0.0) > highest(kind):
            yield node.outputs[0]


def _reach(constant: Tensor) -> float:
    """The greatest magnitude of a constant, infinity too, which half precision holds but a range does not."""
    values = constant.constant
    if values is None:
        return 0.0
    high, low = (float(end.reduce(values, axis=None, initial=0.0)) for end in (np.fmax, np.fmin))
    return max(high, -low)


def _flow(source: Tensor) -> set[Tensor]:
    """The tensors that are computed from one, up to a Softmax."""

    def made(tensor: Tensor) -> Iterator[Tensor]:
        readers = (node for node in tensor.users if node.op not in _SOFTMAX)
        return (out for node in readers for out in node.outputs if out.name)

    return set(reached([source], made))


def _is_mask(flow: Set[Tensor], tensors: Set[Tensor], bounds: Mapping[Tensor, float]) -> bool:
    """Whether all that a constant reaches is masked entries among scores, for a Softmax."""
    if any(tensor.is_output or not tensor.users for tensor in flow):
        return False
    readers = {node for tensor in flow for node in tensor.users}
    return all((node.op in _SOFTMAX and not node.domain) or _keeps(node, tensors, bounds) for node in readers)


def _keeps(node: Node, tensors: Set[Tensor], bounds: Mapping[Tensor, float]) -> bool:
    """Whether what a node makes of a mask is one too: masked entries, and others that are scores."""
    if node.domain:
        return False
    others = [t for t in node.inputs if t is not None and is_float32(t) and t not in tensors]
    sizes = [magnitude(t) if t.is_constant else bounds.get(t) for t in others]
    if node.op == "Mul":  # of 0 and 1
        return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= 1
    if node.op not in (*_HAND_ON, "Add", "Sub"):
        return False
    return all(size is not None and size <= _SCORES for size in sizes)
