"""A graph that grows node by node, with weights as training leaves them.

Random weights alone let activations die or explode with depth. Each node is therefore computed on a
few samples as it is appended, and BatchNormalization has the means and variances that it finds there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxq.run import ort

OPSET, IR_VERSION = 17, 8

Dims = Sequence[int | str]


class Builder:
    """A graph; tensors are named by their number.

    Attributes:
        random: what the weights are drawn from.
    """

    def __init__(self, seed: int, samples: Mapping[str, np.ndarray] | None = None) -> None:
        """An empty graph.

        Args:
            seed: of `random`.
            samples: a batch for each input; None for a graph whose weights need none.
        """
        self.random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._values = None if samples is None else dict(samples)

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Appends a node of one output; returns the output's name."""
        return self.nodes(op, *inputs, count=1, **attrs)[0]

    def nodes(self, op: str, *inputs: str, count: int, **attrs: Any) -> list[str]:
        """Appends a node of several outputs; returns their names."""
        number = len(self._nodes)
        outputs = [f"t{number}_{index}" if index else f"t{number}" for index in range(count)]
        node = helper.make_node(op, inputs, outputs, f"{op}_{number}", **attrs)
        self._nodes.append(node)
        if self._values is not None:
            self._values.update(zip(outputs, self._compute(node), strict=True))
        return outputs

    def _compute(self, node: onnx.NodeProto) -> list[np.ndarray]:
        """The outputs of a node for the samples."""
        assert self._values is not None
        feeds = {name: self._values[name] for name in node.input if name in self._values}
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
        ]
        weights = [self._weights[name] for name in node.input if name in self._weights]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "node", infos, outputs, weights)
        return ort.load(_model(graph), optimize=False, threads=1).run(feeds)

    def weight(self, values: np.ndarray) -> str:
        """Appends a constant; returns its name."""
        name = f"w{len(self._weights)}"
        self._weights[name] = numpy_helper.from_array(values, name)
        return name

    def ints(self, *values: int) -> str:
        """A constant of int64, one axis."""
        return self.weight(np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """A constant float32 without axes."""
        return self.weight(np.array(value, np.float32))

    def floats(self, values: np.ndarray) -> str:
        """A constant of these values as float32."""
        return self.weight(values.astype(np.float32))

    def normal(self, *shape: int, mean: float = 0.0, spread: float = 1.0) -> str:
        """A constant of normal deviates, float32."""
        return self.floats(mean + spread * self.random.standard_normal(shape))

    def log_normal(self, count: int, deviation: float) -> np.ndarray:
        """Factors whose logarithms have this standard deviation; their mean square is 1."""
        factors = np.exp(deviation * self.random.standard_normal(count))
        return np.asarray(factors / math.sqrt(np.mean(factors**2)))

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int,
        *,
        stride: int = 1,
        group: int = 1,
        folded: bool = True,
        scale: float = 1.0,
        tail: float = 0.0,
    ) -> str:
        """A convolution that keeps the size, and its BatchNormalization.

        Args:
            x: [N, inner, H, W].
            channels: inner and outer.
            kernel: height and width, odd.
            stride: in both directions.
            group: the number of groups.
            folded: whether BatchNormalization is folded into the convolution; the function is the same.
            scale: the root mean square of its factors (gamma).
            tail: the standard deviation of their logarithm: how far training drove channels apart.
        """
        inner, outer = channels
        weight = self.random.standard_normal((outer, inner // group, kernel, kernel))
        gamma = scale * self.log_normal(outer, tail)
        beta = 0.1 * scale * self.random.standard_normal(outer)
        attrs: dict[str, Any] = {
            "kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": group
        }  # fmt: skip
        mean, variance = self._moments("Conv", x, weight, **attrs)
        if folded:
            factor = gamma / np.sqrt(variance + 1e-5)
            weight, bias = weight * factor.reshape(-1, 1, 1, 1), beta - mean * factor
            return self.node("Conv", x, self.floats(weight), self.floats(bias), **attrs)
        x = self.node("Conv", x, self.floats(weight), **attrs)
        return self.node("BatchNormalization", x, *map(self.floats, (gamma, beta, mean, variance)))

    def plain_conv(self, x: str, channels: tuple[int, int], kernel: int, *, stride: int = 1) -> str:
        """A convolution without BatchNormalization whose outputs have mean square 1; not padded."""
        inner, outer = channels
        weight = self.random.standard_normal((outer, inner, kernel, kernel))
        attrs: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        mean, variance = self._moments("Conv", x, weight, **attrs)
        weight /= math.sqrt(np.mean(variance + mean**2))
        return self.node("Conv", x, self.floats(weight), self.normal(outer, spread=0.1), **attrs)

    def dense(self, x: str, channels: tuple[int, int], *, scale: float = 1.0, bias: float = 0.0) -> str:
        """A fully connected layer over the last axis: a MatMul and the addition of a bias.

        Args:
            x: [..., inner].
            channels: inner and outer.
            scale: the root mean square of the MatMul's output.
            bias: the mean of the biases.
        """
        weight = self.random.standard_normal(channels)
        mean, variance = self._moments("MatMul", x, weight)
        weight *= scale / math.sqrt(np.mean(variance + mean**2))
        product = self.node("MatMul", x, self.floats(weight))
        return self.node("Add", self.normal(channels[1], mean=bias, spread=0.1), product)

    def _moments(self, op: str, x: str, weight: np.ndarray, **attrs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each output channel of a Conv or a MatMul, for the samples."""
        assert self._values is not None
        self._values["weight"] = weight.astype(np.float32)
        (y,) = self._compute(helper.make_node(op, [x, "weight"], ["y"], **attrs))
        channel = 1 if op == "Conv" else y.ndim - 1
        others = tuple(axis for axis in range(y.ndim) if axis != channel)
        return y.mean(others, np.float64), y.var(others, np.float64)

    def silu(self, x: str) -> str:
        """Swish, x * sigmoid(x), as PyTorch exports it."""
        return self.node("Mul", x, self.node("Sigmoid", x))

    def classify(self, x: str, channels: int, classes: int) -> str:
        """Global pooling of [N, channels, H, W] and a fully connected layer."""
        return self.head(self.node("Flatten", self.node("GlobalAveragePool", x), axis=1), channels, classes)

    def head(self, x: str, channels: int, classes: int) -> str:
        """A fully connected layer of [N, channels]."""
        weight = self.normal(classes, channels, spread=1 / math.sqrt(channels))
        return self.node("Gemm", x, weight, self.normal(classes, spread=0.1), transB=1)

    def model(
        self, name: str, inputs: Mapping[str, tuple[int, Dims]], output: str, shape: Dims
    ) -> onnx.ModelProto:
        """The model of one output.

        Args:
            name: the graph's name.
            inputs: element type and shape of each.
            output: the tensor that leaves the model, float32.
            shape: its shape.
        """
        infos = [helper.make_tensor_value_info(x, kind, dims) for x, (kind, dims) in inputs.items()]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        return _model(helper.make_graph(self._nodes, name, infos, outputs, list(self._weights.values())))

    def image_model(self, name: str, size: int, output: str, *shape: int) -> onnx.ModelProto:
        """The model of an input `x`, [N, 3, size, size], and an output [N, *shape]."""
        return self.model(name, {"x": (TensorProto.FLOAT, ["N", 3, size, size])}, output, ["N", *shape])


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
