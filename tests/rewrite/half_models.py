"""Models of float32 in half precision: every float tensor but what operators want in float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
_IN_FLOAT = {"Resize": (1, 2), "Upsample": (1,)}  # regions and scales


def as_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of which inputs, outputs, weights and casts are float16."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    del half.graph.value_info[:]
    keep = {name for node in _nodes(half.graph) for name in _float_operands(node)}
    for graph in _graphs(half.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.type.tensor_type.elem_type == FLOAT:
                info.type.tensor_type.elem_type = HALF
        for tensor in graph.initializer:
            if tensor.name not in keep:
                _halve(tensor)
    nodes = [*_nodes(half.graph), *(node for function in half.functions for node in function.node)]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == FLOAT:
                attribute.i = HALF
            if attribute.HasField("t") and not keep.intersection(node.output):
                _halve(attribute.t)
    return half


def _float_operands(node: onnx.NodeProto) -> Iterator[str]:
    for index in _IN_FLOAT.get(node.op_type, ()):
        if index < len(node.input):
            yield node.input[index]


def _halve(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == FLOAT:
        with np.errstate(over="ignore"):
            values = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for inner in _graphs(graph):
        yield from inner.node
