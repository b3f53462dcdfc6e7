"""Float32 scales for the MatMuls of a float16 model whose weights have a float16 scale a channel.

Compiled, such a product seems to be written in float16 before it is scaled: sums over 65,504 are lost. Its
speed is no measure of a model that works, so it is compared with its scales in float32, casts around them.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_MOVES = ("Reshape", "Transpose", "Identity", "Squeeze", "Unsqueeze", "Split", "Slice", "Cast")


def safe_scales(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """A copy with float32 scales for all pairs of such layers; None where it has none.

    Args:
        model: a model with Q/DQ pairs whose scales are initializers or given by Constant nodes.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    held |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    maker = {name: node for node in graph.node for name in node.output}
    wide: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        if node.op_type in ("MatMul", "Gemm"):
            pairs = [_dequantized(name, maker) for name in node.input[:2]]
            if any(pair is not None and _by_channel_half(pair, held) for pair in pairs):
                wide.update((pair.output[0], pair) for pair in pairs if pair is not None)
    if not wide:
        return None
    made: list[onnx.NodeProto] = []
    for node in graph.node:
        quantized = node.op_type == "QuantizeLinear" and any(
            pair.input[0] == node.output[0] for pair in wide.values()
        )
        if quantized:
            made.append(
                helper.make_node("Cast", [node.input[0]], [f"{node.output[0]}_wide"], to=TensorProto.FLOAT)
            )
            node.input[0] = made[-1].output[0]
        made.append(node)
        if node.output and node.output[0] in wide:
            name = node.output[0]
            node.output[0] = f"{name}_wide"
            made.append(helper.make_node("Cast", [node.output[0]], [name], to=TensorProto.FLOAT16))
        elif not quantized:
            continue
        node.input[1] = _widened(graph, held[node.input[1]], node.input[1])
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in made]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _dequantized(name: str, maker: dict[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    """The DequantizeLinear that a tensor is of, through moves."""
    node = maker.get(name)
    while node is not None and node.op_type in _MOVES:
        node = maker.get(node.input[0])
    return node if node is not None and node.op_type == "DequantizeLinear" else None


def _by_channel_half(pair: onnx.NodeProto, held: dict[str, TensorProto]) -> bool:
    scale = held.get(pair.input[1])
    return scale is not None and scale.data_type == TensorProto.FLOAT16 and int(np.prod(scale.dims)) > 1


def _widened(graph: onnx.GraphProto, scale: TensorProto, name: str) -> str:
    wide = f"{name}_wide"
    if all(tensor.name != wide for tensor in graph.initializer):
        values = numpy_helper.to_array(scale).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(values, wide))
    return wide
