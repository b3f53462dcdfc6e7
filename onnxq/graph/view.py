"""What a rule sees of a model: nodes and values that it can look at and cannot change."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.base.errors import nearest
from onnxq.formats import NumberFormat
from onnxq.graph import wiring
from onnxq.graph.topology import Topology
from onnxq.graph.types import Dim, Shape
from onnxq.targets import stated_limits


class Value:
    """A tensor: one of the graph, or the result of a node that does not exist yet.

    Attributes:
        name: the tensor's name ("" for the result of a node that does not exist yet).
        dtype: its numpy dtype, None where it is not known.
        shape: its dimensions (int, symbol or None), None where the rank is not known.
    """

    name: str = ""
    dtype: np.dtype | None = None
    shape: Shape | None = None

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None where it is not known."""
        return None if self.shape is None else len(self.shape)

    @property
    def constant(self) -> np.ndarray | None:
        """The values where the tensor is a constant, else None."""
        return None

    @property
    def scalar(self) -> int | float | bool | None:
        """The value where the tensor is a constant of one element, else None."""
        values = self.constant
        return values.reshape(-1)[0].item() if values is not None and values.size == 1 else None

    @property
    def producer(self) -> Node | None:
        """The node that writes it, None for inputs and constants."""
        return None

    @property
    def users(self) -> tuple[Node, ...]:
        """The nodes that read it, those in subgraph bodies included, each once."""
        return ()


class Tensor(Value):
    """A tensor of the graph. Two views of the same tensor are equal."""

    __slots__ = ("model", "tensor")

    def __init__(self, model: Topology, tensor: Any) -> None:
        self.model = model
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r})"

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(self.tensor.name)

    @property
    def dtype(self) -> np.dtype | None:  # type: ignore[override]
        return self.tensor.dtype  # type: ignore[no-any-return]

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return wiring.tensor_shape(self.tensor)

    @property
    def constant(self) -> np.ndarray | None:
        values = wiring.constant_of(self.tensor)
        if values is None and self.tensor.inputs:  # a Constant node stays one where it writes an output
            values = wiring.value_of(self.tensor.inputs[0])
        if values is not None and values.flags.writeable:
            values = values.view()
            values.flags.writeable = False  # a rule that computes in place would change the model
        return values

    @property
    def typical_shape(self) -> Shape | None:
        """The shape, with the sizes of a typical input where it is dynamic and they are known."""
        return self.model.typical_shapes.get(self.name, self.shape)

    @property
    def nbytes(self) -> int:
        """The size of a constant in bytes, 0 for other tensors."""
        return int(self.tensor._values.nbytes) if self.is_constant else 0

    @property
    def is_constant(self) -> bool:
        """Whether the tensor is a constant; does not read its values."""
        return isinstance(self.tensor, gs.Constant)

    @property
    def producer(self) -> Node | None:
        writers = self.tensor.inputs
        return Node(self.model, writers[0]) if writers else None

    @property
    def users(self) -> tuple[Node, ...]:
        seen = {id(node): node for node in self.tensor.outputs}
        return tuple(Node(self.model, node) for node in seen.values())

    @property
    def times_read(self) -> int:
        """How many inputs of nodes it is, those in subgraph bodies included."""
        return len(self.tensor.outputs)

    @property
    def float32_only(self) -> bool:
        """Whether a rule says that half precision would spoil it (`float32_only`)."""
        return bool(getattr(self.tensor, "float32_only", False))

    @property
    def is_output(self) -> bool:
        """Whether the tensor is an output of the main graph or of a subgraph body."""
        return id(self.tensor) in self.model.graph_outputs

    @property
    def is_input(self) -> bool:
        """Whether the tensor is an input of the main graph."""
        return any(self.tensor is entry for entry in self.model.graph.inputs)


