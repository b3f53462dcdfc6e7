"""Layers of which one operand is quantized and the other is not: worse than none."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.finding import Finding, finding
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.pairs import QUANTIZE, Pair, pairs_of
from onnxq.graph.view import Node, Tensor
from onnxq.quant.lint.subject import AGAIN, Product, Subject

_BOTH = "quantize both or neither; onnxq quantize MODEL --calib DATA adds the missing pair"
# Operators with one input that int8 does not go through, behind which the pair belongs.
_STOPS = (
    "Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "Gelu",
    "Mish", "Mul", "Add", "Sub", "Div", "Resize", "Upsample", "AveragePool", "GlobalAveragePool",
    "ReduceMean", "BatchNormalization", "Pad",
)  # fmt: skip
_MOST_STOPS = 4


def weights_only(subject: Subject) -> Iterator[Finding]:
    """Quantized weights, a float input. int4 weights are meant so, and have kernels."""
    for product in subject.products:
        if product.layer is None or product.of_data or not product.of_weight:
            continue
        if not product.of_weight[0].is_int8:
            continue
        stop = _lost_at(product.data)
        lost = f": the pair in front of {stop.op} {stop.name!r} does not reach it" if stop is not None else ""
        advice = f"put the pair behind {stop.name!r}; {_BOTH}" if stop is not None else _BOTH
        yield finding(
            "weights-only", product.node.name, product.node.op,
            f"its weights are quantized, its input is not{lost}", advice, tensor=product.data.name,
            consequence="it runs in float, and its weights are dequantized at every inference",
        )  # fmt: skip


def input_only(subject: Subject) -> Iterator[Finding]:
    """A quantized input, float weights, and nobody else who has use for the pair."""
    for product in subject.products:
        if product.layer is None or product.of_weight or not product.of_data:
            continue
        if any(_serves(pair, product) for pair in product.of_data):
            continue
        yield finding(
            "input-only", product.node.name, product.node.op, "its input is quantized, its weights are not",
            _BOTH, tensor=product.data.name,
            consequence="it runs in float: the pair costs accuracy, and saves no product",
        )  # fmt: skip


def half_products(subject: Subject) -> Iterator[Finding]:
    """A product of two activations, one of them quantized; that of attention is judged with its partner."""
    from onnxq.quant.lint.attention import attentions

    inside = {node for found in attentions(subject.model) for node in (found.scores, found.values)}
    for product in subject.products:
        if product.layer is not None or bool(product.of_data) == bool(product.of_weight):
            continue
        if product.node in inside or product.weight.is_constant:
            continue
        which = product.data if product.of_data else product.weight
        yield finding(
            "half-product", product.node.name, product.node.op,
            f"of its two activations only {which.name!r} is quantized", "quantize both or neither",
            tensor=which.name, consequence="it runs in float: the pair costs accuracy, and saves no product",
        )  # fmt: skip


def concat_scales(subject: Subject) -> Iterator[Finding]:
    """An input joined of parts with different scales, without a pair behind the Concat."""
    for product in subject.products:
        if not product.is_int8 or len(product.of_data) < 2:
            continue
        scales = {scale.name: scale.constant for p in product.of_data if (scale := p.scale) is not None}
        values = {v.astype(float).tobytes() for v in scales.values() if v is not None}
        if len(values) > 1:
            yield finding(
                "concat-scales", product.node.name, product.node.op,
                f"its input is joined of {len(product.of_data)} tensors with {len(values)} scales",
                f"give them one scale, or put a pair behind the Concat; {AGAIN} does",
                tensor=product.data.name, consequence="it runs in float: there is no one scale of its input",
            )  # fmt: skip


def _serves(pair: Pair, but: Product) -> bool:
    """Whether a pair has another reader than a product, to which its int8 is of use."""
    return any(node != but.node and _uses(node) for node, _ in pair.readers)


def _uses(node: Node) -> bool:
    if node.op in WEIGHTED and not node.domain:
        return all(tensor is not None and bool(pairs_of(tensor)) for tensor in node.operands(2))
    return node.op in ("Add", "Sum", QUANTIZE)


def _lost_at(tensor: Tensor) -> Node | None:
    """The operator in front of a float tensor that a dequantized one goes into, where there is one."""
    one: Tensor | None = tensor
    for _ in range(_MOST_STOPS):
        node = one.producer if one is not None else None
        if node is None or node.domain or node.op not in _STOPS:
            return None
        one = node.inputs[0]
        if one is not None and pairs_of(one):
            return node
    return None
