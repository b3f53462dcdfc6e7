"""Snippets: the part of a model that a replacement is about, before and after, as small models."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.graph import wiring
from onnxq.graph.edit import Replacement
from onnxq.graph.export import Exporter, export_constant
from onnxq.graph.types import Dim, Shape, value_info
from onnxq.graph.value import NewConstant, NewNode, NewOutput, constant_operands, new_nodes
from onnxq.graph.view import Node, Tensor, Value

if TYPE_CHECKING:
    from onnxq.graph.topology import Topology

# A cone of more nodes than this is no snippet any more.
_MAX_NODES = 400
# Behind the inputs of a replacement the cut grows by so many layers of producers, and so many nodes.
_UPSTREAM_LAYERS, _UPSTREAM_NODES = 4, 40


SnippetInputs = Sequence[tuple[str, np.dtype, Shape]]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Two small models with the same inputs and outputs.

    Attributes:
        before: the model's own computation.
        after: the replacement's.
        inputs: name, dtype and shape of each input, in order.
        upstream: whether both sides hold producers of what the replacement reads: then a reason may be
            there, and a difference says nothing that a smaller snippet did not say.
    """

    before: onnx.ModelProto
    after: onnx.ModelProto
    inputs: tuple[tuple[str, np.dtype, Shape], ...]
    upstream: bool = False

    @property
    def key(self) -> str:
        """A digest of everything but the names: equal keys, equal proofs. It looks at all weights."""
        return _digest(self.before, self.after, self.inputs)


class NoSnippet(Exception):
    """Why no snippet can be cut (an input of unknown type, too many nodes)."""


def snippets(model: Topology, root: Node, results: Replacement) -> Iterable[Snippet]:
    """Cuts ever larger snippets around a replacement.

    The first is the smallest whose inputs reach all inputs of the replacement; each next one reaches
    one layer of producers further back, up to the replacement's own inputs, and then some further:
    what computes these inputs stands on both sides. Equality on any of them proves the change, because
    what feeds the smaller one is one of all the values tried.

    Raises:
        NoSnippet: an input's type is unknown or the cone is too large.
    """
    roots = [root.node.outputs[index] for index in results]
    exporter = Exporter(model)
    after = _After(exporter, root, results)
    stop = after.leaves
    cone: dict[int, Any] = {}
    frontier: dict[int, Any] = {}
    _expand(cone, frontier, [root.node], stop)
    unknown = None
    while True:
        producers = _open(frontier, stop)
        missing = [t for t in stop.values() if id(t) not in frontier]
        if not missing or not producers:
            try:
                yield _snippet(exporter, cone, {**frontier, **{id(t): t for t in missing}}, roots, after)
                unknown = None
            except NoSnippet as reason:
                unknown = reason
        if not producers:
            break
        if len(cone) > _MAX_NODES:
            raise NoSnippet(f"more than {_MAX_NODES} nodes")
        for tensor in list(frontier.values()):
            if tensor.inputs and id(tensor) not in stop:
                del frontier[id(tensor)]
        _expand(cone, frontier, producers, stop)
    frontier.update({id(t): t for t in stop.values()})
    most = len(cone) + _UPSTREAM_NODES
    for _ in range(_UPSTREAM_LAYERS):
        producers = _open(frontier, {})
        if not producers or len(cone) + len(producers) > most:
            break
        for tensor in [t for t in frontier.values() if t.inputs]:
            del frontier[id(tensor)]
        _expand(cone, frontier, producers, {})
        try:
            yield _snippet(exporter, cone, frontier, roots, after)
            unknown = None
        except NoSnippet as reason:
            unknown = unknown and reason
    if unknown is not None:
        raise unknown


def _open(frontier: dict[int, Any], stop: dict[int, Any]) -> list[Any]:
    return list({id(p): p for t in frontier.values() if id(t) not in stop for p in t.inputs}.values())


