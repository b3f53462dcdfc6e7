"""Shape and type inference: ONNX's own, with data propagation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from onnxq.base.memory_bound import memory_bound
from onnxq.graph.load import graphs
from onnxq.graph.names import free_name
from onnxq.graph.source import constant_value, copy_model
from onnxq.graph.types import Dim, Shape, dtype_of, elem_type_of, set_shape, shape_of
from onnxq.graph.wiring import bodies

Type = tuple[np.dtype | None, Shape | None]
"""What is known of a tensor: its dtype and its shape."""


# Where onnxruntime keeps channels in blocks: dimensions are as they were, of as many channels as fill blocks.
_BLOCKED = "com.microsoft.nchwc"
_AS_ONNX = ("Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")


def node_types(
    node: onnx.NodeProto,
    inputs: Sequence[tuple[np.dtype | None, Shape | None, np.ndarray | None] | None],
    outputs: int,
    versions: Mapping[str, int],
) -> list[Type] | None:
    """The types of a node's outputs that ONNX's inference finds for this node alone.

    Args:
        node: its operator and its attributes.
        inputs: dtype and shape of each input, and its values where it is a small constant; None for one
            that is left out.
        outputs: how many outputs it has.
        versions: the version of each domain's operators.

    Returns:
        One for each output; None where nothing is known.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain == _BLOCKED:
        return _blocked_types(node, inputs, outputs, versions)
    version = versions.get(domain)
    if version is None or not onnx.defs.has(node.op_type, version, domain):
        return None
    proto = onnx.NodeProto()
    proto.CopyFrom(node)
    del proto.input[:], proto.output[:]  # a node of the model's own has them
    types, data = {}, {}
    for index, operand in enumerate(inputs):
        if operand is None:
            proto.input.append("")
            continue
        dtype, shape, values = operand
        if dtype is None:
            return None
        name = f"i{index}"
        proto.input.append(name)
        kind = onnx.TypeProto()
        kind.tensor_type.elem_type = elem_type_of(np.dtype(dtype))
        set_shape(kind.tensor_type, shape)
        types[name] = kind
        if values is not None:
            data[name] = onnx.numpy_helper.from_array(np.asarray(values))
    proto.output.extend(f"o{index}" for index in range(outputs))
    imports = [onnx.helper.make_opsetid(*entry) for entry in versions.items()]
    schema = onnx.defs.get_schema(node.op_type, version, domain)
    try:
        inferred = onnx.shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=imports)
    except Exception:  # what inference does not know stays unknown
        return None
    output_types: list[Type] = []
    for name in proto.output:
        kind = inferred[name].tensor_type if name in inferred else onnx.TypeProto.Tensor()
        output_types.append(
            (dtype_of(kind.elem_type), shape_of(kind.shape) if kind.HasField("shape") else None)
        )
    return output_types


def _blocked_types(
    node: onnx.NodeProto, inputs: Sequence[Any], outputs: int, versions: Mapping[str, int]
) -> list[Type] | None:
    """What `node_types` gives of a node whose channels are in blocks."""
    if node.op_type in _AS_ONNX:
        own = onnx.NodeProto(op_type=node.op_type)
        own.attribute.extend(one for one in node.attribute if not one.name.startswith("activation"))
        return node_types(own, inputs[:3], outputs, versions)
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    dtype, shape, _ = inputs[0]
    if shape is None or len(shape) != 4:
        return [(dtype, None)]
    batch, channels, *sizes = shape
    if node.op_type == "Upsample":
        times = given.get("scales", (1, 1, 1, 1))[2:]
        sizes = [s * t if isinstance(s, int) else None for s, t in zip(sizes, times, strict=True)]
    elif node.op_type == "ReorderInput":
        sizes = [channels, sizes[0]] if given.get("channels_last") else sizes
        channels = None
    else:
        channels = given.get("channels")
        if given.get("channels_last"):
            return [(dtype, (batch, *sizes, channels))]
    return [(dtype, (batch, channels, *sizes))]


_VALUES_BYTES = 1 << 30
"""What inference may take for values that it follows: a last resort, as protobuf may crash at it."""


def infer(model: onnx.ModelProto, *, strict: bool = False, fits: bool = False) -> onnx.ModelProto:
    """ONNX's inference, with values where they are few: it holds a value for each element of long vectors.

    Args:
        model: the model.
        strict: whether what inference cannot tell is an error.
        fits: whether it is known that no size of the model is negative.

    Raises:
        Exception: of several classes, where inference does not take the model.
    """
    if any(_negative(graph) for graph in graphs(model.graph)):
        model = copy_model(model)
        for dim in (dim for graph in graphs(model.graph) for dim in _negative(graph)):
            dim.ClearField("dim_value")
    for _ in () if fits else _each_with_slices_before(model):
        _refuse_negative(_inferred(model, strict=strict).graph)
    return _inferred(model, strict=strict)


