"""Graphs that are no nets."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from benchmarks.nets.builder import Builder


def long_graph(nodes: int = 10_000) -> onnx.ModelProto:
    """A graph of small tensors, a quarter of whose nodes sanitizing removes.

    Each block of 20 nodes is 15 that stay and 5 that go: an Identity, a Reshape to the same shape,
    and a chain of three that compute a constant, another in each block.
    """
    if nodes % 20:
        raise ValueError(f"{nodes} nodes are not a number of blocks of 20")
    net = Builder(seed=4)
    shape = net.ints(1, 64)
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
    return net.model("long", {"x": (TensorProto.FLOAT, [1, 64])}, x, [1, 64])
