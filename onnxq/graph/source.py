"""What is kept of the source's protobufs, because graphsurgeon would lose it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from onnxq.base.errors import UserError

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


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose nodes are no calls of its own functions; the model itself where it has none.

    Raises:
        UserError: a function calls itself, by way of others too, or cannot be put where it is called.
    """
    if not model.functions:
        return model
    try:
        return inliner.inline_local_functions(_with_defaults(model))
    except Exception as error:  # classes of onnx's C++ part without a common base
        raise UserError(
            f"the model's own functions cannot be put where they are called: {error}",
            hint="export the model again without functions of its own",
        ) from error


def _with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose calls have the attributes that functions have by default: the inliner forgets them."""
    defaults = {
        (one.domain, one.name, getattr(one, "overload", "")): one.attribute_proto
        for one in model.functions
        if one.attribute_proto
    }
    if not defaults:
        return model
    model = copy_model(model)
    todo: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while todo:
        for node in todo.pop().node:
            given = {attribute.name for attribute in node.attribute}
            called = (node.domain, node.op_type, getattr(node, "overload", ""))
            node.attribute.extend(one for one in defaults.get(called, ()) if one.name not in given)
            todo += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            todo += [graph for attribute in node.attribute for graph in attribute.graphs]
    return model


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
