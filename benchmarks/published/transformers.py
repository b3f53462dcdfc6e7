"""BERT, ViT and Swin."""

from __future__ import annotations

import math

import numpy as np
from onnx import ModelProto, TensorProto

from benchmarks.published.classifiers import image_model
from benchmarks.published.layers import Layers

_WORDS = 30_522


def bert(layers: int, channels: int, heads: int, tokens: int) -> ModelProto:
    """BERT with the layer that answers questions (Devlin et al. 2018): start and end, [N, tokens, 2]."""
    net = Layers(layers)
    words = net.node("Gather", net.drawn(_WORDS, channels, spread=1.0), "input_ids")
    x = net.node("Add", words, net.drawn(1, tokens, channels, spread=0.5))
    x = net.norm(x, channels)
    mask = net.node("Cast", net.node("Unsqueeze", "attention_mask", net.ints(1, 2)), to=TensorProto.FLOAT)
    mask = net.node("Mul", net.node("Sub", net.scalar(1), mask), net.scalar(-10_000))
    for _ in range(layers):
        x = net.norm(net.node("Add", _attend(net, x, channels, heads, mask), x), channels)
        x = net.norm(net.node("Add", _perceive(net, x, channels), x), channels)
    inputs = {name: (TensorProto.INT64, ["N", tokens]) for name in ("input_ids", "attention_mask")}
    y = net.linear(x, (channels, 2))
    return net.model(f"bert{layers}", inputs, y, ["N", tokens, 2])


def vit(channels: int, heads: int, layers: int = 12) -> ModelProto:
    """ViT with patches of 16 x 16 (Dosovitskiy et al. 2020) at 224 x 224."""
    net = Layers(16)
    weight = net.drawn(channels, 3, 16, 16, spread=1 / math.sqrt(768))
    x = net.node(
        "Conv", "x", weight, net.drawn(channels, spread=0.1), kernel_shape=[16, 16], strides=[16, 16]
    )
    x = net.node("Transpose", net.node("Reshape", x, net.ints(0, channels, 196)), perm=[0, 2, 1])
    shape = net.node("Concat", net.node("Shape", x, end=1), net.ints(1, channels), axis=0)
    x = net.node("Concat", net.node("Expand", net.drawn(1, 1, channels, spread=1.0), shape), x, axis=1)
    x = net.node("Add", x, net.drawn(1, 197, channels, spread=0.5))
    for _ in range(layers):
        x = net.node("Add", x, _attend(net, net.norm(x, channels), channels, heads))
        x = net.node("Add", x, _perceive(net, net.norm(x, channels), channels))
    first = net.node("Gather", net.norm(x, channels), net.weight(np.array(0)), axis=1)
    return image_model(net, f"vit{channels}", (224, 224), net.head(first, channels, 1000), 1000)


def swin(channels: int, heads: int, depths: tuple[int, ...]) -> ModelProto:
    """Swin with windows of 7 x 7 (Liu et al. 2021, table 7) at 224 x 224."""
    net = Layers(7)
    weight = net.drawn(channels, 3, 4, 4, spread=1 / math.sqrt(48))
    x = net.node("Conv", "x", weight, net.drawn(channels, spread=0.1), kernel_shape=[4, 4], strides=[4, 4])
    x = net.node("Transpose", net.node("Reshape", x, net.ints(0, channels, 56 * 56)), perm=[0, 2, 1])
    x, side = net.norm(x, channels), 56
    for stage, depth in enumerate(depths):
        if stage:
            x, side, channels, heads = _merge(net, x, channels, side), side // 2, channels * 2, heads * 2
        for block in range(depth):
            shift = 3 if block % 2 and side > 7 else 0
            x = net.node("Add", x, _windows(net, net.norm(x, channels), channels, heads, side, shift))
            x = net.node("Add", x, _perceive(net, net.norm(x, channels), channels))
    y = net.node("ReduceMean", net.norm(x, channels), axes=[1], keepdims=0)
    return image_model(net, f"swin{len(depths)}", (224, 224), net.head(y, channels, 1000), 1000)


