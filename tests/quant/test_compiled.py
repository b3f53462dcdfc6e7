"""What NVIDIA's compiler makes of a plan: every planned layer runs in int8."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from grid_nets import Net

from onnxq import quantize
from onnxq.run import trt

pytestmark = pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")


def dense(net: Net, op: str, x: str, *shape: int, **attrs: object) -> str:
    weights = np.random.default_rng(len(net.graph.node)).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return net.add(op, x, net.const(weights.astype(np.float32)), **attrs)


def convolutions(rank: int) -> onnx.ModelProto:
    net = Net(1, 32, *[24 if rank < 3 else 8] * rank)
    x = net.add("Relu", dense(net, "Conv", "x", 32, 32, *[3] * rank, pads=[1] * 2 * rank))
    return net.model(dense(net, "Conv", x, 64, 32, *[1] * rank))


def products(op: str) -> onnx.ModelProto:
    net = Net(32, 64)
    x = net.add("Relu", dense(net, op, "x", 64, 128))
    return net.model(dense(net, op, x, 128, 32))


def residual() -> onnx.ModelProto:
    net = Net(1, 32, 16, 16)
    x = net.add("Relu", dense(net, "Conv", "x", 32, 32, 3, 3, pads=[1] * 4))
    a = net.add("Relu", dense(net, "Conv", x, 32, 32, 3, 3, pads=[1] * 4))
    b = dense(net, "Conv", a, 32, 32, 3, 3, pads=[1] * 4)
    y = net.add("Relu", net.add("Add", b, x))
    return net.model(dense(net, "Conv", y, 32, 32, 1, 1))


def concat_and_pool() -> onnx.ModelProto:
    net = Net(1, 32, 16, 16)
    a = net.add("Relu", dense(net, "Conv", "x", 32, 32, 3, 3, pads=[1] * 4))
    b = net.add("MaxPool", a, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    c = net.add("Relu", dense(net, "Conv", b, 32, 32, 1, 1))
    return net.model(dense(net, "Conv", net.add("Concat", a, c, axis=1), 32, 64, 3, 3))


def heads(gather: bool) -> onnx.ModelProto:
    """Attention whose q, k and v are cut out of one product."""
    net = Net(1, 32, 64)
    x = dense(net, "MatMul", "x", 64, 192)
    if gather:
        x = net.add("Reshape", x, net.const(np.array([1, 32, 3, 4, 16])))
        x = net.add("Transpose", x, perm=[2, 0, 3, 1, 4])
        q, k, v = (net.add("Gather", x, net.const(np.array(i)), axis=0) for i in range(3))
    else:
        parts = [
            net.add("Slice", x, *(net.const(np.array([n])) for n in (64 * i, 64 * i + 64, 2)))
            for i in range(3)
        ]
        shape = net.const(np.array([1, 32, 4, 16]))
        q, k, v = (net.add("Transpose", net.add("Reshape", p, shape), perm=[0, 2, 1, 3]) for p in parts)
    scores = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2])))
    mixed = net.add("Transpose", net.add("MatMul", scores, v), perm=[0, 2, 1, 3])
    flat = net.add("Reshape", mixed, net.const(np.array([1, 32, 64])))
    return net.model(dense(net, "MatMul", flat, 64, 64))


NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "conv 1-D": lambda: convolutions(1),
    "conv 2-D": lambda: convolutions(2),
    "conv 3-D": lambda: convolutions(3),
    "gemm": lambda: products("Gemm"),
    "matmul": lambda: products("MatMul"),
    "residual": residual,
    "concat": concat_and_pool,
    "heads cut after the transpose": lambda: heads(gather=True),
    "heads cut before the transpose": lambda: heads(gather=False),
}


@pytest.mark.parametrize("name", NETS)
def test_every_planned_layer_runs_in_int8(name: str) -> None:
    proto = NETS[name]()
    before = proto.SerializeToString(deterministic=True)
    size = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    result = quantize(proto, [{"x": rng.standard_normal(size, np.float32)} for _ in range(6)])
    assert proto.SerializeToString(deterministic=True) == before
    engine = result.report["engine"]
    assert engine["status"] == "compiled", engine["reason"]
    weights = {tensor.name for tensor in proto.graph.initializer}
    layers = [
        n for n in proto.graph.node if n.op_type in ("Conv", "Gemm", "MatMul") and n.input[1] in weights
    ]
    assert engine["planned"] == len(layers)
    assert engine["not_int8"] == []
    (accuracy,) = result.report["accuracy"]
    assert accuracy["sqnr_db"] > 25
