"""The nodes and tensors of a model, to look at and to edit; onnx-graphsurgeon holds what is connected.

It forgets metadata, doc strings, quantization annotations, unknown attribute types and sub-byte
constants. So nothing but the connections is entrusted to it: a node's own NodeProto, the
source's ModelProto (without its graph) and each weight's TensorProto are kept and written back.
"""

from __future__ import annotations

import hashlib
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.base.errors import UserError, unknown_name
from onnxq.formats import FORMATS, NumberFormat
from onnxq.graph import load as loading
from onnxq.graph.constants import SourceValues
from onnxq.graph.inlining import inlined
from onnxq.graph.names import free_name, with_short_names
from onnxq.graph.order import in_order, put_in_order
from onnxq.graph.rooted import rebased
from onnxq.graph.source import constant_value, copy_model, without_graph, without_nodes
from onnxq.graph.spool import Spool, is_large
from onnxq.graph.types import Dim, Shape, bind, dtype_of, shape_of
from onnxq.graph.validity import refuse_cycle
from onnxq.graph.wiring import bodies, make_constant, sorted_nodes, tensor_shape
from onnxq.targets import DEFAULT, Target, load_target

MARKS = ("float32_only", "exact_product")
"""What rules say of tensors: attributes of graphsurgeon's tensors, which stay with them."""

_ONNX = (None, "", "ai.onnx")

# Folded constants of more bytes are stored once where they are equal.
_SHARED = 1024


