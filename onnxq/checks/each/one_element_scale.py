"""Scales of the shape [1]."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import readers_in_float


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
