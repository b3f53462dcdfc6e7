"""Layers of which the weights alone are quantized."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.api import COMPLETE
from onnxq.checks.engine import makes_weights
from onnxq.graph.pairs import pairs_of
from onnxq.graph.view import Node, Tensor

# Operators with one input that int8 does not go through, behind which the pair belongs.
_STOPS = (
    "Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "Gelu",
    "Mish", "Mul", "Add", "Sub", "Div", "Resize", "Upsample", "AveragePool", "GlobalAveragePool",
    "ReduceMean", "BatchNormalization", "Pad",
)  # fmt: skip
_MOST_STOPS = 4


@check(
    "weights-only", needs="pairs", judge=makes_weights,
    command=COMPLETE,
)  # fmt: skip
def weights_only(subject: Subject) -> Iterator[Fact]:
    """Quantized weights, a float input. int4 weights are meant so, and have kernels."""
    for product in subject.products:
        if product.layer is None or product.of_data or not product.of_weight:
            continue
        if not product.of_weight[0].is_int8:
            continue
        stop = _lost_at(product.data)
        yield Fact(
            "weights-only" if stop is None else "weights-only.stopped",
            (product.node.name, product.node.op, product.data.name),
            {} if stop is None else {"op": stop.op, "stop": stop.name},
        )  # fmt: skip


def _lost_at(tensor: Tensor) -> Node | None:
    """The operator in front of a float tensor that a dequantized one goes into, where there is one."""
    source: Tensor | None = tensor
    for _ in range(_MOST_STOPS):
        node = source.producer if source is not None else None
        if node is None or node.domain or node.op not in _STOPS:
            return None
        source = node.inputs[0]
        if source is not None and pairs_of(source):
            return node
    return None
