"""Pairs that miss, stand where they gain nothing, or force a layer into float."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.base.reason import Reason
from onnxq.checks import Fact, Product, Subject, check
from onnxq.checks.api import COMPLETE
from onnxq.checks.engine import in_float, larger, makes_weights, more_kernels, only_rounds
from onnxq.formats import INT8
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.pairs import QUANTIZE, Pair, outputs_of, pairs_of
from onnxq.graph.view import Node, Tensor


def pairs_of_activations(subject: Subject) -> Iterator[Pair]:
    """The pairs that are not of constants, from their DequantizeLinear."""
    for pair in subject.pairs.dequantizing:
        if pair.codes is not None and not pair.codes.is_constant:
            maker = pair.codes.producer
            if maker is None or maker.inputs[0] is None or not maker.inputs[0].is_constant:
                yield pair


def gaining_nothing(subject: Subject, *codes: str) -> Iterator[tuple[Product, Reason]]:
    """Products that are asked to run in int8, with why they gain nothing by it."""
    for product in subject.products:
        why = product.layer.ineligible if product.is_int8 and product.layer is not None else None
        if why is not None and why.code in codes:
            yield product, why


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


@check(
    "input-only", needs="pairs", judge=in_float,
    command=COMPLETE,
)  # fmt: skip
def input_only(subject: Subject) -> Iterator[Fact]:
    """A quantized input, float weights, and nobody else who has use for the pair."""
    for product in subject.products:
        if product.layer is None or product.of_weight or not product.of_data:
            continue
        if any(_serves(pair, product) for pair in product.of_data):
            continue
        yield Fact("input-only", (product.node.name, product.node.op, product.data.name))


def _serves(pair: Pair, but: Product) -> bool:
    """Whether a pair has another reader than a product, to which its int8 is of use."""
    return any(node != but.node and _uses(node) for node, _ in pair.readers)


def _uses(node: Node) -> bool:
    if node.op in WEIGHTED and not node.domain:
        return all(tensor is not None and bool(pairs_of(tensor)) for tensor in node.operands(2))
    return node.op in ("Add", "Sum", QUANTIZE)


@check("concat-scales", needs="pairs", judge=in_float)
def concat_scales(subject: Subject) -> Iterator[Fact]:
    """An input joined of parts with different scales, without a pair behind the Concat."""
    for product in subject.products:
        if not product.is_int8 or len(product.of_data) < 2:
            continue
        scales = {scale.name: scale.constant for p in product.of_data if (scale := p.scale) is not None}
        values = {v.astype(float).tobytes() for v in scales.values() if v is not None}
        if len(values) > 1:
            yield Fact(
                "concat-scales", (product.node.name, product.node.op, product.data.name),
                {"tensors": len(product.of_data), "scales": len(values)},
            )  # fmt: skip


@check("ignored-pairs", needs="pairs", judge=in_float)
def ignored_pairs(subject: Subject) -> Iterator[Fact]:
    """Operators without an int8 kernel."""
    for product, why in gaining_nothing(subject, "no-kernel"):
        yield Fact("ignored-pairs", (product.node.name, product.node.op, product.data.name), {"reason": why})


@check("padded-groups", needs="pairs", judge=larger)
def padded_groups(subject: Subject) -> Iterator[Fact]:
    """Convolutions whose groups have fewer channels than an int8 kernel."""
    for product, why in gaining_nothing(subject, "padded-groups"):
        yield Fact("padded-groups", (product.node.name, product.node.op, product.data.name), {"reason": why})


@check("few-rows", needs="pairs", severity="note", judge=more_kernels)
def few_rows(subject: Subject) -> Iterator[Fact]:
    """Products of few rows or few channels."""
    for product, why in gaining_nothing(subject, "few-rows", "few-channels"):
        yield Fact("few-rows", (product.node.name, product.node.op, product.data.name), {"reason": why})


# What may read int8, or take it in at the end of a product's kernel.
_READ_INT8 = (
    *WEIGHTED, "Add", "Sum", "AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool", "Resize",
    "Upsample", QUANTIZE,
)  # fmt: skip


@check("idle-pair", needs="pairs", severity="note", judge=only_rounds)
def idle_pairs(subject: Subject) -> Iterator[Fact]:
    """Pairs whose readers all compute in float."""
    for pair in pairs_of_activations(subject):
        node = pair.node
        readers = [reader for reader, _ in pair.readers]
        if not readers or outputs_of(node.outputs[0]) or any(map(_may_read, readers)):
            continue
        ops = ", ".join(sorted({reader.op for reader in readers}))
        yield Fact("idle-pair", (node.name, node.op, node.outputs[0].name), {"ops": ops})


def _may_read(node: Node) -> bool:
    return bool(node.domain) or node.has_body or node.op in _READ_INT8


@check("quantized-output", needs="pairs", severity="note", judge=only_rounds)
def quantized_outputs(subject: Subject) -> Iterator[Fact]:
    """Outputs of the model that are quantized and dequantized at last."""
    for pair in pairs_of_activations(subject):
        node, codes = pair.node, (pair.format or INT8).name
        for output in outputs_of(node.outputs[0]):
            yield Fact(
                "quantized-output",
                (node.name, node.op, output.name),
                {"output": output.name, "format": codes},
            )
