"""The nets that the benchmarks run: real layer sizes, seeded random weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8


class _Builder:
    """A graph that grows node by node; tensors are named by their number."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Appends a node of one output; returns the output's name."""
        out = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [out], f"{op}_{len(self._nodes)}", **attrs))
        return out

    def weight(self, values: np.ndarray) -> str:
        """Appends a constant; returns its name."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name

    def normal(self, *shape: int, mean: float = 0.0, spread: float = 1.0) -> str:
        """A constant of normal deviates, float32."""
        return self.weight((mean + spread * self._random.standard_normal(shape)).astype(np.float32))

    def conv(
        self, x: str, channels: tuple[int, int], kernel: int, *, stride: int = 1, group: int = 1, folded: bool
    ) -> str:
        """A convolution that keeps the variance, with its BatchNormalization unless that is folded."""
        inner, outer = channels
        fan_in = inner // group * kernel * kernel
        weight = self.normal(outer, inner // group, kernel, kernel, spread=math.sqrt(2 / fan_in))
        attrs = {
            "kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": group
        }  # fmt: skip
        if folded:
            return self.node("Conv", x, weight, self.normal(outer, spread=0.1), **attrs)
        scale, offset, mean = (self.normal(outer, mean=m, spread=0.1) for m in (1.0, 0.0, 0.0))
        variance = self.weight(self._random.uniform(0.5, 1.5, outer).astype(np.float32))
        x = self.node("Conv", x, weight, **attrs)
        return self.node("BatchNormalization", x, scale, offset, mean, variance)

    def classify(self, x: str, channels: int, classes: int = 1000) -> str:
        """Global pooling and a fully connected layer."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x), axis=1)
        weight = self.normal(classes, channels, spread=1 / math.sqrt(channels))
        return self.node("Gemm", flat, weight, self.normal(classes, spread=0.1), transB=1)

    def model(self, name: str, shape: Sequence[int | str], output: str, width: int) -> onnx.ModelProto:
        """The model of one input `x` and one output of as many rows, `width` wide."""
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [shape[0], width])],
            self._weights,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)


def resnet18(*, size: int = 224, folded: bool = True) -> onnx.ModelProto:
    """ResNet-18 (He et al. 2015, table 1): 11.7 M weights, 1.8 GMAC at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size].
        folded: whether BatchNormalization is folded into the convolutions.
    """
    net = _Builder(seed=18)
    x = net.node("Relu", net.conv("x", (3, 64), 7, stride=2, folded=folded))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inner = 64
    for outer in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and outer != 64 else 1
            y = net.node("Relu", net.conv(x, (inner, outer), 3, stride=stride, folded=folded))
            y = net.conv(y, (outer, outer), 3, folded=folded)
            if inner != outer:
                x = net.conv(x, (inner, outer), 1, stride=stride, folded=folded)
            x = net.node("Relu", net.node("Add", y, x))
            inner = outer
    return net.model("resnet18", ["N", 3, size, size], net.classify(x, inner), 1000)


def mobilenet_v2(*, size: int = 224, folded: bool = True) -> onnx.ModelProto:
    """MobileNetV2 (Sandler et al. 2018, table 2): 3.5 M weights, 0.3 GMAC at 224 x 224.

    Args:
        size: height and width of the input `x`, [N, 3, size, size].
        folded: whether BatchNormalization is folded into the convolutions.
    """
    net = _Builder(seed=2)
    low, high = net.weight(np.float32(0)), net.weight(np.float32(6))

    def relu6(x: str) -> str:
        return net.node("Clip", x, low, high)

    x = relu6(net.conv("x", (3, 32), 3, stride=2, folded=folded))
    inner = 32
    for expand, outer, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            stride, wide = (first if block == 0 else 1), inner * expand
            y = x if expand == 1 else relu6(net.conv(x, (inner, wide), 1, folded=folded))
            y = relu6(net.conv(y, (wide, wide), 3, stride=stride, group=wide, folded=folded))
            y = net.conv(y, (wide, outer), 1, folded=folded)
            x = net.node("Add", x, y) if stride == 1 and inner == outer else y
            inner = outer
    x = relu6(net.conv(x, (inner, 1280), 1, folded=folded))
    return net.model("mobilenet_v2", ["N", 3, size, size], net.classify(x, 1280), 1000)


def long_graph(nodes: int = 10_000) -> onnx.ModelProto:
    """A graph of small tensors, a quarter of whose nodes sanitizing removes.

    Each block of 20 nodes is 15 that stay and 5 that go: an Identity, a Reshape to the same shape,
    and a chain of three that compute a constant, another in each block.
    """
    if nodes % 20:
        raise ValueError(f"{nodes} nodes are not a number of blocks of 20")
    net = _Builder(seed=4)
    shape = net.weight(np.array([1, 64], np.int64))
    x = "x"
    for _ in range(nodes // 20):
        skip = x
        x = net.node("Identity", x)
        for op in ("Relu", "Neg", "Sigmoid", "Abs", "Tanh", "Neg", "Relu"):
            x = net.node(op, x)
        x = net.node("Reshape", x, shape)
        total = net.node("Add", net.normal(1, 64), net.normal(1, 64))
        factor = net.node("Tanh", net.node("Mul", total, net.normal(1, 64)))
        x = net.node("Mul", x, factor)
        for op in ("Neg", "Softsign", "Abs", "Tanh", "Neg", "Sigmoid"):
            x = net.node(op, x)
        x = net.node("Add", x, skip)
    return net.model("long", [1, 64], x, 64)