def _expand(
    cone: dict[int, Any], frontier: dict[int, Any], nodes: Sequence[Any], stop: dict[int, Any]
) -> None:
    """Adds nodes to the cone; what they read and the cone does not compute is the frontier."""
    for node in nodes:
        cone[id(node)] = node
    inside = {id(t) for node in cone.values() for t in node.outputs if id(t) not in stop}
    for tensor in [t for t in frontier.values() if id(t) in inside]:
        del frontier[id(tensor)]
    for node in nodes:
        owned = {id(t) for body in _all_bodies(node) for t in _defined(body)}
        for tensor in wiring.reads(node):
            if (
                isinstance(tensor, gs.Variable)
                and tensor.name
                and id(tensor) not in inside
                and id(tensor) not in owned
            ):
                frontier[id(tensor)] = tensor


def _all_bodies(node: Any) -> Iterable[Any]:
    for body in wiring.bodies(node):
        yield body
        for inner in body.nodes:
            yield from _all_bodies(inner)


def _defined(body: Any) -> Iterable[Any]:
    yield from body.inputs
    for node in body.nodes:
        yield from node.outputs


class _After:
    """The replacement as protos.

    Attributes:
        nodes: its nodes, in order.
        constants: its new constants.
        captured: tensors of the graph that it reads, by the name that they have here.
        outputs: the names of its outputs.
        leaves: those of the captured tensors that are no constants, by id.
    """

    def __init__(self, exporter: Exporter, root: Node, results: Replacement) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[tuple[str, np.ndarray]] = []
        self.captured: dict[str, Any] = {}
        self.leaves: dict[int, Any] = {}
        self._opset = root.opset
        self._exporter = exporter
        self._built: dict[int, list[str]] = {}
        self._moved: set[int] = set()
        inner = [node for body in wiring.bodies(root.node) for node in body.nodes]
        self._inner = {id(tensor): node for node in inner for tensor in node.outputs}
        for new in new_nodes(results.values()):  # each behind what it reads
            self._build(new)
        self.outputs = [self._named(value) for value in results.values()]
        moved = [node for node in inner if id(node) in self._moved]
        self.nodes = [self._taken(exporter, node) for node in moved] + self.nodes

    def _named(self, value: Value | np.ndarray) -> str:
        if isinstance(value, np.ndarray):
            self.constants.append((f"new:c{len(self.constants)}", value))
            return self.constants[-1][0]
        if isinstance(value, Tensor):
            return self._existing(value.tensor)
        if isinstance(value, NewConstant):
            return self._named(value.array)
        assert isinstance(value, NewOutput)
        return self._built[id(value.node)][value.index]

    def _existing(self, tensor: Any) -> str:
        if id(tensor) in self._inner:
            self._move(self._inner[id(tensor)])
        elif isinstance(tensor, gs.Variable):
            self.leaves[id(tensor)] = tensor
        name = str(tensor.name)
        if self.captured.setdefault(name, tensor) is not tensor:  # sibling bodies may call theirs alike
            name = f"{name}:{id(tensor)}"
            self.captured[name] = tensor
        return name

    def _move(self, node: Any) -> None:
        """Makes a body's own node part of the replacement, with all that it needs of the body."""
        stack = [node]
        while stack:
            node = stack.pop()
            if id(node) not in self._moved:
                self._moved.add(id(node))
                stack += [self._inner[id(read)] for read in wiring.reads(node) if id(read) in self._inner]

    def _build(self, node: NewNode) -> None:
        arrays = constant_operands(node, self._opset)
        names = [
            self._named(array) if array is not None else self._named(v) if isinstance(v, Value) else ""
            for array, v in zip(arrays, node.inputs, strict=True)
        ]
        outs = [f"new:n{len(self._built)}.{index}" for index in range(node.outputs)]
        proto = onnx.helper.make_node(node.op, names, outs, domain=node.domain, **dict(node.attrs))
        for name, body in node.bodies.items():
            held = proto.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
            self._exporter.graph(body.graph, held.g)
            names_now = {}
            for tensor in wiring.captures(body.graph):
                if id(tensor) in body.stands:
                    names_now[tensor.name] = self._named(body.stands[id(tensor)][1])
                else:
                    names_now[tensor.name] = self._existing(tensor)
            _rename(held.g, names_now)
        self.nodes.append(proto)
        self._built[id(node)] = outs

    def _taken(self, exporter: Exporter, node: Any) -> onnx.NodeProto:
        """The proto of a body's node; what it reads from outside is captured."""
        proto = onnx.NodeProto()
        exporter.node(node, proto)
        owned = {id(t) for body in _all_bodies(node) for t in _defined(body)}
        for tensor in wiring.reads(node):
            if id(tensor) not in self._inner and tensor.name and id(tensor) not in owned:
                self.captured.setdefault(str(tensor.name), tensor)
                if isinstance(tensor, gs.Variable):
                    self.leaves[id(tensor)] = tensor
        return proto