def _inferred(model: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
    if not follows_few(model):
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict)
    if _has_large_numbers(model):
        found = onnx.shape_inference.infer_shapes(model, strict_mode=strict)
        if _has_long_vectors(found.graph):
            return found
    with contextlib.suppress(MemoryError), memory_bound(_VALUES_BYTES + 8 * model.ByteSize()):
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)
    return onnx.shape_inference.infer_shapes(model, strict_mode=strict)


# -- negative sizes: at a Slice of one, inference ends the process ---------------------------------

_SHRINKING = (
    "Conv", "ConvInteger", "ConvTranspose", "AveragePool", "LpPool", "MaxPool", "Pad", "Split", "Expand",
)  # fmt: skip
"""What inference takes to give negative sizes: of windows larger than what they look at, say."""

_HIDDEN = "onnxq.hidden"


def _negative(graph: onnx.GraphProto) -> list[Any]:
    """The dimensions that a graph states to be negative: some exporters write dynamic ones so."""
    infos = (*graph.input, *graph.output, *graph.value_info)
    return [dim for info in infos for dim in info.type.tensor_type.shape.dim if dim.dim_value < 0]


def _refuse_negative(graph: onnx.GraphProto) -> None:
    """Raises ValueError where inference found a negative size."""
    for one in graphs(graph):
        if _negative(one):
            raise ValueError("a window is larger than what it looks at, or a size is negative")


def _each_with_slices_before(model: onnx.ModelProto) -> Iterator[None]:
    """The model with its Slices hidden, then with more and more of them, from the inputs on.

    Each time what is in front of them is inferred first: those that come to light read nothing negative. A
    Slice comes to light once all that shrinks in front of it is known.
    """
    rounds: dict[int, list[onnx.NodeProto]] = {}
    behind: dict[str, tuple[int, bool]] = {}  # how often Slices then shrink; whether a Slice is last
    for graph in graphs(model.graph):
        for node in graph.node:
            count, sliced = max((behind.get(name, (0, False)) for name in node.input), default=(0, False))
            if node.op_type in _SHRINKING:
                count, sliced = count + sliced, False
            elif node.op_type == "Slice" and node.domain in ("", "ai.onnx"):
                rounds.setdefault(count, []).append(node)
                sliced = True
            behind.update(dict.fromkeys(node.output, (count, sliced)))
    shrinks = any(node.op_type in _SHRINKING for graph in graphs(model.graph) for node in graph.node)
    hidden = [node for count in sorted(rounds) for node in rounds[count]] if shrinks else []
    domains = [node.domain for node in hidden]
    if hidden:
        model.opset_import.add(domain=_HIDDEN, version=1)
    try:
        for node in hidden:
            node.domain = _HIDDEN
        for count in sorted(rounds) if shrinks else ():
            yield
            for node in rounds[count]:
                node.domain = ""
    finally:
        for node, domain in zip(hidden, domains, strict=True):
            node.domain = domain
        if hidden:
            model.opset_import.pop()


_FEW = 64  # elements of a constant that may be sizes
_MOST_VALUES = 1 << 20
"""Elements that inference may follow: it holds each as a message, and lets Concat double them for ever."""


def follows_few(model: onnx.ModelProto) -> bool:
    """Whether inference can follow what is in a model's vectors: Concat and Range make long ones."""
    lengths: dict[str, int] = {}
    scalars: dict[str, Any] = {}
    followed = 0
    for graph in graphs(model.graph):
        for tensor in graph.initializer:
            lengths[tensor.name] = math.prod(tensor.dims) if len(tensor.dims) < 2 else 0
            if lengths[tensor.name] == 1 and tensor.data_location != onnx.TensorProto.EXTERNAL:
                scalars[tensor.name] = onnx.numpy_helper.to_array(tensor).reshape(-1)
        for info in graph.input:
            dims = shape_of(info.type.tensor_type.shape)
            lengths[info.name] = (
                max(1, *(dim for dim in dims if isinstance(dim, int)), 1) if len(dims) < 2 else 0
            )
        for node in graph.node:
            read = [lengths.get(name, 1) for name in node.input]
            made = (sum if node.op_type == "Concat" else max)(read) if read else 1
            if node.op_type == "Range":
                made = _steps(*(scalars.get(name) for name in node.input))
            lengths.update(dict.fromkeys(node.output, made))
            followed += made if node.op_type in ("Concat", "Range") else 0
    return followed <= _MOST_VALUES


