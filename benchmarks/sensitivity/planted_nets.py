"""Small nets in which one thing spoils int8, and the layers that have to be float against it.

All but one, which is trained, are chains of convolutions of random weights whose variance stays what it is,
with a head of 10 outputs; the cause is where the names say. What is planted is exact in float: the reader
undoes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, WIDTH = 12, 16  # of the input [1, 16, 12, 12]
LOUD = 300.0
APART = 200.0
UNEVEN = 1000.0


@dataclass(frozen=True, slots=True)
class Planted:
    """A net and its cause.

    Attributes:
        name: what is planted.
        model: the net, input `x`.
        layers: the layers that have to be float, all of them.
    """

    name: str
    model: onnx.ModelProto
    layers: frozenset[str]


class Chain:
    """A net, layer by layer."""

    def __init__(self, seed: int) -> None:
        """An empty one; `seed`: of its weights."""
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def kernel(self, into: int, out: int, size: int) -> np.ndarray:
        """Weights [out, into, size, size] that keep the variance of what a Relu gave."""
        values = self.random.standard_normal((out, into, size, size))
        return values * np.sqrt(2 / (into * size * size))

    def conv(
        self, name: str, x: str, weight: np.ndarray, bias: np.ndarray | None = None, stride: int = 1
    ) -> str:
        """A convolution as wide as its input, over the stride."""
        given = [x]
        for suffix, values in (("w", weight), ("b", bias)):
            if values is not None:
                given.append(f"{name}.{suffix}")
                self.weights.append(numpy_helper.from_array(values.astype(np.float32), given[-1]))
        pads = [weight.shape[-1] // 2] * 4
        return self.add("Conv", name, *given, pads=pads, strides=[stride] * 2)

    def add(self, op: str, name: str, *inputs: str, **attributes: object) -> str:
        """A node, and its output, of one name."""
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def relu(self, x: str) -> str:
        """A Relu behind a tensor."""
        return self.add("Relu", f"{x}.relu", x)

    def rest(self, x: str) -> onnx.ModelProto:
        """The net that ends in two layers more and the head."""
        for name in ("later1", "later2"):
            x = self.relu(self.conv(name, x, self.kernel(WIDTH, WIDTH, 3)))
        x = self.add("Flatten", "flat", self.add("AveragePool", "pooled", x, kernel_shape=[3, 3]))
        side = (SIZE // 2 if any(node.name == "shrunk" for node in self.nodes) else SIZE) - 2
        size = WIDTH * side**2
        head = (self.random.standard_normal((size, 10)) / np.sqrt(size)).astype(np.float32)
        self.weights.append(numpy_helper.from_array(head, "head.w"))
        self.add("MatMul", "head", x, "head.w")
        graph = helper.make_graph(
            self.nodes,
            "planted",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH, SIZE, SIZE])],
            [helper.make_tensor_value_info("head", TensorProto.FLOAT, [1, 10])],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _louder(chain: Chain, name: str, x: str) -> str:
    """A layer of which one channel is 300 times the others."""
    weight = chain.kernel(WIDTH, WIDTH, 3)
    weight[3] *= LOUD
    return chain.relu(chain.conv(name, x, weight))


def _undoing(chain: Chain) -> np.ndarray:
    """Weights of a reader of it."""
    weight = chain.kernel(WIDTH, WIDTH, 3)
    weight[:, 3] /= LOUD
    return weight


def loud_channel(seed: int) -> Planted:
    """One channel is 300 times the others, and its reader undoes that."""
    chain = Chain(seed)
    x = _louder(chain, "loud", chain.relu(chain.conv("first", "x", chain.kernel(WIDTH, WIDTH, 3))))
    x = chain.relu(chain.conv("undo", x, _undoing(chain)))
    return Planted("one channel 300 times", chain.rest(x), frozenset({"undo"}))


def bimodal(seed: int) -> Planted:
    """A tensor whose values are near -200 or near 200; its reader takes that away."""
    chain = Chain(seed)
    x = chain.relu(chain.conv("first", "x", chain.kernel(WIDTH, WIDTH, 3)))
    shift = APART * chain.random.permutation(np.repeat([-1.0, 1.0], WIDTH // 2))
    x = chain.conv("modes", x, chain.kernel(WIDTH, WIDTH, 3), shift)
    weight = chain.kernel(WIDTH, WIDTH, 1)
    x = chain.relu(chain.conv("undo", x, weight, -weight[..., 0, 0] @ shift))
    return Planted("bimodal tensor", chain.rest(x), frozenset({"undo"}))


def uneven_concat(seed: int, uneven: float = UNEVEN) -> Planted:
    """A Concat of two tensors, 1000 to 1, whose reader makes them alike."""
    chain = Chain(seed)
    x = chain.relu(chain.conv("first", "x", chain.kernel(WIDTH, WIDTH, 3)))
    great = chain.relu(chain.conv("great", x, uneven * chain.kernel(WIDTH, WIDTH, 3)))
    small = chain.relu(chain.conv("small", x, chain.kernel(WIDTH, WIDTH, 3)))
    both = chain.add("Concat", "both", great, small, axis=1)
    weight = chain.kernel(2 * WIDTH, WIDTH, 3)
    weight[:, :WIDTH] /= uneven
    x = chain.relu(chain.conv("undo", both, weight))
    return Planted(f"Concat of {uneven:g}:1", chain.rest(x), frozenset({"undo"}))


def before_pool(seed: int) -> Planted:
    """The loud channel is in front of a MaxPool that two layers read: both have to be float."""
    chain = Chain(seed)
    x = _louder(chain, "loud", chain.relu(chain.conv("first", "x", chain.kernel(WIDTH, WIDTH, 3))))
    x = chain.add("MaxPool", "shrunk", x, kernel_shape=[2, 2], strides=[2, 2])
    one = chain.conv("undo1", x, _undoing(chain))
    other = chain.conv("undo2", x, _undoing(chain))
    x = chain.relu(chain.add("Add", "sum", one, other))
    return Planted("before a shared MaxPool", chain.rest(x), frozenset({"undo1", "undo2"}))


def beside_pool(seed: int) -> Planted:
    """The loud channel is read by a layer, and by another behind a MaxPool: both have to be float."""
    chain = Chain(seed)
    loud = _louder(chain, "loud", chain.relu(chain.conv("first", "x", chain.kernel(WIDTH, WIDTH, 3))))
    x = chain.add("MaxPool", "shrunk", loud, kernel_shape=[2, 2], strides=[2, 2])
    one = chain.conv("undo1", x, _undoing(chain))
    other = chain.conv("undo2", loud, _undoing(chain), stride=2)
    x = chain.relu(chain.add("Add", "sum", one, other))
    return Planted("a MaxPool and a layer", chain.rest(x), frozenset({"undo1", "undo2"}))


MAKERS: tuple[Callable[[int], Planted], ...] = (
    loud_channel,
    bimodal,
    uneven_concat,
    before_pool,
    beside_pool,
)


def loud_in_digits(model: onnx.ModelProto, seed: int) -> Planted:
    """The loud channel in the trained sample model: of those that the reader weighs most, one by seed."""
    model = copy_of(model)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    reader = numpy_helper.to_array(weights["fine.second.0.weight"]).copy()
    channel = int(np.argsort(-np.square(reader).sum((0, 2, 3)))[seed])
    reader[:, channel] /= LOUD
    weights["fine.second.0.weight"].CopyFrom(numpy_helper.from_array(reader, "fine.second.0.weight"))
    for name in ("fine.first.1.weight", "fine.first.1.bias"):
        values = numpy_helper.to_array(weights[name]).copy()
        values[channel] *= LOUD
        weights[name].CopyFrom(numpy_helper.from_array(values, name))
    return Planted("digits, a channel 300 times", model, frozenset({"/fine/second/second.0/Conv"}))


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of its own."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    return found


def samples(seed: int, count: int) -> list[dict[str, np.ndarray]]:
    """Smooth random inputs, so that neighbours say something of each other."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        coarse = random.standard_normal((1, WIDTH, SIZE // 3, SIZE // 3)).repeat(3, 2).repeat(3, 3)
        fine = random.standard_normal((1, WIDTH, SIZE, SIZE))
        found.append({"x": (coarse + 0.5 * fine).astype(np.float32)})
    return found
