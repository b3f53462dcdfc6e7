"""A second model with the same weights: one is edited, and the other stays as it is."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from onnxq.graph.topology import MARKS

if TYPE_CHECKING:
    from onnxq.graph.model import Model


def duplicate(model: Model) -> Model:
    """A model like another one, whose edits are its own.

    Nodes and tensors are new; weights are shared, and so is the spool that a large model keeps new ones in.
    """
    return _Duplicate(model).result


class _Duplicate:
    """The copy of a model, and what stands in it for each tensor and each graph."""

    def __init__(self, model: Model) -> None:
        self._tensors: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        result = copy.copy(model)
        result.graph = self._graph(model.graph)
        graphs = self._graphs
        result.sources = {id(graphs[id(g)]): model.sources[id(g)] for g in model.graphs()}
        result._parents = {
            id(graphs[id(g)]): graphs[id(parent)]
            for g in model.graphs()
            if (parent := model.parent(g)) is not None
        }
        tensors = self._tensors
        result.graph_outputs = {
            id(tensors[key]): graphs[id(graph)]
            for key, graph in model.graph_outputs.items()
            if key in tensors
        }
        result.refined = {id(tensors[key]) for key in model.refined if key in tensors}
        result.known = {id(tensors[k]): (tensors[k], v) for k, (_, v) in model.known.items() if k in tensors}
        result.computed = {
            id(tensors[k]): (tensors[k], v) for k, (_, v) in model.computed.items() if k in tensors
        }
        result._folded = {k: tensors[id(t)] for k, t in model._folded.items() if id(t) in tensors}
        result.names, result._node_names = set(model.names), set(model._node_names)
        result._ambiguous = set(model._ambiguous)
        result.symbols, result.assumed = set(model.symbols), dict(model.assumed)
        result.interface_changes = list(model.interface_changes)
        result.envelope = copy.deepcopy(model.envelope)
        self.result = result

    def _graph(self, graph: Any) -> Any:
        twin = gs.Graph(name=graph.name)
        self._graphs[id(graph)] = twin
        twin.inputs = [self._tensor(tensor) for tensor in graph.inputs]
        twin.nodes = [self._node(node) for node in graph.nodes]
        twin.outputs = [self._tensor(tensor) for tensor in graph.outputs]
        return twin

    def _node(self, node: Any) -> Any:
        inputs = [self._tensor(tensor) for tensor in node.inputs]
        bodies = {name: self._graph(body) for name, body in (node.attrs or {}).items()}
        outputs = [self._tensor(tensor) for tensor in node.outputs]
        twin = gs.Node(node.op, node.name, bodies, inputs, outputs, node.domain)
        twin.proto = node.proto
        return twin

    def _tensor(self, tensor: Any) -> Any:
        if id(tensor) not in self._tensors:
            twin = tensor.copy()
            for extra in ("type", *MARKS):  # what graphsurgeon's copy lacks
                if extra in tensor.__dict__:
                    setattr(twin, extra, tensor.__dict__[extra])
            self._tensors[id(tensor)] = twin
        return self._tensors[id(tensor)]