def _steps(*bounds: Any) -> int:
    """The length of a Range; 1 where it is not known, and so is not followed."""
    if len(bounds) != 3 or any(
        bound is None or bound.size != 1 or bound.dtype.kind not in "iuf" for bound in bounds
    ):
        return 1
    start, limit, step = (bound.item() for bound in bounds)
    steps = (limit - start) / step if step else math.nan
    return min(max(0, math.ceil(steps)), _MOST_VALUES + 1) if math.isfinite(steps) else _MOST_VALUES + 1


def _has_large_numbers(model: onnx.ModelProto) -> bool:
    """Whether a size or a small constant of a model is so large that a vector of it may be long."""
    for graph in graphs(model.graph):
        for info in graph.input:
            dims = shape_of(info.type.tensor_type.shape)
            if math.prod(dim for dim in dims if isinstance(dim, int)) > _MOST_VALUES:
                return True
        constants = (value for node in graph.node if (value := constant_value(node)) is not None)
        for tensor in (*graph.initializer, *constants):
            if math.prod(tensor.dims) > _MOST_VALUES:
                return True
            if math.prod(tensor.dims) > _FEW or tensor.data_location == onnx.TensorProto.EXTERNAL:
                continue
            values = onnx.numpy_helper.to_array(tensor)
            if values.dtype.kind not in "iuf":
                continue
            values = values.astype(np.float64)
            large = (values > _MOST_VALUES) & (values < 2.0**62) & (values != 2.0**31 - 1)  # ends of slices
            if large.any():
                return True
    return False


def _has_long_vectors(graph: onnx.GraphProto) -> bool:
    """Whether vectors, as far as their lengths are known, have more elements than inference may follow."""
    infos = (info for one in graphs(graph) for info in (*one.input, *one.value_info, *one.output))
    shapes = (shape_of(info.type.tensor_type.shape) for info in infos)
    return any(len(shape) == 1 and isinstance(shape[0], int) and shape[0] > _MOST_VALUES for shape in shapes)


class Symbols:
    """Names for the dimensions that inference finds to be dynamic: `<tensor>.<axis>`.

    Inference calls them `unk__0`, `unk__1`, ..., other ones each time.

    Args:
        declared: the symbols that the model itself uses, which stay.
    """

    def __init__(self, declared: Iterable[str]) -> None:
        self._names: dict[str, str] = {symbol: symbol for symbol in declared}
        self._taken = set(self._names)
        self.given: set[str] = set()

    def named(self, tensor: str, shape: Shape) -> Shape:
        """The shape of a tensor with such names; the first tensor that has a symbol names it."""
        dims: list[Dim] = []
        for axis, dim in enumerate(shape):
            if isinstance(dim, str):
                name = self._names.get(dim) or self._new(dim, f"{tensor}.{axis}")
                if name != dim:
                    self.given.add(name)
                dim = name
            dims.append(dim)
        return tuple(dims)

    def _new(self, dim: str, base: str) -> str:
        """A name for a symbol that no other one has: sibling bodies may call their tensors alike."""
        self._names[dim] = free_name(base, self._taken)
        return self._names[dim]


def assign_types(graph: Any, inferred: onnx.GraphProto, symbols: Symbols) -> None:
    """Gives the tensors of a graph and its bodies the types of an inferred copy."""
    types = {}
    for info in (*inferred.value_info, *inferred.output, *inferred.input):
        if info.type.HasField("tensor_type"):
            types[info.name] = info.type.tensor_type
    for node in graph.nodes:
        for tensor in node.outputs:
            kind = types.get(tensor.name)
            if kind is not None and isinstance(tensor, gs.Variable):
                tensor.dtype = dtype_of(kind.elem_type) or tensor.dtype
                if kind.HasField("shape"):
                    tensor.shape = symbols.named(tensor.name, shape_of(kind.shape))
    copies = {node.name: node for node in inferred.node if node.attribute}
    for node in graph.nodes:
        inner = bodies(node)
        if inner and node.name in copies:
            protos = {a.name: a.g for a in copies[node.name].attribute if a.HasField("g")}
            for name, body in node.attrs.items():
                if isinstance(body, gs.Graph) and name in protos:
                    assign_types(body, protos[name], symbols)
