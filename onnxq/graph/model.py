"""A model open for editing: onnx-graphsurgeon holds the topology, each node its NodeProto.

graphsurgeon forgets metadata, doc strings, quantization annotations, unknown attribute types and
sub-byte constants. So nothing but the connections is entrusted to it: a node's own NodeProto, the
source's ModelProto (without its graph) and each weight's TensorProto are kept and written back.
"""

from __future__ import annotations

import logging
import os
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import inliner, numpy_helper
from onnx_graphsurgeon.logger import G_LOGGER

from onnxq.errors import UserError, unknown_name
from onnxq.graph import load as loading
from onnxq.graph.constants import SourceValues, array_of
from onnxq.graph.order import in_order, put_in_order
from onnxq.graph.types import (
    Dim,
    Shape,
    bind,
    dtype_of,
    elem_type_of,
    set_shape,
    shape_of,
    value_info,
)

G_LOGGER.severity = logging.CRITICAL

# Larger constants play no part in shape inference: there they are typed inputs without data.
_SHAPE_ELEMENTS = 1024

_CONSTANT_FORMS = ("value_float", "value_floats", "value_int", "value_ints")


class Model:
    """A model open for editing.

    Attributes:
        graph: the main graph (an onnx_graphsurgeon Graph whose nodes carry `proto`, their NodeProto).
        path: the file that it came from, or None.
        data_dir: the folder of its external data, or None.
        opset: the version of the default operator set.
        envelope: the source's ModelProto without its graph.
        dropped: names of initializers that nothing reads, dropped while reading.
        defaulted_inputs: graph inputs that had an initializer as default and are constants now.
        symbols: dimension symbols that the source left unnamed, as `<input>.<axis>`.
        assumed: sizes of dimension symbols that hold by statement or proof, not by the file.
        source: the model as it was read; never modified.
        graph_outputs: the graph of each output of the main graph and of living bodies, by the
            tensor's id.
        typical_shapes: shapes of all tensors for a typical input, see `set_typical_input`.
        known: what is known of the elements of a tensor, by its id, with the tensor itself; from
            one inference of shapes to the next.
        runtime: runs a model that has no inputs, for constant folding; None folds shapes only.
    """

    runtime: Callable[[onnx.ModelProto], list[np.ndarray] | None] | None = None

    def __init__(self, proto: onnx.ModelProto, path: Path | None, data_dir: Path | None) -> None:
        self.path = path
        self.data_dir = data_dir if loading.check_external_data(proto, data_dir) else None
        self.source = proto
        self.assumed: dict[str, int] = {}
        self.typical_shapes: dict[str, Shape] = {}
        self.known: dict[int, tuple[Any, np.ndarray | None]] = {}
        if proto.functions:
            proto = inliner.inline_local_functions(proto)
        if not all(in_order(graph) for graph in loading.graphs(proto.graph)):
            proto = _copy(proto)
            for graph in loading.graphs(proto.graph):
                put_in_order(graph)
        self.envelope = _without_graph(proto)
        self.opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
        weights = {tensor.name for tensor in proto.graph.initializer}
        listed = [info.name for info in proto.graph.input if info.name in weights]
        self.defaulted_inputs = listed if proto.ir_version >= 4 else []
        if listed and proto.ir_version < 4:
            self.envelope.ir_version = 4  # weights need not be inputs from IR version 4 on
        self.names: set[str] = set()
        self._ambiguous: set[str] = set()  # names that sibling bodies give to different tensors
        self.graph_outputs: dict[int, Any] = {}
        self._parents: dict[int, Any] = {}
        self._sources: dict[int, onnx.GraphProto] = {}
        self.graph = self._import(proto.graph)
        used = {tensor.name for tensors in self._homes().values() for tensor in tensors}
        self.dropped = sorted(weights - used)
        self.symbols = self._name_dims()
        self._name_nodes()
        self._check_connections()
        self.infer_shapes()

    # -- reading -------------------------------------------------------------------------------

    @classmethod
    def open(cls, source: str | os.PathLike[str] | onnx.ModelProto) -> Model:
        """Reads a model from a path or a ModelProto, which is not modified.

        Raises:
            UserError: the model cannot be read (see `onnxq.graph.load`), or a node reads a tensor
                that nothing produces.
        """
        if isinstance(source, onnx.ModelProto):
            loading.check(source, "the model")
            return cls(source, None, None)
        path = Path(source)
        return cls(loading.read(path), path, path.parent)

    def _import(self, graph: onnx.GraphProto) -> Any:
        """Makes graphsurgeon's graph of a GraphProto, with everything it would lose kept beside it."""
        topology = onnx.ModelProto(ir_version=self.envelope.ir_version, graph=_topology(graph))
        topology.opset_import.extend(self.envelope.opset_import)
        imported = gs.import_onnx(topology)
        self._adopt(imported, graph, ChainMap())
        return imported

    def _adopt(self, graph: Any, source: onnx.GraphProto, outer: ChainMap[str, onnx.TensorProto]) -> None:
        """Gives a graph and its bodies their sources: node protos, lazy weights, Constant nodes."""
        self._sources[id(graph)] = _without_nodes(source)
        self.graph_outputs.update((id(tensor), graph) for tensor in graph.outputs)
        scope = outer.new_child({tensor.name: tensor for tensor in source.initializer})
        defined = [info.name for info in (*source.initializer, *source.input)]
        defined += [name for node in source.node for name in node.output]
        self._ambiguous.update(self.names.intersection(defined))
        self.names.update(defined)
        for tensor in (*graph.tensors().values(), *graph.inputs, *graph.outputs):
            if isinstance(tensor, gs.Variable):
                if isinstance(tensor.dtype, int):
                    tensor.dtype = dtype_of(tensor.dtype)
            elif not isinstance(tensor._values, SourceValues):
                tensor._values = SourceValues(scope[tensor.name], self.data_dir)
        kept = []
        outputs = {id(tensor) for tensor in graph.outputs}
        for node, proto in zip(graph.nodes, source.node, strict=True):
            inner = [(a.name, a.g) for a in proto.attribute if a.HasField("g")]
            for name, body in inner:
                self._parents[id(node.attrs[name])] = graph
                self._adopt(node.attrs[name], body, scope)
            if inner:
                node.proto = onnx.NodeProto()
                node.proto.CopyFrom(proto)
                for attribute in node.proto.attribute:
                    attribute.ClearField("g")
            else:
                node.proto = proto
            value = _constant_value(proto)
            if value is not None and id(node.outputs[0]) not in outputs:
                (out,) = list(node.outputs)
                detach(node)
                make_constant(out, SourceValues(value, self.data_dir))
            else:
                kept.append(node)
        graph.nodes = kept

    def _name_dims(self) -> set[str]:
        """Names the inputs' dynamic dimensions that have no name, so that one can speak of them."""
        given: set[str] = set()
        for tensor in self.graph.inputs:
            if tensor.shape is None:
                continue
            dims: list[Dim] = []
            for axis, dim in enumerate(tensor.shape):
                if dim is None or dim == "" or (isinstance(dim, int) and dim < 0):
                    given.add(f"{tensor.name}.{axis}")
                    dims.append(f"{tensor.name}.{axis}")
                else:
                    dims.append(dim)
            tensor.shape = tuple(dims)
        return given

    def _name_nodes(self) -> None:
        """Gives nodes without a name, or with another's, a name of their own: reports need one."""
        taken: set[str] = set()
        for graph in self.graphs():
            for node in graph.nodes:
                if not node.name or node.name in taken:
                    base = node.name or next((o.name for o in node.outputs if o.name), node.op)
                    name, count = base, 1
                    while name in taken:
                        name, count = f"{base}_{count}", count + 1
                    node.name = name
                taken.add(node.name)
        self._node_names = taken

    def _check_connections(self) -> None:
        sparse = {s.values.name for source in self._sources.values() for s in source.sparse_initializer}
        for graph in self.graphs():
            known = {id(tensor) for tensor in graph.inputs}
            for node in graph.nodes:
                for tensor in node.inputs:
                    if (
                        tensor.name
                        and isinstance(tensor, gs.Variable)
                        and not tensor.inputs
                        and id(tensor) not in known
                        and tensor.name not in sparse
                        and not self._is_input(tensor, graph)
                    ):
                        raise UserError(
                            f"node {node.name!r} ({node.op}) reads tensor {tensor.name!r}, "
                            "which nothing produces",
                            hint="the file is damaged; export the model again",
                        )

    def _is_input(self, tensor: Any, graph: Any) -> bool:
        while graph is not None:
            if any(entry is tensor for entry in graph.inputs):
                return True
            graph = self._parents.get(id(graph))
        return False

    # -- looking -------------------------------------------------------------------------------

    def graphs(self) -> Iterator[Any]:
        """The main graph and every subgraph body, outer before inner."""
        stack = [self.graph]
        while stack:
            graph = stack.pop()
            yield graph
            for node in graph.nodes:
                stack.extend(bodies(node))

    def parent(self, graph: Any) -> Any | None:
        """The graph around a subgraph body; None for the main graph."""
        return self._parents.get(id(graph))

    @property
    def inputs(self) -> list[tuple[str, np.dtype | None, Shape | None]]:
        """Name, dtype and shape of each input of the main graph."""
        return [(t.name, t.dtype, _shape(t)) for t in self.graph.inputs]

    @property
    def outputs(self) -> list[tuple[str, np.dtype | None, Shape | None]]:
        """Name, dtype and shape of each output of the main graph."""
        return [(t.name, t.dtype, _shape(t)) for t in self.graph.outputs]

    def dim_symbols(self) -> set[str]:
        """Every dimension symbol of the graph."""
        return {
            dim
            for graph in self.graphs()
            for tensor in graph.tensors().values()
            for dim in tensor.shape or ()
            if isinstance(dim, str)
        }

    # -- editing -------------------------------------------------------------------------------

    def unique(self, base: str) -> str:
        """A tensor name that the model does not use yet, `base` where possible."""
        name, count = base, 1
        while name in self.names:
            name, count = f"{base}_{count}", count + 1
        self.names.add(name)
        return name

    def unique_node(self, base: str) -> str:
        """A node name that the model does not use yet, `base` where possible."""
        name, count = base, 1
        while name in self._node_names:
            name, count = f"{base}_{count}", count + 1
        self._node_names.add(name)
        return name

    def new_constant(self, name: str, values: np.ndarray) -> Any:
        """A new constant tensor, under `name` or the next free name."""
        return gs.Constant(self.unique(name), np.ascontiguousarray(values).reshape(values.shape))

    def new_node(
        self,
        op: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str,
        domain: str = "",
    ) -> Any:
        """A new node on tensors of the graph; the caller puts it into a graph's list."""
        node = gs.Node(op=op, name=self.unique_node(name), domain=domain or None)
        for tensor in inputs:
            node.inputs.append(tensor)
        for tensor in outputs:
            node.outputs.append(tensor)
        node.proto = onnx.helper.make_node(op, [], [], domain=domain, **dict(attrs or {}))
        return node

    def move_body(self, body: Any, graph: Any) -> list[Any]:
        """Takes all nodes out of a subgraph body; they belong to `graph` from now on.

        What another body calls by the same name gets a name of its own.
        """
        nodes = list(body.nodes)
        body.nodes = []
        for node in nodes:
            for tensor in (*node.outputs, *(t for t in node.inputs if isinstance(t, gs.Constant))):
                if tensor.name in self._ambiguous:
                    tensor.name = self.unique(tensor.name)
            for inner in bodies(node):
                self._parents[id(inner)] = graph
        return nodes

    def bind_dims(self, sizes: Mapping[str, int]) -> None:
        """Gives dimension symbols a size, everywhere."""
        for graph in self.graphs():
            for tensor in [*graph.tensors().values(), *graph.inputs, *graph.outputs]:
                if isinstance(tensor, gs.Variable):
                    tensor.shape = bind(_shape(tensor), sizes)

    def set_input_shape(self, name: str, shape: Sequence[Dim]) -> None:
        """Gives an input another shape; the shapes of all other tensors are inferred anew.

        Raises:
            UserError: there is no such input, its rank is another, or a static size contradicts.
        """
        tensor = next((t for t in self.graph.inputs if t.name == name), None)
        if tensor is None:
            raise unknown_name("input", name, [t.name for t in self.graph.inputs])
        old = _shape(tensor)
        if old is not None:
            if len(old) != len(shape):
                raise UserError(
                    f"input {name!r} has {len(old)} dimensions, the shape given has {len(shape)}",
                    hint=f"the model's own shape is {list(old)}",
                )
            for axis, (was, now) in enumerate(zip(old, shape, strict=True)):
                if isinstance(was, int) and isinstance(now, int) and was != now:
                    raise UserError(
                        f"dimension {axis} of input {name!r} is {was} in the model, not {now}",
                        hint="only dynamic dimensions can be given a size",
                    )
            sizes: dict[str, int] = {}
            for was, now in zip(old, shape, strict=True):
                if isinstance(was, str) and isinstance(now, int) and sizes.setdefault(was, now) != now:
                    raise UserError(
                        f"dimension {was!r} of input {name!r} is given two sizes, {sizes[was]} and {now}",
                        hint="dimensions of one symbol have one size",
                    )
            self.bind_dims(sizes)
        tensor.shape = tuple(shape)

    def freeze_input(self, name: str, values: np.ndarray) -> np.ndarray:
        """Turns an input into a constant; returns its values, of the input's dtype and rank.

        Raises:
            UserError: there is no such input, or the values have another type or shape.
        """
        tensor = next((t for t in self.graph.inputs if t.name == name), None)
        if tensor is None:
            raise unknown_name("input", name, [t.name for t in self.graph.inputs])
        shape = _shape(tensor)
        with np.errstate(all="ignore"):
            cast = values.astype(tensor.dtype) if tensor.dtype is not None else values
        # a float is rounded to the input's precision; it may not overflow there, nor lose a fraction
        rounds = values.dtype.kind == "f" and cast.dtype.kind not in "iub"
        same = np.isfinite(cast.astype(values.dtype)) == np.isfinite(values) if rounds else cast == values
        if not np.all(same):
            raise UserError(
                f"input {name!r} is {tensor.dtype}; {values.tolist()!r} does not fit that type",
                hint=f"give values of type {tensor.dtype}",
            )
        if shape is not None and cast.ndim != len(shape) and cast.size == 1:
            cast = cast.reshape((1,) * len(shape))
        if shape is not None and (
            cast.ndim != len(shape)
            or any(isinstance(w, int) and w != n for w, n in zip(shape, cast.shape, strict=True))
        ):
            raise UserError(
                f"input {name!r} has shape {list(shape)}, the values given {list(cast.shape)}",
                hint="give as many values as the input has",
            )
        self.graph.inputs = [t for t in self.graph.inputs if t is not tensor]
        make_constant(tensor, cast)
        return cast

    def infer_shapes(self) -> None:
        """Infers dtype and shape of every tensor with ONNX's own inference, data propagation on."""
        self.known.clear()
        try:
            inferred = onnx.shape_inference.infer_shapes(
                self.to_proto(weights=False), strict_mode=False, data_prop=True
            )
        except Exception:  # a model that inference does not take keeps what it says of itself
            return
        _assign_types(self.graph, inferred.graph)

    def set_typical_input(self, shapes: Mapping[str, Sequence[Dim]]) -> None:
        """Infers `typical_shapes` for inputs of these shapes."""
        proto = self.to_proto(weights=False)
        for info in proto.graph.input:
            if info.name in shapes:
                set_shape(info.type.tensor_type, tuple(shapes[info.name]))
        del proto.graph.value_info[:]
        for info in proto.graph.output:
            info.type.tensor_type.ClearField("shape")
        try:
            inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=False, data_prop=True)
        except Exception:  # then the dynamic shapes are all that is known
            return
        self.typical_shapes = {
            info.name: shape_of(info.type.tensor_type.shape)
            for info in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
            if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape")
        }

    def sort(self) -> None:
        """Puts each graph's nodes in topological order, stable."""
        for graph in list(self.graphs()):
            graph.nodes = sorted_nodes(graph.nodes)

    # -- writing -------------------------------------------------------------------------------

    def to_proto(self, *, weights: bool = True) -> onnx.ModelProto:
        """The model as it stands.

        Args:
            weights: False leaves large constants out (they become typed inputs), for inference of
                shapes and types. External data stays external.
        """
        model = _copy(self.envelope)
        self._export_graph(self.graph, model.graph, weights, self._homes())
        known = {entry.domain for entry in model.opset_import}
        for domain in sorted({n.domain or "" for g in self.graphs() for n in g.nodes} - known):
            if domain not in ("", "ai.onnx") or not known & {"", "ai.onnx"}:
                model.opset_import.add(domain=domain, version=1)
        return model

    def _homes(self) -> dict[int, list[Any]]:
        """The constants that each graph writes: the innermost graph around all their readers."""
        homes: dict[int, tuple[Any, Any]] = {}
        for graph in self.graphs():
            for tensor in (*graph.outputs, *(t for node in graph.nodes for t in node.inputs)):
                if not isinstance(tensor, gs.Constant):
                    continue
                home = homes.get(id(tensor), (tensor, graph))[1]
                homes[id(tensor)] = (tensor, self._common(home, graph))
        written: dict[int, list[Any]] = {}
        for tensor, graph in homes.values():
            written.setdefault(id(graph), []).append(tensor)
        return written

    def _common(self, first: Any, second: Any) -> Any:
        around = []
        graph = first
        while graph is not None:
            around.append(graph)
            graph = self.parent(graph)
        while not any(second is graph for graph in around):
            second = self.parent(second)
        return second

    def _export_graph(
        self, graph: Any, target: onnx.GraphProto, weights: bool, homes: dict[int, list[Any]]
    ) -> None:
        source = self._sources[id(graph)]
        target.CopyFrom(source)
        del target.value_info[:]
        alive: dict[str, Any] = {}
        for node in graph.nodes:
            self.export_node(node, target.node.add(), weights, homes)
            alive.update((tensor.name, tensor) for tensor in node.outputs)
        for tensor in homes.get(id(graph), ()):
            if not weights and graph is self.graph and _elements(tensor) > _SHAPE_ELEMENTS:
                target.input.append(value_info(tensor.name, tensor.dtype, _shape(tensor)))
            else:
                export_constant(tensor, target.initializer.add())
        infos = {info.name: info for info in source.value_info}
        for tensor in graph.inputs:
            self._export_info(tensor, target.input.add(), infos)
        for tensor in graph.outputs:
            self._export_info(tensor, target.output.add(), infos)
            alive.pop(tensor.name, None)
        for name in infos:
            if name in alive:
                self._export_info(alive[name], target.value_info.add(), infos)

    def _export_info(
        self, tensor: Any, entry: onnx.ValueInfoProto, infos: Mapping[str, onnx.ValueInfoProto]
    ) -> None:
        """Writes a tensor's type: the source's words, the present dtype and shape."""
        if tensor.name in infos:
            entry.CopyFrom(infos[tensor.name])
        entry.name = tensor.name
        if entry.type.WhichOneof("value") in (None, "tensor_type") and tensor.dtype is not None:
            entry.type.tensor_type.elem_type = elem_type_of(tensor.dtype)
            shape = _shape(tensor)
            if shape is not None:
                shape = tuple(None if dim in self.symbols else dim for dim in shape)
            set_shape(entry.type.tensor_type, shape)

    def export_node(
        self,
        node: Any,
        target: onnx.NodeProto,
        weights: bool = True,
        homes: dict[int, list[Any]] | None = None,
    ) -> None:
        """Writes a node as it stands: its own NodeProto under the present names and bodies."""
        target.CopyFrom(node.proto)
        target.name = node.name
        del target.input[:], target.output[:]
        target.input.extend(tensor.name for tensor in node.inputs)
        target.output.extend(tensor.name for tensor in node.outputs)
        for attribute in target.attribute:
            body = node.attrs.get(attribute.name)
            if isinstance(body, gs.Graph):
                self._export_graph(body, attribute.g, weights, self._homes() if homes is None else homes)


