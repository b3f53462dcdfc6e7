"""Scales that TensorRT rejects, or computes with otherwise: their signs, types, sizes and axes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Fact, Product, Subject, check
from onnxq.checks.engine import in_float, in_int8, is_built, readers_in_float, sums_in_half
from onnxq.formats import INT8
from onnxq.graph.pairs import Pair
from onnxq.graph.view import Node, Tensor


def is_half(pair: Pair) -> bool:
    """Whether the scale of a pair is float16."""
    return pair.scale is not None and pair.scale.dtype == np.float16


@check(
    "scale-sign", needs="pairs", severity="error", lacks="zero-scales",
    parser=r"Scale coefficients must all be positive", judge=is_built,
)  # fmt: skip
def scale_signs(subject: Subject) -> Iterator[Fact]:
    """Scales that are 0, negative or no numbers."""
    for pair in subject.pairs:
        node, values = pair.node, pair.scales
        if values is not None and not np.all(values > 0):
            yield Fact("scale-sign", (node.name, node.op))


@check(
    "computed-scale", needs="pairs", severity="error",
    parser=r"the compiler crashed", judge=readers_in_float,
)  # fmt: skip
def computed_scales(subject: Subject) -> Iterator[Fact]:
    """Scales that the model computes."""
    for pair in subject.pairs:
        node, scale = pair.node, pair.scale
        if scale is not None and not scale.is_constant and scale.constant is None:
            yield Fact("computed-scale", (node.name, node.op, scale.name))


@check(
    "one-element-scale", needs="pairs", severity="error",
    lacks="one-element-scales", judge=readers_in_float,
)  # fmt: skip
def one_element(subject: Subject) -> Iterator[Fact]:
    """Scales of the shape [1] in front of convolutions, which the target takes for one a channel.

    Measured with TensorRT-RTX 1.7.1: a convolution of such an input runs in float, also where the axis has
    one element. Weights, QuantizeLinear nodes and inputs of matrix products of such scales keep their int8.
    """
    pairs = dict.fromkeys(
        pair
        for product in subject.products
        if product.node.op == "Conv" and product.is_int8
        for pair in product.of_data
    )
    for pair in pairs:
        node, scale = pair.node, pair.scale
        if scale is not None and scale.shape == (1,) and not pair.block:
            yield Fact("one-element-scale", (node.name, node.op, scale.name))


@check(
    "scale-types", needs="pairs",
    severity="error", parser=r"type mismatch between matmul operand scales", judge=is_built,
)  # fmt: skip
def scale_types(subject: Subject) -> Iterator[Fact]:
    """A matrix product of operands whose scales differ in type: the builder fails, or not, by node order."""
    for product in subject.products:
        types = {
            str(scale.dtype)
            for pair in (*product.of_data, *product.of_weight)
            if (scale := pair.scale) is not None and scale.dtype is not None
        }
        if product.node.op in ("MatMul", "Gemm") and len(types) > 1 and product.is_int8:
            yield Fact(
                "scale-types", (product.node.name, product.node.op), {"types": " and ".join(sorted(types))}
            )


_FP16_LEAST = 2.0**-24
_FP16_COARSE = INT8.greatest * _FP16_LEAST
"""Where half of float16's spacing there, times 127 codes, is half a step."""


@check("fp16-scale", needs="pairs", severity="note")
def fp16_scales(subject: Subject) -> Iterator[Fact]:
    """Float16 scales so small that they are rounded by more than half a step of the largest code.

    A pair quantizes with the same rounded scale, so that it is about constants of codes.
    """
    for pair in subject.pairs.dequantizing:
        node, codes, scale, values = pair.node, pair.codes, pair.scale, pair.scales
        if codes is None or not codes.is_constant or values is None or not is_half(pair):
            continue
        assert scale is not None
        small = values[(values > 0) & (values < _FP16_COARSE)]
        if small.size:
            code = "fp16-scale" if values.size == 1 else "fp16-scale.several"
            yield Fact(
                code, (node.name, node.op, scale.name),
                {
                    "count": small.size, "scales": values.size, "coarse": _FP16_COARSE, "least": small.min(),
                    "wrong": 100 * _FP16_LEAST / 2 / float(small.min()),
                },
            )  # fmt: skip


_FP16_NORMAL = 2.0**-14
_FP16_MOST = 65504.0


@check(
    "fp16-product", needs="pairs", judge=sums_in_half,
)  # fmt: skip
def fp16_products(subject: Subject) -> Iterator[Fact]:
    """Matrix products with float16 scales a channel: the engine holds one multiplier, sa * sw, in float16."""
    for product in subject.products:
        scales = _fp16_product(product)
        if scales is not None:
            yield scales


