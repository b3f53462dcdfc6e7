"""A model in a plainer form, which means the same: dense weights, an older opset, float32."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnxq.graph.constants import SourceValues
from onnxq.graph.half import HALF
from onnxq.graph.load import graphs, tensors
from onnxq.graph.source import copy_model
from onnxq.graph.topology import Topology
from onnxq.graph.wiring import make_constant, reads

# Sparse weights written in full: TensorRT reads no others.

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


# An older opset for a model of which no operator changed since: only its stamp is another one.


def lower_opset(model: Topology, opset: int) -> str:
    """Gives a model an older opset, in place, where that says the same.

    Args:
        model: the model.
        opset: the version that it is to have.

    Returns:
        Why it is left as it is: an operator that is newer, or a version that onnx does not know; "" where
        it has the older opset now.
    """
    if model.opset > onnx.defs.onnx_opset_version():
        return f"onnx {onnx.__version__} does not know opset {model.opset}"
    for graph in model.graphs():
        for node in graph.nodes:
            if node.domain not in (None, "", "ai.onnx") or not onnx.defs.has(node.op, model.opset, ""):
                continue
            since = onnx.defs.get_schema(node.op, model.opset, "").since_version
            if since > opset:
                return f"{node.op} {node.name!r} is of opset {since}"
    model.opset = opset
    for entry in model.envelope.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = opset
    return ""


# A float32 copy of a model: of one whose type onnxruntime's CPU kernels lack, or of half precision.

_OTHERS = (TensorProto.DOUBLE, TensorProto.BFLOAT16)
"""What onnxruntime does not run, or not all of (double for Conv)."""

# Attributes that name an element type: of Cast, EyeLike, Random*, QuantizeLinear, HannWindow, ...
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")


def has_other_floats(model: onnx.ModelProto) -> bool:
    """Whether an input or a weight is double or bfloat16."""
    typed = (info.type.tensor_type.elem_type for info in model.graph.input)
    return any(kind in _OTHERS for kind in typed) or any(
        tensor.data_type in _OTHERS for tensor in tensors(model.graph)
    )


def speaks_bfloat16(model: onnx.ModelProto) -> bool:
    """Whether an input or output is bfloat16, of which onnxruntime takes and gives no arrays."""
    ends = (*model.graph.input, *model.graph.output)
    return any(info.type.tensor_type.elem_type == TensorProto.BFLOAT16 for info in ends)


def as_float32(
    model: onnx.ModelProto, data_dir: Path | None = None, kinds: Collection[int] = _OTHERS
) -> onnx.ModelProto:
    """A copy in which every double and bfloat16 tensor is float32, as TensorRT computes double.

    Args:
        model: a model without functions of its own; it is not modified.
        data_dir: the folder of its external data, from which weights of those types are read.
        kinds: the element types that become float32, where they are others.
    """
    result = copy_model(model)
    for graph in graphs(result.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            _retype(info.type, kinds)
        _convert_nodes(graph.node, kinds)
    for tensor in tensors(result.graph):
        if tensor.data_type in kinds:
            values = SourceValues(tensor, data_dir).load()
            with np.errstate(over="ignore"):
                tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))
    return result


def widened(model: onnx.ModelProto, data_dir: Path | None = None, *, io: bool) -> onnx.ModelProto:
    """A copy in which what is float16 or bfloat16 is float32.

    Args:
        model: as in `as_float32`.
        data_dir: likewise.
        io: whether inputs and outputs are too; else they are cast.
    """
    result = as_float32(model, data_dir, HALF)
    if io:
        return result
    inner: dict[str, str] = {}
    taken = {name for graph in graphs(result.graph) for node in graph.node for name in node.output}
    casts: dict[bool, list[onnx.NodeProto]] = {True: [], False: []}
    for fields, olds, news in (
        (True, model.graph.input, result.graph.input),
        (False, model.graph.output, result.graph.output),
    ):
        for old, new in zip(olds, news, strict=True):
            kind = old.type.tensor_type.elem_type
            if kind in HALF:
                name = f"{old.name}_float32"
                while name in taken:
                    name += "_"
                inner[old.name] = name
                new.type.tensor_type.elem_type = kind
                read, made = (old.name, name) if fields else (name, old.name)
                to = TensorProto.FLOAT if fields else kind
                casts[fields].append(onnx.helper.make_node("Cast", [read], [made], f"{name}_Cast", to=to))
    for graph in graphs(result.graph):
        for node in graph.node:
            node.input[:] = [inner.get(name, name) for name in node.input]
            node.output[:] = [inner.get(name, name) for name in node.output]
    nodes = onnx.GraphProto(node=[*casts[True], *result.graph.node, *casts[False]])
    del result.graph.node[:]
    result.graph.node.extend(nodes.node)
    return result


def _convert_nodes(nodes: Iterable[onnx.NodeProto], kinds: Collection[int]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in kinds:
                attribute.i = TensorProto.FLOAT


def _retype(kind: onnx.TypeProto, kinds: Collection[int]) -> None:
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type in kinds:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    elif kind.HasField("sequence_type"):
        _retype(kind.sequence_type.elem_type, kinds)
    elif kind.HasField("optional_type"):
        _retype(kind.optional_type.elem_type, kinds)
