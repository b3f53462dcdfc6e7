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
from onnx import inliner
from onnx_graphsurgeon.logger import G_LOGGER

from onnxq.errors import UserError, unknown_name
from onnxq.graph import load as loading
from onnxq.graph.constants import SourceValues
from onnxq.graph.export import Exporter
from onnxq.graph.infer import Symbols, assign_types
from onnxq.graph.order import in_order, put_in_order
from onnxq.graph.source import constant_value, copy_model, topology, without_graph, without_nodes
from onnxq.graph.types import Dim, Shape, bind, dtype_of, set_shape, shape_of
from onnxq.graph.wiring import bodies, detach, make_constant, sorted_nodes, tensor_shape

G_LOGGER.severity = logging.CRITICAL


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
        symbols: names, `<tensor>.<axis>`, of dynamic dimensions that the source left unnamed.
        assumed: sizes of dimension symbols that hold by statement or proof, not by the file.
        source: the model as it was read; never modified.
        sources: what each graph's GraphProto said beside its nodes and weights, by the graph's id.
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
            proto = copy_model(proto)
            for graph in loading.graphs(proto.graph):
                put_in_order(graph)
        self.envelope = without_graph(proto)
        self.opset = loading.opset_of(proto)
        weights = {tensor.name for tensor in proto.graph.initializer}
        listed = [info.name for info in proto.graph.input if info.name in weights]
        self.defaulted_inputs = listed if proto.ir_version >= 4 else []
        # Constant nodes and defaults are initializers from now on, which IR version 3 lists as inputs
        self.envelope.ir_version = max(proto.ir_version, 4)
        self.names: set[str] = set()
        self._ambiguous: set[str] = set()  # names that sibling bodies give to different tensors
        self.graph_outputs: dict[int, Any] = {}
        self._parents: dict[int, Any] = {}
        self.sources: dict[int, onnx.GraphProto] = {}
        self.graph = self._import(proto.graph)
        self.dropped = sorted(weights - {tensor.name for tensor in self._constants()})
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
        bare = onnx.ModelProto(ir_version=self.envelope.ir_version, graph=topology(graph))
        bare.opset_import.extend(self.envelope.opset_import)
        imported = gs.import_onnx(bare)
        self._adopt(imported, graph, ChainMap())
        return imported

    def _adopt(self, graph: Any, source: onnx.GraphProto, outer: ChainMap[str, onnx.TensorProto]) -> None:
        """Gives a graph and its bodies their sources: node protos, lazy weights, Constant nodes."""
        self.sources[id(graph)] = without_nodes(source)
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
            value = constant_value(proto)
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
        sparse = {s.values.name for source in self.sources.values() for s in source.sparse_initializer}
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
        return [(t.name, t.dtype, tensor_shape(t)) for t in self.graph.inputs]

    @property
    def outputs(self) -> list[tuple[str, np.dtype | None, Shape | None]]:
        """Name, dtype and shape of each output of the main graph."""
        return [(t.name, t.dtype, tensor_shape(t)) for t in self.graph.outputs]

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
                    tensor.shape = bind(tensor_shape(tensor), sizes)

    def set_input_shape(self, name: str, shape: Sequence[Dim]) -> None:
        """Gives an input another shape; the shapes of all other tensors are inferred anew.

        Raises:
            UserError: there is no such input, its rank is another, or a static size contradicts.
        """
        tensor = next((t for t in self.graph.inputs if t.name == name), None)
        if tensor is None:
            raise unknown_name("input", name, [t.name for t in self.graph.inputs])
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

    def freeze_input(self, name: str, values: np.ndarray) -> np.ndarray:
        """Turns an input into a constant; returns its values, of the input's dtype and rank.

        Raises:
            UserError: there is no such input, or the values have another type or shape.
        """
        tensor = next((t for t in self.graph.inputs if t.name == name), None)
        if tensor is None:
            raise unknown_name("input", name, [t.name for t in self.graph.inputs])
        shape = tensor_shape(tensor)
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
        declared = {
            dim
            for source in self.sources.values()
            for info in source.value_info
            for dim in shape_of(info.type.tensor_type.shape)
            if isinstance(dim, str)
        }
        declared.update(d for t in self.graph.inputs for d in t.shape or () if isinstance(d, str))
        symbols = Symbols(declared)
        assign_types(self.graph, inferred.graph, symbols)
        self.symbols |= symbols.given

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

    def to_proto(self, *, weights: bool = True, handover: bool = False) -> onnx.ModelProto:
        """The model as it stands; see `Exporter`."""
        return Exporter(self, weights=weights, handover=handover).export()