class Node:
    """A node of the graph. Two views of the same node are equal."""

    __slots__ = ("model", "node")

    def __init__(self, model: Topology, node: Any) -> None:
        self.model = model
        self.node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.node is other.node

    def __hash__(self) -> int:
        return id(self.node)

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {self.op})"

    @property
    def op(self) -> str:
        """The operator's name, without its domain."""
        return str(self.node.op)

    @property
    def domain(self) -> str:
        """The operator's domain, "" for ONNX's own."""
        domain = self.node.domain or ""
        return "" if domain == "ai.onnx" else str(domain)

    @property
    def operator(self) -> str:
        """The operator's name, with its domain where that is not ONNX's own."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def name(self) -> str:
        """The node's name, unique in the model."""
        return str(self.node.name)

    @property
    def opset(self) -> int:
        """The model's version of ONNX's own operators."""
        return self.model.opset

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """What it reads, and what its subgraph bodies read."""
        return tuple(Tensor(self.model, tensor) for tensor in wiring.reads(self.node) if tensor.name)

    @property
    def with_bodies(self) -> tuple[Node, ...]:
        """The node and those of its subgraph bodies."""
        return tuple(Node(self.model, node) for node in wiring.with_bodies(self.node))

    @property
    def is_inner(self) -> bool:
        """Whether the node is in a subgraph body."""
        return not any(self.node is node for node in self.model.graph.nodes)

    @property
    def is_defined(self) -> bool:
        """Whether the node is of another domain, or ONNX defines its operator in this opset."""
        return bool(self.domain or onnx.defs.has(self.op, self.opset, ""))

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """What it reads; None for an optional input that is left out."""
        return tuple(Tensor(self.model, t) if t.name else None for t in self.node.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What it writes (optional outputs that are left out have the name "")."""
        return tuple(Tensor(self.model, tensor) for tensor in self.node.outputs)

    def operands(self, count: int) -> tuple[Tensor | None, ...]:
        """The first `count` inputs; None for those that are missing or left out."""
        inputs = self.inputs[:count]
        return inputs + (None,) * (count - len(inputs))

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's value, else the operator schema's default, else `default`.

        Strings are decoded; tensors are arrays; lists are lists.
        """
        for attribute in self.node.proto.attribute:
            if attribute.name == name:
                return _attribute_value(attribute)
        return _defaults(self.op, self.domain, self.opset).get(name, default)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes that the node itself has, graphs left out."""
        return {
            a.name: _attribute_value(a)
            for a in self.node.proto.attribute
            if a.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
        }

    @property
    def bodies(self) -> dict[str, Body]:
        """Its subgraph bodies by the attribute's name: `then_branch`, `else_branch`, `body`."""
        return {name: Body(self.model, graph) for name, graph in (self.node.attrs or {}).items()}

    def body(self, name: str) -> Body:
        """One of its subgraph bodies.

        Raises:
            ValueError: the node has no body of this name.
        """
        if name not in self.bodies:
            raise ValueError(f"{self.op} {self.name!r} has no body {name!r}")
        return self.bodies[name]

    @property
    def has_body(self) -> bool:
        """Whether the node has subgraph bodies."""
        return bool(wiring.bodies(self.node))

    def limit(self, name: str) -> int | None:
        """A number of the target's table: what it takes at most, or what its kernels need at least.

        Args:
            name: as under `[limits]` in `onnxq/targets/*.toml`: `topk-k`, `int8-channels`, ...

        Returns:
            The number; None where the target has no such limit.

        Raises:
            ValueError: no target's table states a limit of this name.
        """
        if name not in self.model.limits and name not in stated_limits():
            advice = nearest(name, stated_limits()) or f"known: {', '.join(sorted(stated_limits()))}"
            raise ValueError(f"no target states a limit {name!r}; {advice}")
        limit = self.model.limits.get(name)
        if limit is not None:
            self.model.asked_limits[name] = limit
        return limit

    @property
    def format(self) -> NumberFormat:
        """What the node is quantized to."""
        return self.model.format_of(self.name)

    def kernel_limit(self, kind: str) -> int | None:
        """What kernels of that format need or take: `rows`, `attention-keys`, ...; None: nothing is said."""
        name = f"{self.format.name}-{kind}"
        return self.limit(name) if name in self.model.limits else None

    def lacks(self, name: str) -> bool:
        """Whether the target lacks an operator or a feature: a rule of many operators asks for each.

        Args:
            name: an operator of ONNX's own, or as under `lacks` in `onnxq/targets/*.toml`.
        """
        return self.model.lacks(name)

    @property
    def alike(self) -> tuple[Node, ...]:
        """The model's nodes of the same operator, itself included, in order."""
        return tuple(one for one in every_node(self.model) if one.operator == self.operator)

    def is_input_dim(self, dim: Dim) -> bool:
        """Whether a symbol is a dimension of an input of the model, where a size can be written."""
        return any(dim in (wiring.tensor_shape(tensor) or ()) for tensor in self.model.graph.inputs)

    def assumed(self, dim: Dim) -> int | None:
        """The size that is stated or proved for a dynamic dimension, None where there is none."""
        return self.model.assumed.get(dim) if isinstance(dim, str) else None


def every_node(model: Topology) -> Iterator[Node]:
    """The nodes of a model, those of subgraph bodies included, outer before inner."""
    return (Node(model, raw) for graph in model.graphs() for raw in graph.nodes)


class Body(Sequence[Tensor]):
    """A subgraph body: a sequence of its outputs."""

    __slots__ = ("fixed", "graph", "model")

    def __init__(self, model: Topology, graph: Any) -> None:
        self.model = model
        self.graph = graph
        self.fixed: dict[int, Any] = {}  # what `inline` computed that no input of the body changes

    def __repr__(self) -> str:
        return f"Body({self.graph.name!r})"

    def reduced(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Body:
        """The same body with other ones of its tensors as inputs and outputs, and only what computes these.

        For `remake(node, ..., body=...)`: the node has other inputs and outputs then.

        Args:
            inputs: those of its inputs that it keeps.
            outputs: tensors that it computes, is given or reads.
        """
        owner = {id(tensor): node for node in self.graph.nodes for tensor in node.outputs}
        needed: dict[int, Any] = {}
        todo = [tensor.tensor for tensor in outputs]
        while todo:
            node = owner.get(id(todo.pop()))
            if node is not None and id(node) not in needed:
                needed[id(node)] = node
                todo += wiring.reads(node)
        part = gs.Graph(name=self.graph.name)
        part.nodes = [node for node in self.graph.nodes if id(node) in needed]
        part.inputs, part.outputs = [t.tensor for t in inputs], [t.tensor for t in outputs]
        self.model.adopt_part(part, self.graph)
        return Body(self.model, part)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What its node hands to it: of a Loop the iteration's number, the condition, what is carried."""
        return tuple(Tensor(self.model, tensor) for tensor in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What it gives: of a Loop the condition, what is carried, what is collected."""
        return tuple(Tensor(self.model, tensor) for tensor in self.graph.outputs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Its nodes, in order."""
        return tuple(Node(self.model, node) for node in self.graph.nodes)

    def __len__(self) -> int:
        return len(self.graph.outputs)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, index: int | slice) -> Tensor | tuple[Tensor, ...]:
        return self.outputs[index]


def _attribute_value(attribute: onnx.AttributeProto) -> Any:
    kind = onnx.AttributeProto
    if attribute.type == kind.STRING:
        return attribute.s.decode("utf-8", "replace")
    if attribute.type == kind.STRINGS:
        return [text.decode("utf-8", "replace") for text in attribute.strings]
    if attribute.type == kind.TENSOR:
        return onnx.numpy_helper.to_array(attribute.t)
    value = onnx.helper.get_attribute_value(attribute)
    return list(value) if attribute.type in (kind.INTS, kind.FLOATS) else value


@functools.cache
def _defaults(op: str, domain: str, opset: int) -> Mapping[str, Any]:
    if domain or not onnx.defs.has(op, opset, domain):
        return {}
    schema = onnx.defs.get_schema(op, opset, domain)
    return {
        name: _attribute_value(spec.default_value)
        for name, spec in schema.attributes.items()
        if spec.default_value.type != onnx.AttributeProto.UNDEFINED
    }
