"""How large the tensors of a model are for inputs of some sizes: told by inference, before anything runs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.base.shown import size
from onnxq.graph.infer import infer
from onnxq.graph.load import graphs
from onnxq.graph.source import constant_value, without_graph
from onnxq.graph.types import Shape, dtype_of, is_static, set_shape, shape_of, shape_text, value_info

_FEW = 4096  # elements of a constant that may be sizes: inference is told them
_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)  # inference follows no others
_OF_NUMBERS = frozenset(("OneHot", "Range", "Resize", "Upsample"))
"""The operators whose sizes follow from constants that are no integers."""
_SIZES = 16  # the same of an input

_TEXT = 64
"""Bytes of a text: onnxruntime takes 32, Python as many again; both take more where it is long."""

_KEPT = 256
_known: dict[bytes, TensorSizes] = {}
"""The sizes of light models: candidates of one search have the same."""


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that a node makes.

    Attributes:
        node: the node's name, or its output's where it has none.
        op: its operator.
        tensor: the tensor's name.
        shape: its sizes.
        bytes: what it takes.
        beside: what its node takes while it makes it.
    """

    node: str
    op: str
    tensor: str
    shape: Shape
    bytes: int
    beside: int = 0

    @property
    def most(self) -> int:
        """The bytes of the larger of the two."""
        return max(self.bytes, self.beside)

    def __str__(self) -> str:
        beside = f"; {size(self.beside)} meanwhile" if self.beside > self.bytes else ""
        return (
            f"{self.op} node {self.node!r} makes {self.tensor!r} ({shape_text(self.shape)}, "
            f"{size(self.bytes)}{beside})"
        )


@dataclass(frozen=True, slots=True)
class TensorSizes:
    """The tensors of a model and its bodies.

    Attributes:
        bytes: what those take together whose sizes are known, and their nodes beside them.
        open: how many others there are.
        rising: in the order of the file, those that are larger than all before them.
    """

    bytes: int
    open: int
    rising: tuple[Made, ...]

    @classmethod
    def of(cls, made: Iterable[Made | None]) -> TensorSizes:
        """Of tensors in the order of the file; None: one whose size is not known."""
        total, unknown, rising = 0, 0, list[Made]()
        for one in made:
            if one is None:
                unknown += 1
                continue
            total += one.bytes + one.beside
            if not rising or one.most > rising[-1].most:
                rising.append(one)
        return cls(total, unknown, tuple(rising))

    @property
    def largest(self) -> Made | None:
        """The first of the largest ones."""
        return self.rising[-1] if self.rising else None

    def beyond(self, most: int) -> Made | None:
        """The first that takes more than so many bytes."""
        return next((one for one in self.rising if one.most > most), None)


class Outline:
    """A model as inference needs it: without its large constants, and what the file says of sizes inside.

    Attributes:
        declared: the bytes of its inputs, as far as the file says their sizes.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = without_graph(model)
        graph, light = model.graph, self._model.graph
        light.name = graph.name
        light.output.extend(onnx.ValueInfoProto(name=one.name, type=one.type) for one in graph.output)
        for info in light.output:
            info.type.tensor_type.ClearField("shape")
        light.input.extend(graph.input)
        given = {info.name for info in graph.input}
        weights = {tensor.name for tensor in graph.initializer}
        self.declared = sum(_declared(info) for info in graph.input if info.name not in weights)
        sizing = {name for one in graphs(graph) for node in one.node for name in _sizing(node)}
        for tensor in graph.initializer:
            _keep(tensor, tensor.name, light, given, sizing)
        light.sparse_initializer.extend(graph.sparse_initializer)
        for node in graph.node:
            value = constant_value(node)
            if value is None:
                light.node.append(node)
            else:
                _keep(value, node.output[0], light, given, sizing)
        constants = {tensor.name: tensor for tensor in light.initializer}
        for body in (body for node in light.node for body in _bodies_of(node)):
            _tell(body, constants)

    def sizes(self, fed: Mapping[str, np.ndarray]) -> TensorSizes:
        """The sizes of what nodes make; `fed`: inputs, of which some may be left as the file says them."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for info in model.graph.input:
            array = fed.get(info.name)
            if array is None or not info.type.HasField("tensor_type"):
                continue
            set_shape(info.type.tensor_type, tuple(array.shape))
            if array.ndim < 2 and array.size <= _SIZES and array.dtype.kind in "iu":
                model.graph.initializer.append(
                    numpy_helper.from_array(np.ascontiguousarray(array), info.name)
                )
        key = hashlib.blake2b(model.SerializeToString(deterministic=True)).digest()
        sizes = _known.get(key)
        if sizes is None:
            try:
                inferred = infer(model).graph
            except Exception:  # what inference does not take stays unknown
                inferred = model.graph
            if len(_known) >= _KEPT:
                _known.clear()
            sizes = _known[key] = TensorSizes.of(_made(inferred))
        return sizes


