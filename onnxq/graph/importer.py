"""Reading a GraphProto: the connections become onnx-graphsurgeon's, everything else is kept as it is.

graphsurgeon's own importer converts attributes and weights, which costs time and loses some.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from onnxq.graph.constants import SourceValues
from onnxq.graph.source import constant_value, without_nodes
from onnxq.graph.types import dtype_of, shape_of
from onnxq.graph.wiring import make_constant

_Scope = MutableMapping[str, Any]


class Importer:
    """Makes graphs of GraphProtos, and notes what graphsurgeon has no place for.

    Attributes:
        sources: what each graph's GraphProto said beside its nodes and weights, by the graph's id.
        parents: the graph around each subgraph body, by the body's id.
        outputs: the graph of each output of a graph, by the tensor's id.
        names: the names of all tensors.
        ambiguous: names that sibling bodies give to different tensors.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self.data_dir = data_dir
        self.sources: dict[int, onnx.GraphProto] = {}
        self.parents: dict[int, Any] = {}
        self.outputs: dict[int, Any] = {}
        self.names: set[str] = set()
        self.ambiguous: set[str] = set()

    def graph(self, source: onnx.GraphProto) -> Any:
        """The main graph. Constant nodes become constants, weights stay in their TensorProtos."""
        return self._graph(source, ChainMap())

    def _graph(self, source: onnx.GraphProto, outer: ChainMap[str, Any]) -> Any:
        own: dict[str, Any] = {}
        scope = outer.new_child(own)
        for tensor in source.initializer:
            own[tensor.name] = gs.Constant(tensor.name, SourceValues(tensor, self.data_dir))
        for info in source.value_info:
            if info.name not in outer:
                _declare(info, own)
        weights = {tensor.name for tensor in source.initializer}
        inputs = [_declare(info, own) for info in source.input if info.name not in weights]
        outputs = [_declare(info, own) for info in source.output]
        graph = gs.Graph(inputs=inputs, outputs=outputs, name=source.name)
        self.sources[id(graph)] = without_nodes(source)
        self.outputs.update((id(tensor), graph) for tensor in outputs)
        self._note_names(source)
        listed = {tensor.name for tensor in outputs}
        nodes = []
        for proto in source.node:
            value = constant_value(proto)
            if value is not None and proto.output[0] not in listed:
                tensor = own.setdefault(proto.output[0], gs.Variable(proto.output[0]))
                make_constant(tensor, SourceValues(value, self.data_dir))
            else:
                nodes.append(self._node(proto, graph, scope))
        graph.nodes = nodes
        return graph

    def _node(self, proto: onnx.NodeProto, graph: Any, scope: ChainMap[str, Any]) -> Any:
        inputs = [_tensor(name, scope) for name in proto.input]
        inner = [attribute for attribute in proto.attribute if attribute.HasField("g")]
        bodies = {attribute.name: self._graph(attribute.g, scope) for attribute in inner}
        self.parents.update((id(body), graph) for body in bodies.values())
        own = scope.maps[0]
        outputs = [_tensor(name, own) for name in proto.output]
        node = gs.Node(proto.op_type, proto.name, bodies, inputs, outputs, proto.domain or None)
        node.proto = proto
        if inner:
            node.proto = onnx.NodeProto()
            node.proto.CopyFrom(proto)
            for attribute in node.proto.attribute:
                attribute.ClearField("g")
        return node

    def _note_names(self, source: onnx.GraphProto) -> None:
        defined = [info.name for info in (*source.initializer, *source.input)]
        defined += [name for node in source.node for name in node.output]
        self.ambiguous.update(self.names.intersection(defined))
        self.names.update(defined)


def _declare(info: onnx.ValueInfoProto, own: _Scope) -> Any:
    """The tensor of a ValueInfoProto, with what it says of type and shape."""
    tensor = own.setdefault(info.name, gs.Variable(info.name))
    kind = info.type.tensor_type
    if isinstance(tensor, gs.Variable) and info.type.HasField("tensor_type"):
        if tensor.dtype is None:
            tensor.dtype = dtype_of(kind.elem_type)
        if tensor.shape is None and kind.HasField("shape"):
            tensor.shape = shape_of(kind.shape)
    return tensor


def _tensor(name: str, scope: _Scope) -> Any:
    """The tensor of a name, in the scope from now on; what a node reads may be of a graph around it."""
    if not name:
        return gs.Variable.empty()  # an optional input or output that is left out
    tensor = scope.get(name)
    if tensor is None:
        tensor = scope[name] = gs.Variable(name)
    return tensor
