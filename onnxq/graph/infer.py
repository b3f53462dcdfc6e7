"""Shape and type inference: ONNX's own, with data propagation."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_graphsurgeon as gs

from onnxq.graph.types import dtype_of, shape_of
from onnxq.graph.wiring import bodies


def assign_types(graph: Any, inferred: onnx.GraphProto) -> None:
    """Gives the tensors of a graph and its bodies the types of an inferred copy."""
    types = {}
    for info in (*inferred.value_info, *inferred.output, *inferred.input):
        if info.type.HasField("tensor_type"):
            types[info.name] = info.type.tensor_type
    for node in graph.nodes:
        for tensor in node.outputs:
            found = types.get(tensor.name)
            if found is not None and isinstance(tensor, gs.Variable):
                tensor.dtype = dtype_of(found.elem_type) or tensor.dtype
                if found.HasField("shape"):
                    tensor.shape = shape_of(found.shape)
    copies = {node.name: node for node in inferred.node if node.attribute}
    for node in graph.nodes:
        inner = bodies(node)
        if inner and node.name in copies:
            protos = {a.name: a.g for a in copies[node.name].attribute if a.HasField("g")}
            for name, body in node.attrs.items():
                if isinstance(body, gs.Graph) and name in protos:
                    assign_types(body, protos[name])
