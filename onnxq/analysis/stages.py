"""A stage of a model, opened to be looked at: float, sanitized, half, quantized, or another tool's file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx

from onnxq.base import door
from onnxq.base.errors import UserError
from onnxq.data.samples import specs_of
from onnxq.graph.constants import SourceValues
from onnxq.graph.cut import operator_name
from onnxq.graph.half import speaks_half
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.order import makers_in, readers_in, reads
from onnxq.graph.pairs import QDQ, PairIndex
from onnxq.graph.source import copy_model
from onnxq.graph.topology import Topology
from onnxq.graph.types import Shape, dtype_of, elem_type_of, is_float, set_inputs, shape_of
from onnxq.run import ort
from onnxq.run.polygraphy_io import Saved as Saved
from onnxq.run.polygraphy_io import load_outputs
from onnxq.run.versions import refuse_unreadable

THROUGH = (*QDQ, "Cast", "Identity")
"""Operators that a value goes through and stays what it is, but for rounding."""


class Stage:
    """A model and who writes and reads each tensor of its main graph.

    Attributes:
        name: its path, or "the model".
        path: its file; None for a model that is none.
        proto: it, in order; each node has a name of its own.
        data_dir: the folder of external data.
        half: whether a tensor is of half precision.
        fed: the inputs, as data must fit them.
        nodes: the nodes by name, in order; Constant nodes are constants.
        maker: the node that computes a tensor.
        readers: the nodes that read a tensor.
        constants: the weights by name.
        inputs: names of what is fed.
        outputs: names of what it gives.
    """

    def __init__(self, source: ModelSource | Model) -> None:
        """Opens it; a model that is open stays as it is.

        Raises:
            UserError: it cannot be read, or its opset is newer than onnxruntime's.
        """
        model = source if isinstance(source, Model) else Model.open(source)
        self.path = model.path
        self.name = "the model" if model.path is None else str(model.path)
        refuse_unreadable(model.to_proto(weights=False) if model is source else model.source, repr(self.name))
        self.data_dir = model.data_dir
        self.proto = model.to_proto()
        self.fed = specs_of(model)
        self._skeleton = model.to_proto(weights=False)
        self._kinds, self._shapes = _found(model)
        self.half = speaks_half(self.proto)
        graph = self.proto.graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self.nodes = {node.name: node for node in graph.node}
        self.maker, self.readers = makers_in(graph), readers_in(graph)
        self.inputs = [info.name for info in graph.input if info.name not in self.constants]
        self.outputs = [info.name for info in graph.output]

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The tensors that depend on no input: constants, and what is computed of them alone."""
        fixed = {"", *self.constants, *self.sparse}
        for node in self.proto.graph.node:
            if not _is_random(node) and fixed.issuperset(reads(node)):
                fixed.update(node.output)
        return frozenset(fixed)

    @cached_property
    def pairs(self) -> PairIndex:
        """The pairs of the main graph."""
        return PairIndex.of(Topology(self.proto, None, self.data_dir), bodies=False)

    @cached_property
    def infos(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The types of tensors, as far as ONNX or onnxruntime infers them."""
        infos = {
            name: onnx.helper.make_tensor_value_info(name, kind, None)
            for name, kind in self._kinds.items()
            if name in self.maker
        }
        infos |= {info.name: info for info in (*self.proto.graph.input, *self.proto.graph.output)}
        unknown = [name for name in self.maker if name not in infos and name not in self.fixed]
        if unknown:
            asked = onnx.ModelProto()
            asked.CopyFrom(self.proto)
            asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in unknown)
            kinds = ort.output_types(asked)
            infos |= {n: onnx.ValueInfoProto(name=n, type=kinds[n]) for n in unknown if n in kinds}
        return infos

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each node in the order of the model."""
        return {name: place for place, name in enumerate(self.nodes)}

    def constant(self, name: str) -> np.ndarray:
        """The values of a constant of the file."""
        return SourceValues(self.constants[name], self.data_dir).load()

    def kind(self, name: str) -> int:
        """The element type of a tensor, 0 where it is not known or no tensor."""
        if name in self.constants:
            return int(self.constants[name].data_type)
        info = self.infos.get(name)
        return int(info.type.tensor_type.elem_type) if info is not None else 0

    def is_float(self, name: str) -> bool:
        """Whether a tensor is one of floats."""
        dtype = dtype_of(self.kind(name))
        return dtype is not None and is_float(dtype)

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor, as far as it is known; see `set_sizes`."""
        if name in self._shapes:
            return self._shapes[name]
        info = self.infos.get(name)
        if info is None or not info.type.tensor_type.HasField("shape"):
            return None
        return shape_of(info.type.tensor_type.shape)

    def set_sizes(self, inputs: Mapping[str, Sequence[int]]) -> None:
        """Makes shapes those of inputs of these shapes, where they are known then."""
        proto = copy_model(self._skeleton)
        set_inputs(proto.graph, inputs)
        self._shapes |= _found(Model(proto, None, self.data_dir))[1]

    def base(self, name: str) -> str:
        """The tensor that one is quantized, dequantized or cast from; itself where it is not."""
        node = self.maker.get(name)
        while node is not None and node.op_type in THROUGH and not node.domain and node.input[0]:
            if node.input[0] in self.fixed:
                break
            name = node.input[0]
            node = self.maker.get(name)
        return name

    def source(self, name: str) -> onnx.NodeProto | None:
        """The node whose value a tensor holds, pairs and casts looked through."""
        return self.maker.get(self.base(name))

    def operator(self, node: onnx.NodeProto | None) -> str:
        """A node's operator, "" for none."""
        return "" if node is None else operator_name(node)


def open_stage(source: ModelSource) -> Stage | Saved:
    """Opens a stage; a `.json` file is what Polygraphy saved.

    Raises:
        UserError: it cannot be read.
    """
    if not isinstance(source, onnx.ModelProto) and str(source).endswith(".json"):
        path = Path(source)
        if os.path.isfile(path) and _is_report(path):
            raise UserError(
                f"{str(path)!r} is a report of onnxq, not a model",
                hint="give the .onnx file that it is beside",
            )
        return load_outputs(path)
    return Stage(source)


def _is_report(path: Path) -> bool:
    if not path.name.endswith(".report.json"):
        return False
    try:
        return "onnxq" in json.loads(door.content(path))
    except (OSError, ValueError, TypeError):
        return False


def _is_random(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith(("Random", "Bernoulli", "Multinomial"))


def _found(model: Model) -> tuple[dict[str, int], dict[str, Shape]]:
    """The element types and the shapes of a model's tensors, where they are known."""
    kinds: dict[str, int] = {}
    shapes: dict[str, Shape] = {}
    for name, tensor in model.tensors().items():
        if tensor.dtype is not None:
            kinds[name] = elem_type_of(tensor.dtype)
        if tensor.shape is not None:
            shapes[name] = tensor.shape
    return kinds, shapes
