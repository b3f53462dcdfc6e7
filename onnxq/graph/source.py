"""What is kept of the source's protobufs, because graphsurgeon would lose it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

_A = onnx.AttributeProto
_CONSTANT_FORMS = {
    "value": _A.TENSOR,
    "value_float": _A.FLOAT,
    "value_floats": _A.FLOATS,
    "value_int": _A.INT,
    "value_ints": _A.INTS,
}


def copy_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def without_graph(model: onnx.ModelProto) -> onnx.ModelProto:
    """What a model says of itself beside its graph."""
    target = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name == "graph":
            continue
        if field.is_repeated:
            getattr(target, field.name).extend(value)
        elif field.message_type is not None:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
    return target


def without_nodes(graph: onnx.GraphProto) -> onnx.GraphProto:
    """What a graph says of itself beside its nodes and weights."""
    target = onnx.GraphProto(name=graph.name)
    if graph.HasField("doc_string"):
        target.doc_string = graph.doc_string
    for infos in (graph.value_info, graph.input, graph.output):
        target.value_info.extend(infos)
    target.quantization_annotation.extend(graph.quantization_annotation)
    target.metadata_props.extend(graph.metadata_props)
    target.sparse_initializer.extend(graph.sparse_initializer)
    return target


def constant_value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node; None where it is not one, or is sparse or of strings."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.type != _CONSTANT_FORMS.get(attribute.name) or len(node.output) != 1 or node.input:
        return None
    if attribute.name == "value" and not attribute.HasField("t"):
        return None
    if attribute.name == "value":
        return None if attribute.t.data_type == onnx.TensorProto.STRING else attribute.t
    dtype = np.float32 if "float" in attribute.name else np.int64
    return numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(attribute), dtype))
