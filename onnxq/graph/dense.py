"""Sparse weights written in full: TensorRT reads no others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.topology import Topology
from onnxq.graph.wiring import make_constant, reads

MOST = 1 << 28
"""Bytes that a weight may take in full."""


def densify(model: Topology) -> list[str]:
    """Writes sparse initializers and sparse Constant nodes in full, in place.

    Returns:
        The names of the tensors; those stay sparse that take more than `MOST` bytes, or are outputs.
    """
    written = []
    for graph in list(model.graphs()):
        source = model.sources[id(graph)]
        sparse = {entry.values.name: entry for entry in source.sparse_initializer}
        nodes = []
        for node in graph.nodes:
            value = _sparse_value(node)
            if value is not None and id(node.outputs[0]) not in model.graph_outputs and _fits(value):
                (tensor,) = node.outputs
                node.outputs.clear()
                written.append(_fill(tensor, value))
            else:
                nodes.append(node)
        graph.nodes = nodes
        for read in {id(t): t for node in nodes for t in reads(node)}.values():
            if read.name in sparse and not read.inputs and _fits(sparse[read.name]):
                written.append(_fill(read, sparse.pop(read.name)))
        del source.sparse_initializer[:]
        source.sparse_initializer.extend(sparse.values())
    return written


def _sparse_value(node: Any) -> onnx.SparseTensorProto | None:
    if node.op != "Constant" or node.domain:
        return None
    return next((a.sparse_tensor for a in node.proto.attribute if a.name == "sparse_value"), None)


def _fits(tensor: onnx.SparseTensorProto) -> bool:
    itemsize = onnx.helper.tensor_dtype_to_np_dtype(tensor.values.data_type).itemsize
    return int(math.prod(tensor.dims)) * itemsize <= MOST


def _fill(tensor: Any, sparse: onnx.SparseTensorProto) -> str:
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    array = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    make_constant(tensor, array)
    return str(tensor.name)
