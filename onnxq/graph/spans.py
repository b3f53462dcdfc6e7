"""How wide the values of an output can be, by its operator: what an error of it is large or small against."""

from __future__ import annotations

import math
from collections.abc import Iterable

from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.view import Node, Tensor

_SPANS = {"Sigmoid": 1.0, "HardSigmoid": 1.0, "Tanh": 2.0, "Softsign": 2.0}
# They hand on values, or lie between them.
_BETWEEN = (*MOVES, "ReduceMean", "ReduceMax", "ReduceMin", "GlobalAveragePool", "GlobalMaxPool", "Concat")
_FAR = 100  # nodes that are followed back


def spans(model: Model, outputs: Iterable[str]) -> dict[str, float]:
    """The spans of those outputs that their operators know: 1 for a probability.

    Among C classes a probability is 1/C by chance, so that the span is at most 2/C there.
    """
    names = set(outputs)
    widths: dict[str, float] = {}
    for tensor in model.graph.outputs:
        span = _span(Tensor(model, tensor)) if tensor.name in names else None
        if span is not None:
            widths[str(tensor.name)] = span
    return widths


def _span(tensor: Tensor) -> float | None:
    """The span of a tensor; None where it is not known."""
    todo: list[Tensor | None] = [tensor]
    widths: list[float] = []
    for _ in range(_FAR):
        node = todo[-1].producer if todo[-1] is not None else None
        todo.pop()
        if node is None or node.domain:
            return None
        if node.op in _SPANS:
            widths.append(_SPANS[node.op])
        elif node.op == "Softmax":
            widths.append(_of_classes(node))
        elif node.op in _BETWEEN:
            todo += node.inputs[: None if node.op == "Concat" else 1]
        else:
            return None
        if not todo:
            return min(widths)
    return None


def _of_classes(softmax: Node) -> float:
    """The span of a probability among so many classes; 0 where their number is not known."""
    shape = softmax.inputs[0].shape if softmax.inputs[0] is not None else None
    if shape is None:
        return 0.0
    axis = softmax.attr("axis", -1 if softmax.opset >= 13 else 1) % len(shape)
    dims = shape[axis:] if softmax.opset < 13 else shape[axis : axis + 1]
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return min(1.0, 2.0 / math.prod(sizes)) if len(sizes) == len(dims) and 0 not in sizes else 0.0
