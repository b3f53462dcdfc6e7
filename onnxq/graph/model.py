"""A model open for editing: its topology, the shapes that follow from it, and the model as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from onnxq.base.errors import UserError, unknown_name
from onnxq.graph import load as loading
from onnxq.graph.export import Exporter
from onnxq.graph.infer import Symbols, assign_types, infer
from onnxq.graph.refine import refine_shapes, spread_types
from onnxq.graph.rooted import read_beside
from onnxq.graph.topology import Topology, WorkShare
from onnxq.graph.types import Dim, Shape, set_inputs, shape_of
from onnxq.graph.view import Node, Tensor
from onnxq.graph.wiring import tensor_shape

_NO_TENSORS = {
    "sequence_type": "a sequence", "optional_type": "optional", "map_type": "a map",
    "sparse_tensor_type": "a sparse tensor", "opaque_type": "opaque",
}  # fmt: skip

# Each round of inference starts from what the one before it left open.
_ROUNDS = 8


class Model(Topology):
    """A model open for editing, whose shapes are known and which can be written."""

    def __init__(self, proto: onnx.ModelProto, path: Path | None, data_dir: Path | None) -> None:
        super().__init__(proto, path, data_dir)
        self._fit: list[Shape | None] = []  # shapes of the inputs with which no size is negative
        self.infer_shapes()

    @classmethod
    def open(cls, source: loading.ModelSource, *, stripped: bool = False) -> Model:
        """Reads a model from a path or a ModelProto, which is not modified.

        Args:
            source: where it is.
            stripped: whether its weights may have no data at all, for who looks at the graph only.

        Raises:
            UserError: the model cannot be read (see `onnxq.graph.load`), a node reads a tensor that
                nothing produces, or nodes read each other in a cycle.
        """
        if isinstance(source, onnx.ModelProto):
            loading.check(source, "the model", stripped=stripped)
            return cls(source, None, None)
        path = Path(source)
        proto, folder = read_beside(path, stripped=stripped)
        return cls(proto, path, folder)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the main graph."""
        return tuple(Tensor(self, tensor) for tensor in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs of the main graph."""
        return tuple(Tensor(self, tensor) for tensor in self.graph.outputs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the main graph, in order."""
        return tuple(Node(self, node) for node in self.graph.nodes)

    def tensors(self, *, bodies: bool = False) -> dict[str, Tensor]:
        """The tensors of the main graph by name, or of all graphs; each call goes through them."""
        graphs = self.graphs() if bodies else (self.graph,)
        return {name: Tensor(self, tensor) for graph in graphs for name, tensor in graph.tensors().items()}

    def tensor(self, name: str, *, bodies: bool = False) -> Tensor:
        """A tensor of the main graph, or of any graph, by name.

        Raises:
            UserError: there is none.
        """
        tensors = self.tensors(bodies=bodies)
        if name not in tensors:
            raise unknown_name("tensor", name, tensors)
        return tensors[name]

    def check_fed(self) -> None:
        """That data can feed each input of the main graph.

        Raises:
            UserError: an input is no tensor, or of no known type.
        """
        for tensor in self.inputs:
            if tensor.dtype is None:
                raise self._unfed(tensor.name)

    def _unfed(self, name: str) -> UserError:
        types = {info.name: info.type for info in self.source.graph.input}
        kind = types[name].WhichOneof("value") if name in types else None
        if kind not in _NO_TENSORS:
            return UserError(f"the type of input {name!r} is not known", hint="export the model again")
        return UserError(
            f"input {name!r} is {_NO_TENSORS[kind]}, not a tensor: TensorRT has no such inputs, "
            "and no data feed it",
            hint="export the model with a tensor in its place: an input for each entry",
        )

    def infer_shapes(self) -> None:
        """Infers dtype and shape of every tensor: ONNX's own inference, and what it leaves open beside it."""
        for _ in range(_ROUNDS):
            if not self._infer_once() or not refine_shapes(self):
                break
        spread_types(self)

    def _infer_once(self) -> bool:
        """Runs ONNX's inference; returns whether it takes the model."""
        self.known.clear()
        self.computed.clear()
        try:
            proto = self.to_proto(weights=False)
            shapes = [tensor_shape(tensor) for tensor in self.graph.inputs]
            inferred = infer(proto, fits=shapes == self._fit)
            self._fit = shapes
        except Exception:  # a model that inference does not take keeps what it says of itself
            return False
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
        return True

    def set_typical_input(
        self,
        shapes: Mapping[str, Sequence[Dim]],
        several: Sequence[tuple[str, float, Mapping[str, Sequence[Dim]]]] = (),
    ) -> None:
        """Infers `typical_shapes` for inputs of these shapes, and `workloads`.

        Args:
            shapes: by input.
            several: where the model is run for several things, the name of each, its share of all work, and
                the shapes of the inputs in it.
        """
        self.typical_shapes = self._typical(shapes)
        self.workloads = tuple(WorkShare(name, share, self._typical(own)) for name, share, own in several)

    def _typical(self, shapes: Mapping[str, Sequence[Dim]]) -> dict[str, Shape]:
        """The shapes of all tensors for inputs of these shapes."""
        proto = self.to_proto(weights=False)
        set_inputs(proto.graph, shapes)
        typical = Model(proto, None, self.data_dir)
        return {
            name: shape
            for name, tensor in typical.graph.tensors().items()
            if (shape := tensor_shape(tensor)) is not None
        }

    def derive_typical(self, name: str, made: Callable[[Shape], Mapping[str, Shape | None]]) -> None:
        """Completes the typical shapes, those of workloads too, by tensors that are made of another one.

        Args:
            name: the tensor that they are made of; where its shape is not known, theirs are not either.
            made: their shapes, of its shape.
        """

        def completed(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
            more = made(shapes[name]) if name in shapes else {}
            return {**shapes, **{new: shape for new, shape in more.items() if shape is not None}}

        self.typical_shapes = completed(self.typical_shapes)
        self.workloads = tuple(replace(one, shapes=completed(one.shapes)) for one in self.workloads)

    def to_proto(self, *, weights: bool = True, handover: bool = False) -> onnx.ModelProto:
        """The model as it stands; see `Exporter`."""
        return Exporter(self, weights=weights, handover=handover).export()