def _declared(info: onnx.ValueInfoProto) -> int:
    kind = info.type.tensor_type
    dtype, shape = dtype_of(kind.elem_type), shape_of(kind.shape)
    return _bytes(dtype, shape) if dtype is not None and is_static(shape) else 0


def _bytes(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * (_TEXT if dtype.kind == "O" else dtype.itemsize)


def _beside(
    node: onnx.NodeProto, dtype: np.dtype, shape: tuple[int, ...], given: Sequence[Shape | None]
) -> int:
    """The bytes that a node takes while it makes a tensor, where onnxruntime's kernel takes many.

    It transforms a length that is no power of two by five arrays of one, of twice the length or more. Of a
    ConvTranspose it makes all products of an image and the weights before it adds them.

    Args:
        node: the node.
        dtype: of what it makes.
        shape: the same.
        given: the shapes of its inputs.
    """
    if node.op_type in ("DFT", "STFT") and len(shape) >= 3:
        length = max(shape[1:-1])
        return 5 * 2 * dtype.itemsize * (1 << (2 * length - 1).bit_length()) if length & (length - 1) else 0
    if node.op_type == "ConvTranspose" and is_static(x := given[0]) and is_static(weights := given[1]):
        return dtype.itemsize * math.prod(x[2:]) * math.prod(weights[1:])
    return 0


def _tell(body: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto]) -> None:
    """Gives a body the small constants around it that it reads: inference does not look for them there."""
    own = {tensor.name for tensor in body.initializer} | {info.name for info in body.input}
    read = {name for node in body.node for name in node.input} - own
    body.initializer.extend(constants[name] for name in sorted(read & constants.keys()))
    for node in body.node:
        for inner in _bodies_of(node):
            _tell(inner, constants)


def _sizing(node: onnx.NodeProto) -> Iterable[str]:
    """What a node may read its sizes of, integer or not; an operator that is not known: anything."""
    return node.input if node.domain not in ("", "ai.onnx") or node.op_type in _OF_NUMBERS else ()


def _keep(
    tensor: onnx.TensorProto, name: str, light: onnx.GraphProto, given: set[str], sizing: set[str]
) -> None:
    """Keeps a constant: as it is where it may be sizes, else as an input of its sizes."""
    dims = [int(dim) for dim in tensor.dims]
    outside = tensor.data_location == onnx.TensorProto.EXTERNAL
    if not outside and math.prod(dims) <= _FEW and (tensor.data_type in _INTEGERS or name in sizing):
        light.initializer.append(tensor)
        light.initializer[-1].name = name
        return
    dtype = dtype_of(tensor.data_type)
    if name not in given and dtype is not None:
        light.input.append(value_info(name, dtype, tuple(dims)))


def _made(graph: onnx.GraphProto) -> Iterator[Made | None]:
    """What the nodes of a graph and of its bodies make; None for each that is not known."""
    infos = (*graph.input, *graph.value_info, *graph.output)
    known = {info.name: info.type.tensor_type for info in infos}
    for node in graph.node:
        given = [_shape(known.get(name)) for name in node.input]
        for name in filter(None, node.output):
            kind = known.get(name)
            dtype, shape = None if kind is None else dtype_of(kind.elem_type), _shape(kind)
            if dtype is None or not is_static(shape):
                yield None
            else:
                takes = _bytes(dtype, shape), _beside(node, dtype, shape, given)
                yield Made(node.name or name, node.op_type, name, shape, *takes)
        for body in _bodies_of(node):
            yield from _made(body)


def _shape(kind: onnx.TypeProto.Tensor | None) -> Shape | None:
    """The shape of a tensor; None where nothing says it."""
    return shape_of(kind.shape) if kind is not None and kind.HasField("shape") else None


def _bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs
