"""Writing a model as it stands: the source's own words wherever they still hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import numpy_helper

from onnxq.base.grouped import grouped
from onnxq.graph.constants import SourceValues, array_of
from onnxq.graph.rooted import refer
from onnxq.graph.source import copy_model
from onnxq.graph.topology import Topology
from onnxq.graph.types import elem_type_of, set_shape, value_info
from onnxq.graph.wiring import element_count, tensor_shape

# Larger constants play no part in shape inference: there they are typed inputs without data.
_SHAPE_ELEMENTS = 1024

_MIN_BYTES = 1 << 20  # of external data that need not be read to be run


class Exporter:
    """Writes a model, or parts of it, as protobufs.

    Args:
        model: the model.
        weights: False leaves large constants out (they become typed inputs), for inference of
            shapes and types.
        handover: the protobuf becomes the home of new constants, so that they are in memory once.
    """

    def __init__(self, model: Topology, *, weights: bool = True, handover: bool = False) -> None:
        self.model = model
        self.weights = weights
        self.handover = handover

    def export(self) -> onnx.ModelProto:
        """The whole model. External data stays external."""
        target = copy_model(self.model.envelope)
        self.graph(self.model.graph, target.graph)
        domains = {entry.domain for entry in target.opset_import}
        used = {node.domain or "" for graph in self.model.graphs() for node in graph.nodes}
        for domain in sorted(used - domains):
            if domain not in ("", "ai.onnx") or not domains & {"", "ai.onnx"}:
                target.opset_import.add(domain=domain, version=1)
        return target

    def graph(self, graph: Any, target: onnx.GraphProto) -> None:
        """Writes a graph."""
        source = self.model.sources[id(graph)]
        target.CopyFrom(source)
        del target.value_info[:]
        alive: dict[str, Any] = {}
        for node in graph.nodes:
            self.node(node, target.node.add())
            alive.update((tensor.name, tensor) for tensor in node.outputs)
        for tensor in self._homes.get(id(graph), ()):
            if not self.weights and graph is self.model.graph and element_count(tensor) > _SHAPE_ELEMENTS:
                target.input.append(value_info(tensor.name, tensor.dtype, tensor_shape(tensor)))
            else:
                entry = target.initializer.add()
                export_constant(tensor, entry)
                if self.handover:
                    tensor._values = SourceValues(entry, self.model.data_dir)
        infos = {info.name: info for info in source.value_info}
        for tensor in graph.inputs:
            self._info(tensor, target.input.add(), infos)
        for tensor in graph.outputs:
            self._info(tensor, target.output.add(), infos)
            alive.pop(tensor.name, None)
        for name, tensor in alive.items():
            if name in infos or (not self.weights and id(tensor) in self.model.refined):
                self._info(tensor, target.value_info.add(), infos)

    def node(self, node: Any, target: onnx.NodeProto) -> None:
        """Writes a node: its own NodeProto under the present names and with the present bodies."""
        target.CopyFrom(node.proto)
        target.name = node.name
        del target.input[:], target.output[:]
        target.input.extend(tensor.name for tensor in node.inputs)
        target.output.extend(tensor.name for tensor in node.outputs)
        for attribute in target.attribute:
            body = node.attrs.get(attribute.name)
            if isinstance(body, gs.Graph):
                self.graph(body, attribute.g)

    def _info(
        self, tensor: Any, entry: onnx.ValueInfoProto, infos: Mapping[str, onnx.ValueInfoProto]
    ) -> None:
        """Writes a tensor's type: the source's words, the present dtype and shape."""
        if tensor.name in infos:
            entry.CopyFrom(infos[tensor.name])
        entry.name = tensor.name
        if entry.type.WhichOneof("value") in (None, "tensor_type") and tensor.dtype is not None:
            entry.type.tensor_type.elem_type = elem_type_of(tensor.dtype)
            shape = tensor_shape(tensor)
            if shape is not None:
                shape = tuple(None if dim in self.model.symbols else dim for dim in shape)
            set_shape(entry.type.tensor_type, shape)

    @functools.cached_property
    def _homes(self) -> dict[int, list[Any]]:
        """The constants that each graph writes: the innermost graph around all their readers."""
        homes: dict[int, tuple[Any, Any]] = {}
        for graph in self.model.graphs():
            for tensor in (*graph.outputs, *(t for node in graph.nodes for t in node.inputs)):
                if not isinstance(tensor, gs.Constant):
                    continue
                home = homes.get(id(tensor), (tensor, graph))[1]
                homes[id(tensor)] = (tensor, self._common(home, graph))
        return grouped((id(graph), tensor) for tensor, graph in homes.values())

    def _common(self, first: Any, second: Any) -> Any:
        around = []
        graph = first
        while graph is not None:
            around.append(graph)
            graph = self.model.parent(graph)
        while not any(second is graph for graph in around):
            second = self.model.parent(second)
        return second


def export_constant(
    tensor: Any, target: onnx.TensorProto, *, inline: bool = False, rooted: bool = False
) -> None:
    """Writes a constant: the source's TensorProto where it has one.

    Args:
        tensor: the constant.
        target: what it is written to.
        inline: whether external data is read.
        rooted: whether that which is large is referred to from the root folder instead.
    """
    values = tensor._values
    if isinstance(values, SourceValues) and not (inline and values.is_external):
        target.CopyFrom(values.tensor)
    elif rooted and isinstance(values, SourceValues) and values.nbytes >= _MIN_BYTES:
        target.CopyFrom(values.tensor)
        refer(target, *values.place)
    else:
        target.CopyFrom(numpy_helper.from_array(np.asarray(array_of(tensor))))
    target.name = tensor.name
