"""What an engine moves, predicted from shapes: what a step of repair costs, before anything is compiled.

What is computed element by element runs at the end of the kernel whose result nobody else reads; all else has
a kernel of its own. What only puts values in another place moves nothing. A tensor that leaves its kernel is
written once for each type in which it is read, and read by each kernel that reads it: a byte an element where
a pair is in between, else two. Where number formats meet nothing else is moved: what ends a kernel writes
either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.quant.plan import QuantPlan
from onnxq.repair.activation import ELEMENTWISE

_HALF, _WHOLE = "half", "whole"
_BYTES = {_HALF: 2, _WHOLE: 4}
"""Bytes of an element: of a body in half precision, of inputs and outputs; of a number format it is one."""

_IN_PLACE = frozenset({*REARRANGES, "Concat"} - {"Transpose"})


def engine_bytes(model: Model, plan: QuantPlan) -> int:
    """The bytes that an engine moves in a run, its weights included, about; of tensors of a known size.

    Args:
        model: the float model, with its edits.
        plan: what is quantized in it; an empty one: nothing, which is plain float16.
    """
    codes = {(edge.node, edge.input): site.format for site in plan.sites for edge in site.readers}
    products, kernels = set[int](), dict[str, int]()
    layers = set(plan.planned)
    reads, writes = set[tuple[Tensor, str, int]](), set[tuple[Tensor, str]]()
    for place, node in enumerate(model.nodes):
        if node.op == "Concat":  # what follows an int8 product runs at its end, but for what writes a part
            made = ((source, source.producer) for source, _ in _read(node, codes))
            parts = [one for one, maker in made if maker and kernels.get(maker.name) in products]
            reads.update((source, _HALF, place) for source in parts)
        if node.op in _IN_PLACE or all(one is None or one.is_constant for one in node.inputs):
            continue
        kernel = _ended_by(node, kernels, codes) if node.op in ELEMENTWISE else None
        kernel = kernels[node.name] = place if kernel is None else kernel
        if node.name in layers:
            products.add(kernel)
        for source, kind in _read(node, codes):
            maker = source.producer
            if kind not in _BYTES or maker is None or kernels.get(maker.name) != kernel:
                reads.add((source, kind, kernel))
    for source, kind, _ in reads:
        if not source.is_constant:
            writes.add((source, kind))
            if source.producer is None:  # an input, of which a kernel of its own makes that
                writes.add((source, _WHOLE))
    for output in model.outputs:
        writes.update((source, _WHOLE) for source, _ in _sources(output, _WHOLE, codes))
    every = [(source, kind) for source, kind, _ in reads] + [*writes]
    return sum(_BYTES.get(kind, 1) * (elements(source) or 0) for source, kind in every)


def elements(tensor: Tensor) -> int | None:
    """How many a tensor has in the usual run; None where a size is not known."""
    shape = tensor.shape if tensor.is_constant else tensor.typical_shape
    numbers = [size for size in shape or () if isinstance(size, int)]
    return math.prod(numbers) if shape is not None and len(numbers) == len(shape) else None


_Codes = Mapping[tuple[str, int], str]


def _read(node: Node, codes: _Codes) -> Iterator[tuple[Tensor, str]]:
    """What a node reads, wherever it was put since it was made, and as what: a number format, or half."""
    for index, tensor in enumerate(node.inputs):
        if tensor is not None and is_float(tensor.dtype):
            yield from _sources(tensor, codes.get((node.name, index), _HALF), codes)


def _sources(tensor: Tensor, kind: str, codes: _Codes) -> Iterator[tuple[Tensor, str]]:
    todo = [(tensor, kind)]
    while todo:
        one, kind = todo.pop()
        maker = one.producer
        if maker is None or maker.op not in _IN_PLACE:
            yield one, kind
            continue
        for index, moved in enumerate(maker.inputs if maker.op == "Concat" else maker.inputs[:1]):
            if moved is not None:
                todo.append((moved, codes.get((maker.name, index), kind)))


def _ended_by(node: Node, kernels: Mapping[str, int], codes: _Codes) -> int | None:
    """The last kernel at whose end a node runs; None: it has one of its own."""
    size = elements(node.outputs[0])
    makers = [
        source.producer
        for source, kind in _read(node, codes)
        if kind in _BYTES and elements(source) == size and _is_alone(source, node)
    ]
    return max((kernels[one.name] for one in makers if one is not None and one.name in kernels), default=None)


def _is_alone(tensor: Tensor, node: Node) -> bool:
    """Whether a node alone reads a tensor, but for what is computed with it at the end of one kernel."""
    todo, seen = list(tensor.users), set[Node]()
    while todo:
        user = todo.pop()
        if user == node or user in seen:
            continue
        seen.add(user)
        if user.op not in ELEMENTWISE and user.op not in _IN_PLACE:
            return False
        if not any(read in node.outputs for read in user.inputs):
            todo += [after for out in user.outputs for after in out.users]
    return not tensor.is_output