def export_constant(tensor: Any, target: onnx.TensorProto) -> None:
    """Writes a constant: the source's TensorProto where it has one."""
    values = tensor._values
    if isinstance(values, SourceValues):
        target.CopyFrom(values.tensor)
    else:
        target.CopyFrom(numpy_helper.from_array(values))
    target.name = tensor.name


def bodies(node: Any) -> list[Any]:
    """The subgraph bodies of a node."""
    return [value for value in node.attrs.values() if isinstance(value, gs.Graph)]


# graphsurgeon removes from its lists by deep comparison of nodes (slow, and wrong for equal nodes);
# these edit by identity.


def detach(node: Any) -> None:
    """Takes a node off its tensors."""
    for tensor in {id(t): t for t in node.inputs}.values():
        _drop(tensor.outputs, node)
    for tensor in node.outputs:
        _drop(tensor.inputs, node)
    list.clear(node.inputs)
    list.clear(node.outputs)


def replace_input(node: Any, index: int, tensor: Any) -> None:
    """Makes input `index` of a node read another tensor."""
    old = node.inputs[index]
    list.__setitem__(node.inputs, index, tensor)
    if old is not tensor:
        for position, user in enumerate(old.outputs):
            if user is node:
                list.pop(old.outputs, position)
                break
        list.append(tensor.outputs, node)


def replace_output(node: Any, index: int, tensor: Any) -> None:
    """Makes output `index` of a node write another tensor."""
    old = node.outputs[index]
    list.__setitem__(node.outputs, index, tensor)
    _drop(old.inputs, node)
    list.append(tensor.inputs, node)


def replace_uses(old: Any, new: Any) -> list[Any]:
    """Makes every reader of `old` read `new`; returns the readers."""
    users = list({id(node): node for node in old.outputs}.values())
    for node in users:
        for index, tensor in enumerate(node.inputs):
            if tensor is old:
                list.__setitem__(node.inputs, index, new)
                list.append(new.outputs, node)
    list.clear(old.outputs)
    return users


def make_constant(tensor: Any, values: np.ndarray | SourceValues) -> None:
    """Turns a variable that nothing produces into a constant of the same name."""
    for attribute in ("dtype", "shape", "type"):
        tensor.__dict__.pop(attribute, None)
    tensor.__class__ = gs.Constant
    tensor._values = values
    tensor.data_location = None
    tensor._export_dtype = None


def constant_of(tensor: Any) -> np.ndarray | None:
    """A constant tensor's values, None for a variable."""
    return array_of(tensor) if isinstance(tensor, gs.Constant) else None


def _drop(members: Any, node: Any) -> None:
    kept = [member for member in members if member is not node]
    list.clear(members)
    list.extend(members, kept)


