"""A float32 copy of a model whose type onnxruntime's CPU kernels lack (bfloat16, and double for Conv)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from onnxq.graph.constants import SourceValues
from onnxq.graph.load import graphs, tensors
from onnxq.graph.source import copy_model

_OTHERS = (TensorProto.DOUBLE, TensorProto.BFLOAT16)

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


def as_float32(model: onnx.ModelProto, data_dir: Path | None = None) -> onnx.ModelProto:
    """A copy in which every double and bfloat16 tensor is float32, as TensorRT computes double.

    Args:
        model: a model without functions of its own; it is not modified.
        data_dir: the folder of its external data, from which weights of those types are read.
    """
    result = copy_model(model)
    for graph in graphs(result.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            _retype(info.type)
        _convert_nodes(graph.node)
    for tensor in tensors(result.graph):
        if tensor.data_type in _OTHERS:
            values = SourceValues(tensor, data_dir).load()
            with np.errstate(over="ignore"):
                tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))
    return result


def _convert_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _OTHERS:
                attribute.i = TensorProto.FLOAT


def _retype(kind: onnx.TypeProto) -> None:
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type in _OTHERS:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    elif kind.HasField("sequence_type"):
        _retype(kind.sequence_type.elem_type)
    elif kind.HasField("optional_type"):
        _retype(kind.optional_type.elem_type)