def alone(model: Topology, node: Any, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model of one node and its constants, with `values` for what else it reads: it has no inputs.

    Large external data stays in its file, to which it refers from the root folder.
    """
    written = [tensor for tensor in node.outputs if tensor.name]
    proto = _before(Exporter(model), {id(node): node}, {}, written, [])
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in values.items())
    return proto


def _snippet(
    exporter: Exporter,
    cone: dict[int, Any],
    frontier: dict[int, Any],
    roots: Sequence[Any],
    after: _After,
) -> Snippet:
    inputs = []
    for tensor in frontier.values():
        shape = wiring.tensor_shape(tensor)
        if tensor.dtype is None or shape is None:
            raise NoSnippet(f"the {'type' if tensor.dtype is None else 'rank'} of {tensor.name!r} is unknown")
        inputs.append((str(tensor.name), np.dtype(tensor.dtype), shape))
    before = _before(exporter, cone, frontier, roots, inputs)
    later = _model(exporter.model, inputs)
    shared = _producers(after.leaves.values(), frontier)
    _export(exporter, shared, frontier, later)
    later.graph.node.extend(after.nodes)
    for name, array in after.constants:
        later.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    written = {t.name for t in later.graph.initializer} | {
        name for node in later.graph.node for name in _held(node)
    }
    for name, tensor in after.captured.items():
        if isinstance(tensor, gs.Constant) and name not in written:
            written.add(name)
            export_constant(tensor, later.graph.initializer.add(), inline=True)
            later.graph.initializer[-1].name = name
    for index, name in enumerate(after.outputs):
        if exporter.model.opset < 14 and name.startswith("new:n") and after.outputs.count(name) == 1:
            later.graph.output.add(name=name)  # it may be a sequence, which Identity takes since opset 14
            continue
        # a value that is there already needs a node of its own to be an output
        out = f"out:{index}"
        later.graph.node.add(op_type="Identity", input=[name], output=[out])
        later.graph.output.add(name=out)
    for model in (before, later):
        domains = {entry.domain for entry in model.opset_import}
        for domain in sorted({node.domain for node in model.graph.node} - domains - {"", "ai.onnx"}):
            model.opset_import.add(domain=domain, version=1)
    return Snippet(before, later, tuple(inputs), bool(shared))


def _producers(tensors: Iterable[Any], frontier: Mapping[int, Any]) -> list[Any]:
    """The nodes that compute tensors from the frontier, in order."""
    nodes: dict[int, Any] = {}
    todo = list(tensors)
    while todo:
        tensor = todo.pop()
        for node in () if id(tensor) in frontier else tensor.inputs:
            if id(node) not in nodes:
                nodes[id(node)] = node
                owned = {id(t) for body in _all_bodies(node) for t in _defined(body)}
                reads = (t for t in wiring.reads(node) if isinstance(t, gs.Variable))
                todo += [t for t in reads if id(t) not in owned]
    return wiring.sorted_nodes(list(nodes.values()))


def _before(
    exporter: Exporter,
    cone: dict[int, Any],
    frontier: dict[int, Any],
    roots: Sequence[Any],
    inputs: SnippetInputs,
) -> onnx.ModelProto:
    """The original's side; of what reads no input large external data stays in its file."""
    before = _model(exporter.model, inputs)
    rooted = not inputs and os.name == "posix"
    _export(exporter, wiring.sorted_nodes(list(cone.values())), frontier, before, rooted=rooted)
    for tensor in roots:
        before.graph.output.add(name=tensor.name)
    return before


def _export(
    exporter: Exporter,
    chosen: Sequence[Any],
    frontier: Mapping[int, Any],
    target: onnx.ModelProto,
    *,
    rooted: bool = False,
) -> None:
    """Adds nodes to a model, and the constants that they read; `rooted`: as of `export_constant`."""
    inside = {id(t) for t in frontier.values()}
    nodes = []
    constants: dict[int, Any] = {}
    for node in chosen:
        exporter.node(node, target.graph.node.add())
        nodes.append(target.graph.node[-1])
        for tensor in wiring.reads(node):
            if isinstance(tensor, gs.Constant):
                constants[id(tensor)] = tensor
        # a cone may compute a tensor that the snippet takes as input: that copy has no reader
        for slot, tensor in enumerate(node.outputs):
            if id(tensor) in inside:
                nodes[-1].output[slot] = f"unread:{tensor.name}"
            elif node.op == "MaxPool" and slot and not _is_read(exporter.model, tensor):
                del nodes[-1].output[slot]  # onnxruntime's kernel with indices treats NaN otherwise
    shared = {t.name: t for t in constants.values()}
    held = {name for node in nodes for name in _held(node)}
    for name, tensor in shared.items():
        if name not in held:
            export_constant(tensor, target.graph.initializer.add(), inline=True, rooted=rooted)
            target.graph.initializer[-1].name = name


def _is_read(model: Topology, tensor: Any) -> bool:
    return bool(tensor.outputs) or id(tensor) in model.graph_outputs


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Gives what a body reads other names."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)


def _held(node: onnx.NodeProto) -> Iterable[str]:
    """The constants that a node's bodies hold themselves."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from (tensor.name for tensor in attribute.g.initializer)
            for inner in attribute.g.node:
                yield from _held(inner)


def _model(model: Topology, inputs: SnippetInputs) -> onnx.ModelProto:
    target = onnx.ModelProto(ir_version=model.envelope.ir_version)
    target.opset_import.extend(model.envelope.opset_import)
    target.graph.name = "snippet"
    for name, dtype, shape in inputs:
        # Only the rank: with its sizes onnxruntime rejects branches that are never taken.
        target.graph.input.append(value_info(name, dtype, (None,) * len(shape)))
    return target


def _digest(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    inputs: SnippetInputs,
) -> str:
    digest = hashlib.blake2b(digest_size=16)
    symbols: dict[Dim, str] = {}
    for _, dtype, shape in inputs:
        sizes = [d if isinstance(d, int) else symbols.setdefault(d, f"s{len(symbols)}") for d in shape]
        digest.update(f"{dtype}{sizes}".encode())
    for model in (before, after):
        names: dict[str, int] = {"": -1}
        bodies = any(a.HasField("g") for n in model.graph.node for a in n.attribute)

        def number(name: str, names: dict[str, int] = names, bodies: bool = bodies) -> int | str:
            return name if bodies else names.setdefault(name, len(names))

        for info in model.graph.input:
            digest.update(f"{number(info.name)}".encode() + info.type.SerializeToString())
        for tensor in model.graph.initializer:
            digest.update(f"{number(tensor.name)} {tensor.data_type} {list(tensor.dims)}".encode())
            digest.update(tensor.raw_data or _nameless(tensor))
        for node in model.graph.node:
            wiring = [number(n) for n in node.input], [number(n) for n in node.output]
            digest.update(f"{node.domain} {node.op_type} {wiring}".encode())
            for attribute in sorted(node.attribute, key=lambda a: a.name):
                digest.update(attribute.SerializeToString(deterministic=True))
        digest.update(str([number(info.name) for info in model.graph.output]).encode())
    return digest.hexdigest()


def _nameless(tensor: onnx.TensorProto) -> bytes:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.name = ""
    written: bytes = copy.SerializeToString()
    return written
