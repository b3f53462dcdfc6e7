"""What an operator computes by ONNX's own words: the function body of its schema, as new values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.source import constant_value
from onnxq.graph.types import elem_type_of, set_shape
from onnxq.graph.value import NewConstant, NewNode, NewOutput
from onnxq.graph.view import Node, Value


def function_body(node: Node) -> tuple[Value | None, ...] | None:
    """What computes the outputs of a node by the function body of its operator's schema.

    The attributes that it does not have are those of the schema. A body that depends on the types of what it
    reads is made for these.

    Returns:
        A value for each output of the operator, None for one that the body does not give; None where the
        schema has no body for the model's opset, or its types are not known.
    """
    if node.domain or not node.is_defined:
        return None
    function = _function(node)
    if function is None or any(a.HasField("g") for inner in function.node for a in inner.attribute):
        return None
    values: dict[str, Value | None] = dict(zip(function.input, node.inputs, strict=False))
    for inner in function.node:
        if inner.op_type == "Constant":
            array = _constant(inner, node)
            values[inner.output[0]] = None if array is None else NewConstant(array)
            continue
        new = NewNode(
            inner.op_type,
            tuple(values.get(name) for name in inner.input),
            _attributes(inner, node),
            len(inner.output),
            domain="" if inner.domain == "ai.onnx" else inner.domain,
        )
        values.update((name, NewOutput(new, index)) for index, name in enumerate(inner.output) if name)
    return tuple(values.get(name) for name in function.output)


def _function(node: Node) -> onnx.FunctionProto | None:
    """The function body of a node's operator, the newest one that the model's opset has."""
    schema: Any = onnx.defs.get_schema(node.op, node.opset, "")  # its stubs do not know these methods
    plain = [version for version in schema.function_opset_versions if version <= node.opset]
    if plain:
        return _parsed(schema.get_function_with_opset_version(max(plain)))
    versions = [one for one in schema.context_dependent_function_opset_versions if one <= node.opset]
    if not versions or any(tensor is not None and tensor.dtype is None for tensor in node.inputs):
        return None
    proto = onnx.NodeProto()
    proto.CopyFrom(node.node.proto)
    names = [f"i{index}" if tensor is not None else "" for index, tensor in enumerate(node.inputs)]
    proto.ClearField("input")
    proto.ClearField("output")
    proto.input.extend(names)
    proto.output.extend(tensor.name for tensor in node.outputs)
    types = [_type(tensor) for tensor in node.inputs]
    return _parsed(
        schema.get_context_dependent_function_with_opset_version(
            max(versions), proto.SerializeToString(), types
        )
    )


def _type(tensor: Value | None) -> bytes:
    kind = onnx.TypeProto()
    if tensor is not None and tensor.dtype is not None:
        kind.tensor_type.elem_type = elem_type_of(tensor.dtype)
        set_shape(kind.tensor_type, tensor.shape)
    return bytes(kind.SerializeToString())


def _constant(inner: onnx.NodeProto, node: Node) -> np.ndarray | None:
    """The values of a body's Constant, or of the attribute that it stands for; None where there is none."""
    (attribute,) = inner.attribute
    if not attribute.ref_attr_name:
        tensor = constant_value(inner)
        return None if tensor is None else numpy_helper.to_array(tensor)
    value = node.attr(attribute.ref_attr_name)
    dtype = np.float32 if "float" in attribute.name else np.int64
    return None if value is None else np.array(value, dtype)


def _parsed(body: Any) -> onnx.FunctionProto | None:
    if isinstance(body, onnx.FunctionProto):
        return body
    function = onnx.FunctionProto.FromString(body) if body else None
    return function if function is not None and function.node else None


def _attributes(inner: onnx.NodeProto, node: Node) -> dict[str, Any]:
    """The attributes of a body's node; those that it takes from the function are the node's own."""
    attributes: dict[str, Any] = {}
    for attribute in inner.attribute:
        if attribute.ref_attr_name:
            value = node.attr(attribute.ref_attr_name)
        else:
            value = onnx.helper.get_attribute_value(attribute)
        if value is not None:
            attributes[attribute.name] = value
    return attributes