def _shape(tensor: Any) -> Shape | None:
    shape = tensor.shape
    if shape is None:
        return None
    return tuple(None if dim == "" or (isinstance(dim, int) and dim < 0) else dim for dim in shape)


def _elements(tensor: Any) -> int:
    return int(np.prod([int(d) for d in tensor.shape], dtype=np.int64))


def _topology(graph: onnx.GraphProto) -> onnx.GraphProto:
    """A graph with no more than what graphsurgeon is asked to hold."""
    target = onnx.GraphProto(name=graph.name)
    target.input.extend(graph.input)
    target.output.extend(graph.output)
    target.value_info.extend(graph.value_info)
    for tensor in graph.initializer:
        entry = target.initializer.add(name=tensor.name, data_type=tensor.data_type)
        entry.dims.extend(tensor.dims)
    for node in graph.node:
        entry = target.node.add(name=node.name, op_type=node.op_type, domain=node.domain)
        entry.input.extend(node.input)
        entry.output.extend(node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                body = entry.attribute.add(name=attribute.name, type=attribute.type)
                body.g.CopyFrom(_topology(attribute.g))
    return target


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _without_graph(model: onnx.ModelProto) -> onnx.ModelProto:
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


def _without_nodes(graph: onnx.GraphProto) -> onnx.GraphProto:
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


def _constant_value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node; None where it is not one, or is sparse or of strings."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return None if attribute.t.data_type == onnx.TensorProto.STRING else attribute.t
    if attribute.name in _CONSTANT_FORMS:
        dtype = np.float32 if "float" in attribute.name else np.int64
        return numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(attribute), dtype))
    return None