def _merge(net: Layers, x: str, channels: int, side: int) -> str:
    """Each 2 x 2 positions become one of twice the channels."""
    half = side // 2
    x = net.node("Reshape", x, net.ints(0, half, 2, half, 2, channels))
    x = net.node("Transpose", x, perm=[0, 1, 3, 4, 2, 5])
    x = net.node("Reshape", x, net.ints(0, half * half, 4 * channels))
    return net.linear(net.norm(x, 4 * channels), (4 * channels, 2 * channels), bias=False)


def _roll(net: Layers, x: str, shift: int, side: int) -> str:
    for axis in (1, 2):
        parts = [
            net.node("Slice", x, net.ints(start), net.ints(end), net.ints(axis))
            for start, end in ((shift % side, side), (0, shift % side))
        ]
        x = net.node("Concat", *parts, axis=axis)
    return x


def _windows(net: Layers, x: str, channels: int, heads: int, side: int, shift: int) -> str:
    """Attention in windows of 7 x 7, shifted or not."""
    count, each = side // 7, channels // heads
    x = net.node("Reshape", x, net.ints(0, side, side, channels))
    x = _roll(net, x, shift, side) if shift else x
    x = net.node("Reshape", x, net.ints(0, count, 7, count, 7, channels))
    x = net.node("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    x = net.node("Reshape", x, net.ints(-1, 49, channels))
    y = net.node("Reshape", net.linear(x, (channels, 3 * channels)), net.ints(-1, 49, 3, heads, each))
    y = net.node("Transpose", y, perm=[2, 0, 3, 1, 4])
    q, k, v = (net.node("Gather", y, net.weight(np.array(index)), axis=0) for index in range(3))
    q = net.node("Mul", q, net.scalar(1 / math.sqrt(each)))
    scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.node("Add", scores, net.drawn(1, heads, 49, 49, spread=0.5))
    if shift:
        windows = count * count
        mask = np.where(net.random.random((1, windows, 1, 49, 49)) < 0.5, 0.0, -100.0)
        scores = net.node("Reshape", scores, net.ints(-1, windows, heads, 49, 49))
        scores = net.node("Add", scores, net.floats(mask))
        scores = net.node("Reshape", scores, net.ints(-1, heads, 49, 49))
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), v)
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.ints(-1, 49, channels))
    y = net.linear(y, (channels, channels), gain=0.5)
    y = net.node("Reshape", y, net.ints(-1, count, count, 7, 7, channels))
    y = net.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    y = net.node("Reshape", y, net.ints(-1, side, side, channels))
    y = _roll(net, y, -shift, side) if shift else y
    return net.node("Reshape", y, net.ints(0, side * side, channels))


def _attend(net: Layers, x: str, channels: int, heads: int, mask: str | None = None) -> str:
    """Multi-head attention over all tokens."""
    shape = net.ints(0, -1, heads, channels // heads)

    def project(perm: list[int]) -> str:
        y = net.node("Reshape", net.linear(x, (channels, channels)), shape)
        return net.node("Transpose", y, perm=perm)

    scores = net.node("MatMul", project([0, 2, 1, 3]), project([0, 2, 3, 1]))
    scores = net.node("Div", scores, net.scalar(math.sqrt(channels // heads)))
    scores = scores if mask is None else net.node("Add", scores, mask)
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), project([0, 2, 1, 3]))
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.ints(0, -1, channels))
    return net.linear(y, (channels, channels), gain=0.5)


def _perceive(net: Layers, x: str, channels: int) -> str:
    """Two layers with GELU between them."""
    y = net.act(net.linear(x, (channels, 4 * channels)), "Gelu")
    return net.linear(y, (4 * channels, channels), gain=0.5)
