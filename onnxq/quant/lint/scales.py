"""Scales that the target rejects, cannot fuse, or computes with too few bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.finding import Finding, finding
from onnxq.graph.pairs import Pair
from onnxq.quant.lint.subject import AGAIN, Product, Subject

_FP16_NORMAL = 2.0**-14
_FP16_LEAST = 2.0**-24
_FP16_MOST = 65504.0
_FP16_COARSE = 127 * _FP16_LEAST
"""Where half of float16's spacing there, times 127 codes, is half a step."""


def scale_signs(subject: Subject) -> Iterator[Finding]:
    """Scales that are 0, negative or no numbers."""
    for pair in subject.pairs:
        node, values = pair.node, pair.scales
        if values is not None and not np.all(values > 0):
            yield finding(
                "scale-sign", node.name, node.op, "a scale is not positive",
                "calibrate again; a dead channel may have scale 1", consequence="TensorRT rejects the file",
            )  # fmt: skip


def computed_scales(subject: Subject) -> Iterator[Finding]:
    """Scales that the model computes."""
    for pair in subject.pairs:
        node, scale = pair.node, pair.scale
        if scale is not None and not scale.is_constant and scale.constant is None:
            yield finding(
                "computed-scale", node.name, node.op, "its scale is computed",
                f"use constant scales: {AGAIN}", tensor=scale.name,
                consequence="the compiler knows static scales: it runs what reads them in float, or fails",
            )  # fmt: skip


def one_element(subject: Subject) -> Iterator[Finding]:
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
            yield finding(
                "one-element-scale", node.name, node.op,
                "its scale has the shape [1]: to TensorRT that is one a channel",
                "give a scalar, as onnxq sanitize does", tensor=scale.name,
                consequence="nothing is said, and the convolution that reads it runs in float",
            )  # fmt: skip


def scale_types(subject: Subject) -> Iterator[Finding]:
    """A matrix product of operands whose scales differ in type: the builder fails, or not, by node order."""
    for product in subject.products:
        types = {
            str(scale.dtype)
            for pair in (*product.of_data, *product.of_weight)
            if (scale := pair.scale) is not None and scale.dtype is not None
        }
        if product.node.op in ("MatMul", "Gemm") and len(types) > 1 and product.is_int8:
            yield finding(
                "scale-types", product.node.name, product.node.op,
                f"the scales of its operands are {' and '.join(sorted(types))}",
                "give all pairs of a layer one type: float32 scales, with a Cast behind the DequantizeLinear",
                consequence="the compiler fails (type mismatch between matmul operand scales), or not: that "
                "depends on the order of the nodes",
            )  # fmt: skip


def fp16_scales(subject: Subject) -> Iterator[Finding]:
    """Float16 scales so small that they are rounded by more than half a step of the largest code.

    A pair quantizes with the same rounded scale, so that it is about constants of codes.
    """
    for pair in subject.pairs.dequantizing:
        node, codes, scale, values = pair.node, pair.codes, pair.scale, pair.scales
        if codes is None or not codes.is_constant or values is None or not _is_half(pair):
            continue
        assert scale is not None
        small = values[(values > 0) & (values < _FP16_COARSE)]
        if small.size:
            wrong = 100 * _FP16_LEAST / 2 / float(small.min())
            yield finding(
                "fp16-scale", node.name, node.op,
                f"{_of_all(small.size, values.size, 'scale')} in float16 below {_FP16_COARSE:.2g}: the "
                f"least is {small.min():.2g}",
                "use float32 scales, with a Cast behind the DequantizeLinear", tensor=scale.name,
                consequence=f"float16 has few numbers there: the scale is rounded by up to {wrong:.2g} %, "
                "and large codes are off by half a step or more, unless they were made with that rounded one",
            )  # fmt: skip


def fp16_products(subject: Subject) -> Iterator[Finding]:
    """Matrix products with float16 scales a channel: the engine holds one multiplier, sa * sw, in float16."""
    for product in subject.products:
        found = _fp16_product(product)
        if found is not None:
            yield found


def _fp16_product(product: Product) -> Finding | None:
    layer = product.layer
    if layer is None or product.node.op not in ("MatMul", "Gemm") or not product.is_int8:
        return None
    data, weight = product.of_data[0], product.of_weight[0]
    if not weight.is_per_channel or not all(_is_half(pair) for pair in (data, weight)):
        return None
    one, other = data.scales, weight.scales
    if one is None or other is None:
        return None
    multipliers = one.max() * other
    lost = int(np.sum(multipliers < _FP16_LEAST))
    small = int(np.sum(multipliers < _FP16_NORMAL))
    bound = _largest_sum(product)
    said = [f"of {other.size} multipliers {small} are below {_FP16_NORMAL:.2g} in float16"] if small else []
    said += [f"{lost} of them become 0"] if lost else []
    if bound is not None and bound > _FP16_MOST:
        said.append(f"sums of codes reach up to {bound:,.0f}, float16 {_FP16_MOST:,.0f}")
    if not said:
        return None
    return finding(
        "fp16-product", product.node.name, product.node.op,
        f"its scales are float16, one a channel: {', '.join(said)}",
        "use float32 scales with a Cast behind the DequantizeLinear, or one scale for all weights of the "
        f"layer: {AGAIN} writes such a file",
        consequence="the engine's plan has no other factor than sa*sw in float16: sums of codes that are "
        "written as float16 before they are scaled overflow, and small factors lose bits",
    )  # fmt: skip


def _is_half(pair: Pair) -> bool:
    return pair.scale is not None and pair.scale.dtype == np.float16


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
    return float(np.abs(codes.astype(np.float32)).sum(axis=others).max()) * 127.0


def _of_all(count: int, of: int, what: str) -> str:
    return f"its {what} is" if of == 1 else f"{count} of its {of} {what}s are"