def _fp16_product(product: Product) -> Fact | None:
    layer = product.layer
    if layer is None or product.node.op not in ("MatMul", "Gemm") or not product.is_int8:
        return None
    data, weight = product.of_data[0], product.of_weight[0]
    if not weight.is_per_channel or not all(is_half(pair) for pair in (data, weight)):
        return None
    one, other = data.scales, weight.scales
    if one is None or other is None:
        return None
    multipliers = one.max() * other
    lost = int(np.sum(multipliers < _FP16_LEAST))
    small = int(np.sum(multipliers < _FP16_NORMAL))
    bound = _largest_sum(product)
    beyond = bound is not None and bound > _FP16_MOST
    if lost:
        code = "fp16-product.lost-sums" if beyond else "fp16-product.lost"
    elif small:
        code = "fp16-product.small-sums" if beyond else "fp16-product.small"
    elif beyond:
        code = "fp16-product.sums"
    else:
        return None
    return Fact(
        code, (product.node.name, product.node.op),
        {
            "multipliers": other.size, "small": small, "normal": _FP16_NORMAL, "lost": lost, "sums": bound,
            "most": _FP16_MOST,
        },
    )  # fmt: skip


def _largest_sum(product: Product) -> float | None:
    """The largest sum of products of codes that an output element can have; None: weights are not known."""
    assert product.layer is not None
    pair = product.of_weight[0]
    if pair.codes is None or pair.scale is None or product.weight.producer != pair.node:
        return None
    codes = pair.codes.constant
    if codes is None:
        return None
    others = tuple(axis for axis in range(codes.ndim) if axis != product.layer.axis)
    return float(np.abs(codes.astype(np.float32)).sum(axis=others).max()) * INT8.greatest


@check("activation-axis", needs="pairs", judge=in_float)
def activation_axes(subject: Subject) -> Iterator[Fact]:
    """Activations with a scale for each channel."""
    for product in subject.products:
        operands = (product.of_data, product.of_weight) if product.layer is None else (product.of_data,)
        for maker in (pair.node for pairs in operands for pair in pairs if pair.is_per_channel):
            yield Fact(
                "activation-axis", (product.node.name, product.node.op, maker.outputs[0].name),
                {"maker": maker.name},
            )  # fmt: skip


@check("weight-axis", needs="pairs", judge=in_float)
def weight_axes(subject: Subject) -> Iterator[Fact]:
    """Weights with a scale for each input channel."""
    for product in subject.products:
        right = _right_axis(product)
        if right is None:
            continue
        pair, axis, should_be, rank = right
        if axis != should_be:
            yield Fact(
                "weight-axis", (product.node.name, product.node.op, pair.node.outputs[0].name),
                {"axis": axis, "rank": rank, "right": should_be},
            )  # fmt: skip


def _right_axis(product: Product) -> tuple[Pair, int, int, int] | None:
    """What dequantizes the weights of a scale a channel, its axis, the axis that it should have, the rank."""
    if product.layer is None or len(product.of_weight) != 1 or product.layer.groups > 1:
        return None
    pair = product.of_weight[0]
    shape = pair.node.outputs[0].shape
    if not pair.is_per_channel or shape is None:
        return None
    should_be = _before(product.weight, product.layer.axis, pair.node)
    return None if should_be is None else (pair, pair.axis % len(shape), should_be, len(shape))


def _before(tensor: Tensor, axis: int, maker: Node) -> int | None:
    """Which axis of what a node gives an axis of a tensor is; None where something else stands between."""
    node = tensor.producer
    while node is not None and node != maker:
        if node.op == "Transpose":
            perm = node.attr("perm")
            rank = node.outputs[0].rank
            if rank is None:
                return None
            axis = (perm or list(range(rank))[::-1])[axis]
        elif node.op not in ("Identity", "Cast"):
            return None
        source = node.inputs[0]
        node = source.producer if source is not None else None
    return axis if node == maker else None


@check(
    "weight-blocks", needs="pairs", severity="error",
    judge=in_int8,
)  # fmt: skip
def weight_blocks(subject: Subject) -> Iterator[Fact]:
    """Int8 weights with a scale for each block."""
    for product in subject.products:
        if product.layer is None or not product.of_weight or not product.is_int8:
            continue
        pair = product.of_weight[0]
        if pair.block:
            yield Fact(
                "weight-blocks",
                (product.node.name, product.node.op, pair.node.outputs[0].name),
                {"block": pair.block},
            )
