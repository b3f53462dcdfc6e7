"""Snippets: the part of a model that a replacement is about, before and after, as small models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.graph import wiring
from onnxq.graph.constants import SourceValues, array_of
from onnxq.graph.edit import Replacement
from onnxq.graph.export import Exporter, export_constant
from onnxq.graph.types import Dim, Shape, value_info
from onnxq.graph.value import NewNode, Result, constant_operands
from onnxq.graph.view import Node, Tensor, Value

if TYPE_CHECKING:
    from onnxq.graph.model import Model

# A cone of more nodes than this is no snippet any more.
_MAX_NODES = 400


@dataclass(frozen=True, slots=True)
class Snippet:
    """Two small models with the same inputs and outputs.

    Attributes:
        before: the model's own computation.
        after: the replacement's.
        inputs: name, dtype and shape of each input, in order.
        key: a digest of everything above but the names: equal keys, equal proofs.
    """

    before: onnx.ModelProto
    after: onnx.ModelProto
    inputs: tuple[tuple[str, np.dtype, Shape], ...]
    key: str


class NoSnippet(Exception):
    """Why no snippet can be cut (an input of unknown type, too many nodes)."""


def snippets(model: Model, root: Node, results: Replacement) -> Iterable[Snippet]:
    """Cuts ever larger snippets around a replacement.

    The first is the smallest whose inputs reach all inputs of the replacement; each next one reaches
    one layer of producers further back, up to the replacement's own inputs. Equality on any of them
    proves the change, because what feeds the smaller one is one of all the values tried.

    Raises:
        NoSnippet: an input's type is unknown or the cone is too large.
    """
    roots = [root.node.outputs[index] for index in results]
    exporter = Exporter(model)
    after, leaves = _new_nodes(exporter, root, results)
    stop = {id(tensor): tensor for tensor in leaves}
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
            if unknown is not None:
                raise unknown
            return
        if len(cone) > _MAX_NODES:
            raise NoSnippet(f"more than {_MAX_NODES} nodes")
        for tensor in list(frontier.values()):
            if tensor.inputs and id(tensor) not in stop:
                del frontier[id(tensor)]
        _expand(cone, frontier, producers, stop)


def _open(frontier: dict[int, Any], stop: dict[int, Any]) -> list[Any]:
    found = {id(p): p for t in frontier.values() if id(t) not in stop for p in t.inputs}
    return list(found.values())


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


@dataclass(slots=True)
class _After:
    """The replacement as protos: nodes, constants, tensors that they read, and its output names."""

    nodes: list[onnx.NodeProto]
    constants: list[tuple[str, np.ndarray]]
    captured: list[Any]
    outputs: list[str]


def _new_nodes(exporter: Exporter, root: Node, results: Replacement) -> tuple[_After, list[Any]]:
    after = _After([], [], [], [])
    leaves: dict[int, Any] = {}
    built: dict[int, list[str]] = {}
    moved: dict[int, Any] = {}
    inner = {id(t): n for b in wiring.bodies(root.node) for n in b.nodes for t in n.outputs}

    def existing(tensor: Any) -> str:
        if id(tensor) in inner:
            stack = [inner[id(tensor)]]
            while stack:  # a body's own nodes are part of the replacement
                node = stack.pop()
                if id(node) in moved:
                    continue
                moved[id(node)] = node
                for read in wiring.reads(node):
                    if id(read) in inner:
                        stack.append(inner[id(read)])
        elif isinstance(tensor, gs.Variable):
            leaves[id(tensor)] = tensor
        after.captured.append(tensor)
        return str(tensor.name)

    def named(value: Value | np.ndarray) -> str:
        if isinstance(value, np.ndarray):
            after.constants.append((f"new:c{len(after.constants)}", value))
            return after.constants[-1][0]
        if isinstance(value, Tensor):
            return existing(value.tensor)
        assert isinstance(value, Result)
        return build(value.node)[value.index]

    def build(node: NewNode) -> list[str]:
        if id(node) in built:
            return built[id(node)]
        dtypes = [v.dtype if isinstance(v, Value) else None for v in node.inputs]
        arrays = constant_operands(node, root.opset, dtypes)
        names = [
            named(array) if array is not None else named(operand) if isinstance(operand, Value) else ""
            for array, operand in zip(arrays, node.inputs, strict=True)
        ]
        outs = [f"new:n{len(built)}.{index}" for index in range(node.outputs)]
        after.nodes.append(onnx.helper.make_node(node.op, names, outs, **dict(node.attrs)))
        built[id(node)] = outs
        return outs

    after.outputs = [named(value) for value in results.values()]
    ordered = [n for b in wiring.bodies(root.node) for n in b.nodes if id(n) in moved]
    protos = []
    for node in ordered:
        proto = onnx.NodeProto()
        exporter.node(node, proto)
        protos.append(proto)
        owned = {id(t) for body in _all_bodies(node) for t in _defined(body)}
        for tensor in wiring.reads(node):
            if id(tensor) in inner or not tensor.name or id(tensor) in owned:
                continue
            after.captured.append(tensor)
            if isinstance(tensor, gs.Variable):
                leaves[id(tensor)] = tensor
    after.nodes = protos + after.nodes
    return after, list(leaves.values())


def alone(model: Model, node: Any) -> onnx.ModelProto:
    """A model of one node and its constants: what a snippet is of a node without other inputs."""
    written = [tensor for tensor in node.outputs if tensor.name]
    return _before(Exporter(model), {id(node): node}, {}, written, [])


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
    later.graph.node.extend(after.nodes)
    for name, array in after.constants:
        later.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    written = {t.name for t in later.graph.initializer} | {
        name for node in after.nodes for name in _held(node)
    }
    for tensor in after.captured:
        if isinstance(tensor, gs.Constant) and tensor.name not in written:
            written.add(tensor.name)
            export_constant(_inline(tensor), later.graph.initializer.add())
            later.graph.initializer[-1].name = tensor.name
    for index, name in enumerate(after.outputs):
        # a value that is there already needs a node of its own to be an output
        out = f"out:{index}"
        later.graph.node.add(op_type="Identity", input=[name], output=[out])
        later.graph.output.add(name=out)
    return Snippet(before, later, tuple(inputs), _digest(before, later, inputs))


def _before(
    exporter: Exporter,
    cone: dict[int, Any],
    frontier: dict[int, Any],
    roots: Sequence[Any],
    inputs: Sequence[tuple[str, np.dtype, Shape]],
) -> onnx.ModelProto:
    before = _model(exporter.model, inputs)
    inside = {id(t) for t in frontier.values()}
    nodes = []
    constants: dict[int, Any] = {}
    for node in wiring.sorted_nodes(list(cone.values())):
        exporter.node(node, before.graph.node.add())
        nodes.append(before.graph.node[-1])
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
            export_constant(_inline(tensor), before.graph.initializer.add())
            before.graph.initializer[-1].name = name
    for tensor in roots:
        before.graph.output.add(name=tensor.name)
    return before


def _is_read(model: Model, tensor: Any) -> bool:
    return bool(tensor.outputs) or id(tensor) in model.graph_outputs


def _held(node: onnx.NodeProto) -> Iterable[str]:
    """The constants that a node's bodies hold themselves."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from (tensor.name for tensor in attribute.g.initializer)
            for inner in attribute.g.node:
                yield from _held(inner)


def _inline(tensor: Any) -> Any:
    """A constant whose external data is read."""
    if isinstance(tensor._values, SourceValues) and tensor._values.is_external:
        return gs.Constant(tensor.name, np.asarray(array_of(tensor)))
    return tensor


def _model(model: Model, inputs: Sequence[tuple[str, np.dtype, Shape]]) -> onnx.ModelProto:
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
    inputs: Sequence[tuple[str, np.dtype, Shape]],
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
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = ""
            digest.update(copy.SerializeToString())
        for node in model.graph.node:
            wiring = [number(n) for n in node.input], [number(n) for n in node.output]
            digest.update(f"{node.domain} {node.op_type} {wiring}".encode())
            for attribute in sorted(node.attribute, key=lambda a: a.name):
                digest.update(attribute.SerializeToString(deterministic=True))
        digest.update(str([number(info.name) for info in model.graph.output]).encode())
    return digest.hexdigest()
