"""A float32 copy of a model: of one whose type onnxruntime's CPU kernels lack, or of half precision."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnxq.graph.constants import SourceValues
from onnxq.graph.half import HALF
from onnxq.graph.load import graphs, tensors
from onnxq.graph.source import copy_model

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