def _assign_types(graph: Any, inferred: onnx.GraphProto) -> None:
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
                    _assign_types(body, protos[name])


def sorted_nodes(nodes: Sequence[Any]) -> list[Any]:
    """Nodes in topological order; those that are in order already keep their places.

    Raises:
        UserError: there is a cycle.
    """
    owner = {id(tensor): node for node in nodes for tensor in node.outputs}
    started: set[int] = set()
    done: dict[int, Any] = {}
    for start in nodes:
        stack = [start]
        while stack:
            node = stack[-1]
            producers = (owner.get(id(tensor), node) for tensor in reads(node))
            needs = [p for p in producers if p is not node and id(p) not in done]
            if not needs:
                done[id(node)] = node
                stack.pop()
            elif id(node) in started:  # it waits for itself
                raise UserError(f"node {node.name!r} is part of a cycle")
            else:
                started.add(id(node))
                stack.extend(needs)
    return list(done.values())


def reads(node: Any) -> Iterator[Any]:
    """The tensors that a node reads, those that its bodies read included."""
    yield from node.inputs
    for body in bodies(node):
        for inner in body.nodes:
            yield from reads(inner)
        yield from body.outputs


def new_tensor(name: str, dtype: np.dtype | None, shape: Shape | None) -> Any:
    """A new tensor that is not connected yet."""
    return gs.Variable(name, dtype, shape)
