"""Putting a rule's replacement into the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.graph import wiring
from onnxq.graph.infer import node_types
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.topology import MARKS
from onnxq.graph.value import NewConstant, NewNode, NewOutput, constant_operands, leaves, new_nodes
from onnxq.graph.view import Node, Tensor, Value

if TYPE_CHECKING:
    from onnxq.graph.model import Model

Replacement = Mapping[int, Value | np.ndarray]
"""What computes output i of a node now."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What a replacement did to the graph.

    Attributes:
        added: nodes that are new to their graph, in topological order.
        removed: nodes that are gone (the root, and what nobody reads any more).
        gone: their names, but for those that a new node has taken over.
        touched: nodes whose inputs changed.
    """

    added: list[Any]
    removed: list[Any]
    gone: tuple[str, ...]
    touched: list[Any]


class Editor:
    """Applies replacements to a model.

    It knows which graph each node is in and which tensors are outputs, so that an edit costs the
    size of the edit. Nodes are appended; `finish` drops the dead and restores topological order.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._graph: dict[int, Any] = {}
        self._outputs = model.graph_outputs
        self.dead: set[int] = set()
        self._wishes: list[tuple[Any, str]] = []
        self._stands: dict[int, Any] = {}  # under what name a tensor lives on, within one edit
        self._keep: list[Any] = []  # what is gone stays referenced: ids must not be used again
        for graph in model.graphs():
            self._index(graph)

    def _index(self, graph: Any) -> None:
        for node in graph.nodes:
            self._graph[id(node)] = graph

    def _index_body(self, body: Any) -> None:
        """Notes the nodes of a new body and of those in it."""
        self._index(body)
        for node in body.nodes:
            for inner in wiring.bodies(node):
                self._index_body(inner)

    def alive(self, node: Any) -> bool:
        """Whether a node is still part of the model."""
        return id(node) not in self.dead

    def is_output(self, tensor: Any) -> bool:
        """Whether a tensor is an output of the main graph or of a living body."""
        return id(tensor) in self._outputs

    def is_read(self, tensor: Any) -> bool:
        """Whether a node reads a tensor or it is an output."""
        return bool(tensor.outputs) or self.is_output(tensor)

    def is_unread(self, node: Any) -> bool:
        """Whether no output of a node is read by anything."""
        return not any(self.is_read(tensor) for tensor in node.outputs)

    def replace(self, root: Node, results: Replacement) -> Edit | None:
        """Makes other values compute outputs of a node.

        What nobody reads any more goes; the tensors keep their names.

        Returns:
            What changed, or None where the replacement is what is there already.

        Raises:
            ValueError: the replacement is not valid in the model's opset.
        """
        graph = self._graph[id(root.node)]
        added: list[Any] = []
        touched: list[Any] = []
        built: dict[int, list[Any]] = {}
        self._adopt_bodies(root, results, graph, added)
        for new in new_nodes(results.values()):  # each behind what it reads
            built[id(new)] = self._build(new, root, graph, added, built)
        for index, value in results.items():
            old = root.node.outputs[index]
            new = self._materialize(value, root, graph, added, built)
            if self.is_output(old) and not self._can_take_name(new, old):
                if root.op == "Identity" and new is root.node.inputs[0]:
                    return None
                out = gs.Variable(self.model.unique(old.name), old.dtype, old.shape)
                node = self._append("Identity", [new], [out], {}, root, graph, added)
                new = node.outputs[0]
            touched.extend(self._redirect(old, new))
            if isinstance(new, gs.Variable) and not new.inputs and old.inputs:
                self._stands[id(new)] = old  # `new` lives on under the name of `old`
                self._keep.append(new)
        for tensor in (tensor for node in added for tensor in node.outputs):
            if tensor.name == "":  # nobody reads it, and it need not be optional
                tensor.name = self.model.unique(f"{root.name}_unread")
        removed = self.remove_unread([root.node])
        gone = {node.name: node for node in removed}
        names = tuple(gone)
        for node, wish in self._wishes:
            old = gone.pop(wish, None)
            if old is not None:  # the node stands in for one that has gone: it takes over the name
                node.name, old.name = wish, node.name
        self._wishes.clear()
        self._stands.clear()
        names = tuple(name for name in names if name in gone)
        return Edit([n for n in added if self.alive(n)], removed, names, touched)

    def compute(self, tensor: Any, source: Any, value: Value) -> Edit | None:
        """Computes a tensor of the main graph that nothing produces yet, from another one."""
        graph = self.model.graph
        node = self.model.new_node("Identity", [source], [tensor], name=f"{tensor.name}_convert")
        self._graph[id(node)] = graph
        graph.nodes.append(node)
        return self.replace(Node(self.model, node), {0: value})

    def remove_unread(self, nodes: list[Any]) -> list[Any]:
        """Removes those of `nodes` that nobody reads, and what only they read."""
        removed = []
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if not self.alive(node) or not self.is_unread(node):
                continue
            self.dead.add(id(node))
            self._keep.append(node)
            removed.append(node)
            for body in wiring.bodies(node):
                for tensor in body.outputs:
                    self._outputs.pop(id(tensor), None)
                stack.extend(body.nodes)
            producers = [p for tensor in node.inputs for p in tensor.inputs]
            wiring.detach(node)
            stack.extend(producers)
        return removed

    def finish(self) -> None:
        """Drops the dead from the graphs' lists and restores topological order."""
        for graph in list(self.model.graphs()):
            graph.nodes = [node for node in graph.nodes if self.alive(node)]
        self.model.sort()

    # -- parts ---------------------------------------------------------------------------------

    def _can_take_name(self, new: Any, old: Any) -> bool:
        """Whether the producer of `new` can write the graph output `old` instead."""
        return (
            isinstance(new, gs.Variable)
            and bool(new.inputs)
            and not self.is_output(new)
            and self._graph[id(new.inputs[0])] is self._outputs[id(old)]
        )

    def _redirect(self, old: Any, new: Any) -> list[Any]:
        """Makes `new` stand for `old`, under the old name wherever that is possible."""
        if old is new:
            return []
        for mark in MARKS:
            said = getattr(old, mark, None) or getattr(new, mark, None)
            if said:
                setattr(old, mark, said)
                setattr(new, mark, said)
        detached = list(old.inputs)
        fresh = isinstance(new, gs.Variable) and bool(new.inputs) and (self.is_output(old) or new.name == "")
        if fresh:
            for node in detached:  # the old producer writes to nowhere from now on
                slot = next(i for i, t in enumerate(node.outputs) if t is old)
                orphan = gs.Variable(self.model.unique(old.name), old.dtype, old.shape)
                wiring.replace_output(node, slot, orphan)
            users = wiring.replace_uses(new, old)
            producer = new.inputs[0]
            slot = next(i for i, t in enumerate(producer.outputs) if t is new)
            if old.dtype is None:
                old.dtype = new.dtype
            if old.shape is None:
                old.shape = new.shape
            wiring.replace_output(producer, slot, old)
            return users + list(old.outputs)
        if isinstance(new, gs.Constant) and new.name == "":
            new.name, old.name = old.name, self.model.unique(f"{old.name}_unread")
        return wiring.replace_uses(old, new)

    def _adopt_bodies(self, root: Node, results: Replacement, graph: Any, added: list[Any]) -> None:
        """Moves a body of the root outwards where the replacement reads what it computes."""
        read = {id(tensor) for tensor in leaves(tuple(results.values()))}
        for body in wiring.bodies(root.node):
            computed = (tensor for node in body.nodes for tensor in node.outputs)
            if not read.isdisjoint(map(id, (*body.outputs, *computed))):
                for tensor in body.outputs:
                    self._outputs.pop(id(tensor), None)
                moved = self.model.move_body(body, graph)
                for node in moved:
                    self._graph[id(node)] = graph
                graph.nodes.extend(moved)
                added.extend(moved)

    def _materialize(
        self,
        value: Value | np.ndarray,
        root: Node,
        graph: Any,
        added: list[Any],
        built: dict[int, list[Any]],
    ) -> Any:
        if isinstance(value, np.ndarray):
            # weights of two layers stay two constants: the compiler makes one layer of what reads the same
            weighs = any(user.op in WEIGHTED for tensor in root.outputs for user in tensor.users)
            return self.model.constant("", value) if weighs else self.model.folded(value)
        if isinstance(value, Tensor):
            self.model.name_apart(value.tensor)
            return self._stands.get(id(value.tensor), value.tensor)
        if isinstance(value, NewConstant):
            if id(value) not in built:
                built[id(value)] = [self.model.constant("", value.array)]
            tensor = built[id(value)][0]
        elif isinstance(value, NewOutput):
            tensor = built[id(value.node)][value.index]
        else:
            raise ValueError(f"a rule returned {type(value).__name__}, not a value")
        if value.float32_only:
            tensor.float32_only = True
        if isinstance(value, NewOutput) and value.exact_product:
            tensor.exact_product = value.exact_product
        return self._stands.get(id(tensor), tensor)

    def _build(
        self,
        new: NewNode,
        root: Node,
        graph: Any,
        added: list[Any],
        built: dict[int, list[Any]],
    ) -> list[Any]:
        tensors: list[Any] = [
            self._materialize(operand, root, graph, added, built) if isinstance(operand, Value) else None
            for operand in new.inputs
        ]
        arrays = constant_operands(new, self.model.opset, [None if t is None else t.dtype for t in tensors])
        base = root.node.outputs[0].name if root.node.outputs else root.name
        for index, (array, operand) in enumerate(zip(arrays, new.inputs, strict=True)):
            if array is not None:
                old = new.like.operands(index + 1)[index] if new.like is not None else None
                name = f"{old.name}_folded" if old is not None else f"{base}_{new.op}_{index}"
                tensors[index] = self.model.new_constant(name, array)
            elif operand is None:
                tensors[index] = gs.Variable.empty()
        outs = [gs.Variable("") for _ in range(new.outputs)]
        bodies = {
            name: self.model.copy_body(
                body.graph,
                graph,
                {key: self._materialize(v, root, graph, added, built) for key, (_, v) in body.stands.items()},
            )
            for name, body in new.bodies.items()
        }
        if new.has_own_bodies and new.like is not None:  # inference would need them; they are the same
            for out, old in zip(outs, new.like.outputs, strict=False):
                out.dtype, out.shape = old.dtype, old.shape
        node = self._append(new.op, tensors, outs, new.attrs, root, graph, added, new)
        for name, body in bodies.items():
            node.attrs[name] = body
            node.proto.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
            self._index_body(body)
        if new.like is not None:
            self._wishes.append((node, new.like.name))
        return list(node.outputs)

    def _append(
        self,
        op: str,
        inputs: list[Any],
        outputs: list[Any],
        attrs: Mapping[str, Any],
        root: Node,
        graph: Any,
        added: list[Any],
        new: NewNode | None = None,
    ) -> Any:
        name, domain = (new.name, new.domain) if new is not None else ("", "")
        name = name or (root.name if op == root.op else f"{root.name}_{op}")
        for tensor in inputs:
            # A value inside the expression is not a replacement of anything: it gets a name now.
            if tensor.name == "" and tensor.inputs:
                tensor.name = self.model.unique(f"{root.node.outputs[0].name}_{op}_in")
            elif tensor.name == "" and isinstance(tensor, gs.Constant):
                tensor.name = self.model.unique(f"{root.node.outputs[0].name}_{op}_const")
        node = self.model.new_node(op, inputs, outputs, attrs, name=name, domain=domain)
        self._graph[id(node)] = graph
        graph.nodes.append(node)
        added.append(node)
        infer_outputs(self.model, node)
        return node


def infer_outputs(model: Model, node: Any) -> None:
    """Gives a node's outputs the types that ONNX's inference finds for this node alone."""
    inputs: list[Any] = []
    for tensor in node.inputs:
        if tensor.name == "" and not tensor.inputs and isinstance(tensor, gs.Variable):
            inputs.append(None)
            continue
        few = isinstance(tensor, gs.Constant) and wiring.element_count(tensor) <= 64
        values = wiring.constant_of(tensor) if few else None
        inputs.append((tensor.dtype, wiring.tensor_shape(tensor), values))
    types = node_types(node.proto, inputs, len(node.outputs), model.versions) or ()
    for tensor, (dtype, shape) in zip(node.outputs, types, strict=False):
        tensor.dtype = tensor.dtype or dtype
        if tensor.shape is None:
            tensor.shape = shape