class Topology:
    """What `onnxq.graph.model.Model` is beside inference of shapes and writing, which build on it.

    Attributes:
        graph: the main graph (an onnx_graphsurgeon Graph whose nodes carry `proto`, their NodeProto).
        path: the file that it came from, or None.
        data_dir: the folder that its external data is relative to, or None.
        spool: where the new weights of a large model are; None for others.
        opset: the version of the default operator set.
        envelope: the source's ModelProto without its graph.
        dropped: names of initializers that nothing reads, dropped while reading.
        defaulted_inputs: graph inputs that had an initializer as default and are constants now.
        symbols: names, `<tensor>.<axis>`, of dynamic dimensions that the source left unnamed.
        assumed: sizes of dimension symbols that hold by statement or proof, not by the file.
        source: the model as it was read; never modified.
        sources: what each graph's GraphProto said beside its nodes and weights, by the graph's id.
        graph_outputs: the graph of each output of the main graph and of living bodies, by the
            tensor's id.
        typical_shapes: shapes of all tensors for a typical input, see `Model.set_typical_input`.
        workloads: what the model is run for, where that is several things; else none.
        known: what is known of the elements of a tensor, by its id, with the tensor itself; from
            one inference of shapes to the next.
        computed: the values of tensors that depend on no input and are no constants, by id, with the
            tensor itself; from one inference of shapes to the next.
        interface_changes: the inputs and outputs that rules made others of.
        lacks: whether the target lacks an operator or a feature.
        limits: what the target takes at most and its kernels need at least, by name.
        formats: the operators that the target multiplies in a number format, by its name.
        layer_formats: the number format of nodes, by name, that is another than the first of these.
        refined: tensors whose shapes inference does not find by itself, by id.
        folding_work: what was computed of its constants so far, see `onnxq.graph.affordable`.
        runtime: runs a model that has no inputs, for constant folding; None folds shapes only.
    """

    runtime: Callable[[onnx.ModelProto], list[np.ndarray] | None] | None = None

    def __init__(self, proto: onnx.ModelProto, path: Path | None, data_dir: Path | None) -> None:
        self.path = path
        self.data_dir = data_dir if loading.check_external_data(proto, data_dir) else None
        self.spool: Spool | None = None
        if self.data_dir is not None and is_large(proto):
            self.spool = Spool()
            proto, self.data_dir = rebased(proto, self.data_dir), self.spool.data_dir
        self.source = proto
        self.assumed: dict[str, int] = {}
        self.typical_shapes: dict[str, Shape] = {}
        self.workloads: tuple[WorkShare, ...] = ()
        self.interface_changes: list[Any] = []
        self.set_target(load_target(DEFAULT))
        self.layer_formats: Mapping[str, str] = {}
        self.asked_limits: dict[str, int] = {}  # those that somebody looked at
        self.known: dict[int, tuple[Any, np.ndarray | None]] = {}
        self.computed: dict[int, tuple[Any, np.ndarray]] = {}
        self._folded: dict[tuple[np.dtype, Shape, bytes], Any] = {}
        self.refined: set[int] = set()
        self.folding_work = 0
        self._parts: list[Any] = []
        self.lacks: Callable[[str], bool] = load_target(DEFAULT).lacks_feature
        proto = with_short_names(inlined(proto))
        if not all(in_order(graph) for graph in loading.graphs(proto.graph)):
            proto = copy_model(proto)
            for graph in loading.graphs(proto.graph):
                refuse_cycle(graph, "the model" if path is None else str(path))
                put_in_order(graph)
        self.envelope = without_graph(proto)
        self.opset = loading.opset_of(proto)
        weights = {tensor.name for tensor in proto.graph.initializer}
        listed = [info.name for info in proto.graph.input if info.name in weights]
        self.defaulted_inputs = listed if proto.ir_version >= 4 else []
        # Constant nodes and defaults are initializers from now on, which IR version 3 lists as inputs
        self.envelope.ir_version = max(proto.ir_version, 4)
        reader = Importer(self.data_dir)
        self.graph = reader.graph(proto.graph)
        self.names, self._ambiguous = reader.names, reader.ambiguous
        self.graph_outputs, self._parents, self.sources = reader.outputs, reader.parents, reader.sources
        self.dropped = sorted(weights - {tensor.name for tensor in self._constants()})
        self.symbols = self._name_dims()
        self._name_nodes()
        self._check_connections()

    # -- reading -------------------------------------------------------------------------------

    def _name_dims(self) -> set[str]:
        """Names the inputs' dynamic dimensions that have no name, so that one can speak of them."""
        named: set[str] = set()
        for tensor in self.graph.inputs:
            if tensor.shape is None:
                continue
            dims: list[Dim] = []
            for axis, dim in enumerate(tensor.shape):
                if dim is None or dim == "" or (isinstance(dim, int) and dim < 0):
                    named.add(f"{tensor.name}.{axis}")
                    dims.append(f"{tensor.name}.{axis}")
                else:
                    dims.append(dim)
            tensor.shape = tuple(dims)
        return named

    def _name_nodes(self) -> None:
        """Gives nodes without a name, or with another's, a name of their own: reports need one."""
        taken: set[str] = set()
        for graph in self.graphs():
            for node in graph.nodes:
                stated = node.name
                base = stated or next((o.name for o in node.outputs if o.name), node.op)
                node.name = free_name(base, taken)
                if node.name != stated:
                    node.given_name = stated
        self._node_names = taken

    def _check_connections(self) -> None:
        sparse = {s.values.name for source in self.sources.values() for s in source.sparse_initializer}
        for graph in self.graphs():
            defined = {id(tensor) for tensor in graph.inputs}
            for node in graph.nodes:
                for tensor in node.inputs:
                    if (
                        tensor.name
                        and isinstance(tensor, gs.Variable)
                        and not tensor.inputs
                        and id(tensor) not in defined
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

    def graphs(self, *, defined: bool = False) -> Iterator[Any]:
        """The main graph and every subgraph body, outer before inner.

        Args:
            defined: whether bodies of operators that are not ONNX's own are left out: nobody knows what their
                nodes are taken for.
        """
        stack = [self.graph]
        while stack:
            graph = stack.pop()
            yield graph
            for node in graph.nodes:
                if node.attrs:  # they hold nothing but bodies
                    stack.extend(() if defined and node.domain not in _ONNX else bodies(node))

    def parent(self, graph: Any) -> Any | None:
        """The graph around a subgraph body; None for the main graph."""
        return self._parents.get(id(graph))

    @property
    def float32_only(self) -> list[str]:
        """The names of the tensors that half precision would spoil, as rules say."""
        graphs = [*self.graphs()]
        read = (t for g in graphs for n in g.nodes for t in (*n.inputs, *n.outputs))
        return sorted({t.name for t in read if getattr(t, "float32_only", False)})

    @property
    def exact_products(self) -> dict[str, str]:
        """The tensors that are products whose factors must not be rounded to TF32, and why, as rules say."""
        made = [t for graph in self.graphs() for node in graph.nodes for t in node.outputs]
        return {str(t.name): t.exact_product for t in made if getattr(t, "exact_product", "")}

    @property
    def versions(self) -> dict[str, int]:
        """The version of each domain's operators, "" for ONNX's own."""
        listed = {"" if e.domain == "ai.onnx" else e.domain: e.version for e in self.envelope.opset_import}
        return {**listed, "": self.opset}

    def _constants(self) -> Iterator[Any]:
        """The constants that something reads."""
        for graph in self.graphs():
            for tensor in (*graph.outputs, *(t for node in graph.nodes for t in node.inputs)):
                if isinstance(tensor, gs.Constant):
                    yield tensor

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
        return free_name(base, self.names)

    def unique_node(self, base: str) -> str:
        """A node name that the model does not use yet, `base` where possible.

        TensorRT's layers are named after nodes and after constants: a number is taken that neither has.
        """
        return free_name(base, self._node_names, self.names)

    def new_constant(self, name: str, values: np.ndarray) -> Any:
        """A new constant tensor, under `name` or the next free name."""
        while name in self._node_names:  # TensorRT names layers after both
            name = f"{name}_const"
        return self.constant(self.unique(name), values)

    def constant(self, name: str, values: np.ndarray) -> Any:
        """A constant tensor that is not part of the graph yet; large ones may be kept in a file."""
        array = np.ascontiguousarray(values).reshape(values.shape)
        return gs.Constant(name, array if self.spool is None else self.spool.values(array))

    def folded(self, values: np.ndarray) -> Any:
        """A constant of these values: the one that was folded before, else a new one without a name."""
        if values.nbytes <= _SHARED or values.dtype.hasobject:
            return self.constant("", values)
        digest = hashlib.blake2b(np.ascontiguousarray(values).view(np.uint8).data, digest_size=16)
        key = (values.dtype, values.shape, digest.digest())
        if key not in self._folded:
            self._folded[key] = self.constant("", values)
        return self._folded[key]

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
        """A new node on tensors of the graph; `add_nodes` puts it into one."""
        node = gs.Node(op=op, name=self.unique_node(name), domain=domain or None)
        node.inputs.extend(inputs)
        node.outputs.extend(outputs)
        node.proto = onnx.helper.make_node(op, [], [], domain=domain, **dict(attrs or {}))
        return node

    def add_nodes(self, nodes: Iterable[Any], beside: Any = None) -> None:
        """Puts new nodes into a graph, in any order until `sort`.

        Args:
            nodes: of `new_node`.
            beside: a node of the same graph; None: it is the main one.
        """
        around = (graph for graph in self.graphs() if any(node is beside for node in graph.nodes))
        (self.graph if beside is None else next(around)).nodes.extend(nodes)

    def name_apart(self, tensor: Any) -> None:
        """Gives a constant a name of its own where sibling bodies call theirs alike: it may leave one."""
        if isinstance(tensor, gs.Constant) and tensor.name in self._ambiguous:
            tensor.name = self.unique(tensor.name)

    def copy_body(self, body: Any, graph: Any, stands: Mapping[int, Any]) -> Any:
        """A copy of a subgraph body, with names of its own, for a node of `graph`.

        Args:
            body: the body.
            graph: the graph around the copy.
            stands: what the copy reads instead of tensors around it, by the tensor's id.
        """
        copies = dict(stands)
        copy = gs.Graph(name=body.name)
        self._parents[id(copy)] = graph

        def own(tensor: Any) -> Any:
            if not tensor.name:
                return gs.Variable.empty()
            copies[id(tensor)] = gs.Variable(self.unique(tensor.name), tensor.dtype, tensor.shape)
            return copies[id(tensor)]

        def read(tensor: Any) -> Any:
            self.name_apart(tensor)
            return copies.get(id(tensor), tensor) if tensor.name else gs.Variable.empty()

        copy.inputs = [own(tensor) for tensor in body.inputs]
        defined = {id(tensor) for tensor in copy.inputs}
        nodes = []
        for node in sorted_nodes(body.nodes):
            inputs = [read(tensor) for tensor in node.inputs]
            inner = {name: self.copy_body(one, copy, copies) for name, one in (node.attrs or {}).items()}
            outputs = [own(tensor) for tensor in node.outputs]
            twin = gs.Node(node.op, self.unique_node(node.name), inner, inputs, outputs, node.domain)
            twin.proto = onnx.NodeProto()
            twin.proto.CopyFrom(node.proto)
            nodes.append(twin)
            defined.update(map(id, outputs))
        for tensor in body.outputs:
            out = read(tensor)
            if id(out) not in defined:  # a constant, which another body may give too
                handed = gs.Variable(self.unique(tensor.name), out.dtype, tensor_shape(out))
                nodes.append(self.new_node("Identity", [out], [handed], name=f"{tensor.name}_out"))
                out = handed
            copy.outputs.append(out)
        copy.nodes = nodes
        source = onnx.GraphProto()
        source.CopyFrom(self.sources[id(body)])
        del source.value_info[:], source.quantization_annotation[:]  # they speak of the old names
        self.sources[id(copy)] = source
        self.graph_outputs.update((id(tensor), copy) for tensor in copy.outputs)
        return copy

    def adopt_part(self, part: Any, body: Any) -> None:
        """Makes a part of a body, of which a copy is to be made, one of which its source is known."""
        self.sources[id(part)] = self.sources[id(body)]
        self._parts.append(part)  # it stays referenced: its id must not be used again

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

    def set_target(self, target: Target) -> None:
        """Takes the numbers and formats of a target's kernels, of which rules and layers ask."""
        self.limits: Mapping[str, int] = target.limits
        self.formats: Mapping[str, Sequence[str]] = target.formats

    def format_of(self, node: str) -> NumberFormat:
        """What a node is quantized to, by its name."""
        return FORMATS[self.layer_formats.get(node) or next(iter(self.formats))]

    def bind_dims(self, sizes: Mapping[str, int]) -> None:
        """Gives dimension symbols a size, everywhere."""
        for graph in self.graphs():
            for tensor in [*graph.tensors().values(), *graph.inputs, *graph.outputs]:
                if isinstance(tensor, gs.Variable):
                    tensor.shape = bind(tensor_shape(tensor), sizes)

    def set_input_shape(self, name: str, shape: Sequence[Dim]) -> None:
        """Gives an input another shape; the shapes of all other tensors are inferred anew.

        Raises:
            UserError: there is no such input, its rank is another, or a static size contradicts.
        """
        tensor = self._input(name)
        old = tensor_shape(tensor)
        if old is not None:
            if len(old) != len(shape):
                raise UserError(
                    f"input {name!r} has {len(old)} dimensions, the shape given has {len(shape)}",
                    hint=f"the model's own shape is {list(old)}",
                )
            for axis, (was, now) in enumerate(zip(old, shape, strict=True)):
                if isinstance(was, int) and was != now:
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

    def _input(self, name: str) -> Any:
        """An input, by name.

        Raises:
            UserError: there is none.
        """
        tensor = next((t for t in self.graph.inputs if t.name == name), None)
        if tensor is None:
            raise unknown_name("input", name, [t.name for t in self.graph.inputs])
        return tensor

    def freeze_input(self, name: str, values: np.ndarray) -> np.ndarray:
        """Turns an input into a constant; returns its values, of the input's dtype and rank.

        Raises:
            UserError: there is no such input, or the values have another type or shape.
        """
        tensor = self._input(name)
        shape = tensor_shape(tensor)
        try:
            with np.errstate(all="ignore"):
                cast = values.astype(tensor.dtype) if tensor.dtype is not None else values
        except (OverflowError, TypeError, ValueError) as error:  # of numbers that no type of numpy's has
            raise UserError(
                f"input {name!r} is {tensor.dtype}; the value given does not fit that type: {error}",
                hint=f"give values of type {tensor.dtype}",
            ) from error
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

    def sort(self) -> None:
        """Puts each graph's nodes in topological order, stable."""
        for graph in list(self.graphs()):
            graph.nodes = sorted_nodes(graph.nodes)


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


@dataclass(frozen=True, slots=True)
class WorkShare:
    """One of several deployments of a model, as its layers see it.

    Attributes:
        name: the deployment's.
        share: its share of all work, 0 to 1.
        shapes: those of all tensors, by name.
        factor: what a multiply-accumulate in it counts, see `onnxq.graph.layers.balance`.
    """

    name: str
    share: float
    shapes: Mapping[str, Shape]
    factor: float = 1.0
