"""Products whose scales the engine multiplies in float16."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Fact, Product, Subject, check
from onnxq.checks.each._scales import is_half
from onnxq.checks.engine import sums_in_half
from onnxq.formats import INT8

_FP16_NORMAL = 2.0**-14
_FP16_LEAST = 2.0**-24
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
