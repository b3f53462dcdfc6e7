"""ViT, BERT and a decoder.

Trained transformers have a few channels that are far larger than the others, made by the factors of
their normalizations (Bondarenko et al. 2021, Wei et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.nets.builder import Builder
from benchmarks.nets.feeds import batch
from benchmarks.nets.sizes import classes, size_of, words

_OUTLIERS = 6


def vit_s16(*, size: int | None = None, small: bool = False) -> onnx.ModelProto:
    """ViT-S/16 (Touvron et al. 2021, table 1): 22 M weights, 4.6 GMAC for 197 tokens at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size]; 224 by default.
        small: 96 channels, 4 layers, patches of 8 x 8, at 64 x 64.
    """
    size = size or size_of("vit_s16", small=small)
    dim, heads, layers, patch = (96, 3, 4, 8) if small else (384, 6, 12, 16)
    net = Builder(seed=16, samples=batch("vit_s16", size, small=small))
    factors = _with_outliers(net, dim)
    tokens = (size // patch) ** 2
    x = net.plain_conv("x", (3, dim), patch, stride=patch)
    x = net.node("Transpose", net.node("Reshape", x, net.ints(0, dim, tokens)), perm=[0, 2, 1])
    shape = net.node("Concat", net.node("Shape", x, end=1), net.ints(1, dim), axis=0)
    x = net.node("Concat", net.node("Expand", net.normal(1, 1, dim), shape), x, axis=1)
    x = net.node("Add", x, net.normal(1, tokens + 1, dim, spread=0.5))
    for _ in range(layers):
        x = net.node("Add", x, _attend(net, _normalize(net, x, factors), dim, heads))
        x = net.node("Add", x, _perceive(net, _normalize(net, x, factors), dim))
    first = net.node("Gather", _normalize(net, x, np.ones(dim)), net.weight(np.array(0)), axis=1)
    count = classes(small=small)
    return net.image_model("vit_s16", size, net.head(first, dim, count), count)


def bert(*, size: int | None = None, small: bool = False) -> onnx.ModelProto:
    """A BERT of 6 layers (MiniLM, Wang et al. 2020): 22 M weights, 1.4 GMAC for 128 tokens.

    The inputs are `input_ids` and `attention_mask`, int64 [N, S], the output the last hidden state.

    Args:
        size: the largest number of tokens; 128 by default.
        small: 1,000 words, 96 channels, 3 layers, 32 tokens.
    """
    size = size or size_of("bert", small=small)
    dim, heads, layers = (96, 3, 3) if small else (384, 12, 6)
    net = Builder(seed=6, samples=batch("bert", size, small=small))
    length = net.node("Squeeze", net.node("Shape", "input_ids", start=1))
    positions = net.node("Range", net.weight(np.array(0)), length, net.weight(np.array(1)))
    x = net.node("Gather", net.normal(words(small=small), dim), "input_ids")
    x = net.node("Add", x, net.node("Gather", net.normal(size, dim, spread=0.5), positions))
    factors = _with_outliers(net, dim)
    x = _normalize(net, x, factors)
    hidden = net.node("Cast", net.node("Unsqueeze", "attention_mask", net.ints(1, 2)), to=TensorProto.FLOAT)
    hidden = net.node("Mul", net.node("Sub", net.scalar(1), hidden), net.scalar(np.finfo(np.float32).min))
    for _ in range(layers):
        # what the factors of one normalization enlarge, those of the next one take back
        x = _normalize(net, net.node("Add", _attend(net, x, dim, heads, hidden), x), 1 / factors)
        factors = _with_outliers(net, dim)
        x = _normalize(net, net.node("Add", _perceive(net, x, dim), x), factors)
    inputs = {name: (TensorProto.INT64, ["N", "S"]) for name in ("input_ids", "attention_mask")}
    return net.model("bert", inputs, x, ["N", "S", dim])


def _with_outliers(net: Builder, dim: int) -> np.ndarray:
    """Factors of a normalization, most of them near 1 and a few from 5 to 10."""
    factors = 1 + 0.1 * net.random.standard_normal(dim)
    factors[net.random.choice(dim, _OUTLIERS, replace=False)] = net.random.uniform(5, 10, _OUTLIERS)
    return np.asarray(factors)


def _normalize(net: Builder, x: str, factors: np.ndarray) -> str:
    offset = net.normal(factors.size, spread=0.1)
    return net.node("LayerNormalization", x, net.floats(factors), offset, axis=-1, epsilon=1e-6)


def _attend(net: Builder, x: str, dim: int, heads: int, hidden: str | None = None) -> str:
    """Multi-head attention.

    Args:
        net: the graph.
        x: [N, S, dim].
        dim: the number of channels.
        heads: of dim / heads channels each.
        hidden: what is added to the scores, [N, 1, 1, S]: very negative where no attention is due.
    """
    shape = net.ints(0, -1, heads, dim // heads)

    def project(scale: float, perm: list[int]) -> str:
        y = net.node("Reshape", net.dense(x, (dim, dim), scale=scale), shape)
        return net.node("Transpose", y, perm=perm)

    # scores of standard deviation 2.6: a token looks at a few others, not at all alike
    query, key = project(1.6, [0, 2, 1, 3]), project(1.6, [0, 2, 3, 1])
    scores = net.node("Div", net.node("MatMul", query, key), net.scalar(math.sqrt(dim // heads)))
    if hidden is not None:
        scores = net.node("Add", scores, hidden)
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), project(1.0, [0, 2, 1, 3]))
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.ints(0, -1, dim))
    return net.dense(y, (dim, dim), scale=0.5)


def _perceive(net: Builder, x: str, dim: int) -> str:
    """Two layers with GELU between them, x / 2 * (1 + erf(x / sqrt 2)), as PyTorch exports it."""
    x = net.dense(x, (dim, 4 * dim), scale=1.5, bias=-1.0)
    y = net.node("Erf", net.node("Div", x, net.scalar(math.sqrt(2))))
    y = net.node("Mul", x, net.node("Add", y, net.scalar(1)))
    return net.dense(net.node("Mul", y, net.scalar(0.5)), (4 * dim, dim), scale=0.5)


def decoder(
    *, dim: int = 64, heads: int = 4, layers: int = 2, tokens: int = 500, longest: int = 64
) -> onnx.ModelProto:
    """A small decoder that keeps keys and values, as exporters write it: GPT-2 (Radford et al. 2019).

    The inputs are `input_ids`, int64 [N, S], `attention_mask`, int64 [N, T] with T = P + S, and for each
    layer `past_<n>_key` and `past_<n>_value`, float32 [N, heads, P, dim / heads]. The outputs are `logits`,
    float32 [N, S, tokens], and `present_<n>_key` and `present_<n>_value`, [N, heads, T, dim / heads].

    Args:
        dim: the number of channels.
        heads: of dim / heads channels each.
        layers: how many.
        tokens: how many there are to choose from.
        longest: the largest T.
    """
    random = np.random.default_rng(5)
    names = [f"{number}_{kind}" for number in range(layers) for kind in ("key", "value")]
    pasts = {f"past_{name}": random.standard_normal((4, heads, 8, dim // heads)) for name in names}
    samples = {
        "input_ids": random.integers(0, tokens, (4, 24)), "attention_mask": np.ones((4, 32), np.int64)
    } | {name: past.astype(np.float32) for name, past in pasts.items()}  # fmt: skip
    net = Builder(seed=2, samples=samples)
    length = net.node("Squeeze", net.node("Shape", "attention_mask", start=1))
    new = net.node("Squeeze", net.node("Shape", "input_ids", start=1))
    every = net.node("Range", net.weight(np.array(0)), length, net.weight(np.array(1)))
    own = net.node("Range", net.node("Sub", length, new), length, net.weight(np.array(1)))
    # a token sees those before it, and itself
    column = net.node("Unsqueeze", own, net.ints(1))
    later = net.node("Greater", net.node("Unsqueeze", every, net.ints(0)), column)
    absent = net.node("Equal", "attention_mask", net.weight(np.array(0)))
    absent = net.node("Unsqueeze", absent, net.ints(1, 2))
    hidden = net.node(
        "Where", net.node("Or", absent, later), net.scalar(np.finfo(np.float16).min), net.scalar(0)
    )
    x = net.node("Gather", net.normal(tokens, dim), "input_ids")
    x = net.node("Add", x, net.node("Gather", net.normal(longest, dim, spread=0.5), own))
    factors, presents = np.ones(dim), list[str]()
    for number in range(layers):
        past = f"past_{number}_key", f"past_{number}_value"
        y, *grown = _attend_with_past(net, _normalize(net, x, factors), dim, heads, hidden, past)
        x, presents = net.node("Add", x, y), presents + grown
        x = net.node("Add", x, _perceive(net, _normalize(net, x, factors), dim))
    logits = net.dense(_normalize(net, x, factors), (dim, tokens), scale=2.0)
    cache = {name: (TensorProto.FLOAT, ["N", heads, "P", dim // heads]) for name in pasts}
    inputs = {"input_ids": (TensorProto.INT64, ["N", "S"]), "attention_mask": (TensorProto.INT64, ["N", "T"])}
    model = net.model("decoder", {**inputs, **cache}, logits, ["N", "S", tokens])
    for present in presents:
        shape = ["N", heads, "T", dim // heads]
        model.graph.output.append(onnx.helper.make_tensor_value_info(present, TensorProto.FLOAT, shape))
    titles = [f"present_{name}" for name in names]
    return renamed(model, {logits: "logits", **dict(zip(presents, titles, strict=True))})


def renamed(model: onnx.ModelProto, names: Mapping[str, str]) -> onnx.ModelProto:
    """The model, in place, with other names of some tensors."""
    for node in model.graph.node:
        for tensors in (node.input, node.output):
            tensors[:] = [names.get(name, name) for name in tensors]
    for info in (*model.graph.input, *model.graph.output):
        info.name = names.get(info.name, info.name)
    return model


def _attend_with_past(
    net: Builder, x: str, dim: int, heads: int, hidden: str, past: tuple[str, str]
) -> tuple[str, str, str]:
    """Attention of new tokens to all, see `_attend`.

    Args:
        net: the graph.
        x: the new tokens, [N, S, dim].
        dim: the number of channels.
        heads: of dim / heads channels each.
        hidden: what is added to the scores, [N, 1, S, T].
        past: the inputs with keys and values of the tokens before, [N, heads, P, dim / heads].

    Returns:
        What is attended to, [N, S, dim]; the keys and the values of all tokens.
    """
    shape = net.ints(0, -1, heads, dim // heads)

    def project(scale: float) -> str:
        y = net.node("Reshape", net.dense(x, (dim, dim), scale=scale), shape)
        return net.node("Transpose", y, perm=[0, 2, 1, 3])

    query = project(1.6)
    key = net.node("Concat", past[0], project(1.6), axis=2)
    value = net.node("Concat", past[1], project(1.0), axis=2)
    turned = net.node("Transpose", key, perm=[0, 1, 3, 2])
    scores = net.node("Div", net.node("MatMul", query, turned), net.scalar(math.sqrt(dim // heads)))
    y = net.node("MatMul", net.node("Softmax", net.node("Add", scores, hidden), axis=-1), value)
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.ints(0, -1, dim))
    return net.dense(y, (dim, dim), scale=0.5), key, value


def llama(
    tokens: int = 32, *, dim: int = 256, heads: int = 8, groups: int = 2, layers: int = 4, words: int = 1000
) -> onnx.ModelProto:
    """A decoder that keeps nothing, as exporters write it: Llama (Touvron et al. 2023, grouped queries).

    Its weights are as libraries draw them, of standard deviation 0.02: a token looks at all before it alike.
    The input is `input_ids`, int64 [1, tokens], the output `logits`, float32 [1, tokens, words].

    Args:
        tokens: how many.
        dim: the number of channels.
        heads: of the queries, of dim / heads channels each.
        groups: heads of the keys and values.
        layers: how many.
        words: how many tokens there are to choose from.
    """
    random, size, hidden = np.random.default_rng(11), dim // heads, 8 * dim // 3 // 16 * 16
    net = Builder(seed=4, samples={"input_ids": random.integers(0, words, (1, tokens))})
    angles = np.outer(np.arange(tokens), 1e4 ** -(np.arange(0, size, 2) / size))
    turns = [net.floats(np.tile(of(angles), 2)) for of in (np.cos, np.sin)]
    later = net.weight(np.triu(np.full((1, 1, tokens, tokens), np.finfo(np.float32).min, np.float32), 1))

    def linear(x: str, outputs: int, inputs: int = dim) -> str:
        return net.node("MatMul", x, net.normal(inputs, outputs, spread=0.02))

    def normalized(x: str) -> str:
        power = net.node("ReduceMean", net.node("Pow", x, net.scalar(2)), axes=[-1], keepdims=1)
        root = net.node("Sqrt", net.node("Add", power, net.scalar(1e-5)))
        return net.node("Mul", net.floats(np.ones(dim)), net.node("Div", x, root))

    def in_heads(x: str, count: int) -> str:
        return net.node(
            "Transpose", net.node("Reshape", x, net.ints(1, tokens, count, size)), perm=[0, 2, 1, 3]
        )

    def turned(x: str) -> str:
        first, last = net.nodes("Split", x, net.ints(size // 2, size // 2), count=2, axis=-1)
        other = net.node("Concat", net.node("Neg", last), first, axis=-1)
        return net.node("Add", net.node("Mul", x, turns[0]), net.node("Mul", other, turns[1]))

    def repeated(x: str) -> str:
        wide = net.node("Unsqueeze", x, net.ints(2))
        wide = net.node("Expand", wide, net.ints(1, groups, heads // groups, tokens, size))
        return net.node("Reshape", wide, net.ints(1, heads, tokens, size))

    x = net.node("Gather", net.normal(words, dim, spread=0.02), "input_ids")
    for _ in range(layers):
        y = normalized(x)
        query = turned(in_heads(linear(y, dim), heads))
        key = repeated(turned(in_heads(linear(y, size * groups), groups)))
        value = repeated(in_heads(linear(y, size * groups), groups))
        scores = net.node("MatMul", query, net.node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = net.node("Add", net.node("Mul", scores, net.scalar(size**-0.5)), later)
        mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), value)
        mixed = net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), net.ints(1, tokens, dim))
        x = net.node("Add", x, linear(mixed, dim))
        y = normalized(x)
        gated = net.node("Mul", net.silu(linear(y, hidden)), linear(y, hidden))
        x = net.node("Add", x, linear(gated, dim, hidden))
    logits = linear(normalized(x), words)
    return net.model("llama", {"input_ids": (TensorProto.INT64, [1, tokens])}, logits, [1, tokens, words])
