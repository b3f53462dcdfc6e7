"""Models that differ from another one in one place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser

_OPSETS = (6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 21)
_TWINS = {
    "Add": ("Sub", "Mul"), "Mul": ("Div", "Add"), "Sub": ("Add",), "Div": ("Mul",),
    "Relu": ("Neg", "Identity"), "Identity": ("Neg", "Relu"), "Squeeze": ("Identity",), "Equal": ("Less",),
    "Conv": ("ConvTranspose",),
}  # fmt: skip


def neighbours(proto: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """A model, and those that differ from it in one place; not all of them are valid."""
    yield proto
    for number in _OPSETS:
        other = _copy(proto)
        for entry in other.opset_import:
            entry.version = entry.version if entry.domain else number
        yield other
    paths = [()] + [
        (index, place)
        for index, node in enumerate(proto.graph.node)
        for place, a in enumerate(node.attribute)
        if a.HasField("g")
    ]
    for path in paths:
        for change in _changes_of(_graph_at(proto, path), proto.graph):
            other = _copy(proto)
            with contextlib.suppress(IndexError, ValueError, OverflowError, TypeError):  # not possible here
                change(_graph_at(other, path), other.graph)
                yield other


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    del other.graph.value_info[:]
    return other


def _graph_at(proto: onnx.ModelProto, path: tuple[int, ...]) -> onnx.GraphProto:
    return proto.graph.node[path[0]].attribute[path[1]].g if path else proto.graph


Change = Callable[[onnx.GraphProto, onnx.GraphProto], object]


def _changes_of(graph: onnx.GraphProto, main: onnx.GraphProto) -> Iterator[Change]:
    """Ways to change a graph (or a body, in a main graph) in one place."""
    for i, node in enumerate(graph.node):
        for j, attribute in enumerate(node.attribute):
            if not attribute.HasField("g"):
                yield lambda g, m, i=i, j=j: g.node[i].attribute.pop(j)
            for k in range(len(attribute.ints)):
                for step in (1, -1):
                    yield lambda g, m, i=i, j=j, k=k, s=step: _step(g.node[i].attribute[j].ints, k, s)
            if attribute.ints:
                yield lambda g, m, i=i, j=j: g.node[i].attribute[j].ints.pop()
                yield lambda g, m, i=i, j=j: _fill(g.node[i].attribute[j].ints, 0)
            if attribute.type == onnx.AttributeProto.INT:
                for value in {attribute.i + 1, attribute.i - 1, 0, 1, -1} - {attribute.i}:
                    yield lambda g, m, i=i, j=j, v=value: setattr(g.node[i].attribute[j], "i", v)
            if attribute.type == onnx.AttributeProto.FLOAT:
                for number in (attribute.f * 2 + 1, 0.0, float("nan")):
                    yield lambda g, m, i=i, j=j, v=number: setattr(g.node[i].attribute[j], "f", v)
            if attribute.type == onnx.AttributeProto.TENSOR:
                for values in _values_near(onnx.numpy_helper.to_array(attribute.t)):
                    yield lambda g, m, i=i, j=j, v=values: g.node[i].attribute[j].t.CopyFrom(_tensor(v))
            if attribute.type == onnx.AttributeProto.STRING:
                for text in (b"SAME_LOWER", b"constant", b"edge", b"sum", b"linear", b"tanh", b"", b"VALID"):
                    yield lambda g, m, i=i, j=j, v=text: setattr(g.node[i].attribute[j], "s", v)
        for k, name in enumerate(node.input):
            yield lambda g, m, i=i, k=k: _set(g.node[i].input, k, "")
            yield lambda g, m, i=i, k=k: _read_through(g, i, k)
            for other in dict.fromkeys(n for n in node.input if n != name):
                yield lambda g, m, i=i, k=k, v=other: _set(g.node[i].input, k, v)
        if node.input:
            yield lambda g, m, i=i: g.node[i].input.pop()
        for other in _TWINS.get(node.op_type, ()):
            yield lambda g, m, i=i, v=other: setattr(g.node[i], "op_type", v)
        for name in node.output if graph is main else ():
            yield lambda g, m, v=name: m.output.add(name=v)
            yield lambda g, m, v=name: (
                m.node.add(op_type="Identity", input=[v], output=["more"]),
                m.output.add(name="more"),
            )
        if len(node.output) == 1 and graph is main:
            for more in (1, 2, 3, 4):
                yield lambda g, m, i=i, n=more: _more_outputs(g, i, n)
    for i, tensor in enumerate(graph.initializer):
        values = onnx.numpy_helper.to_array(tensor)
        yield lambda g, m, i=i: _as_input(g, m, i)
        yield lambda g, m, i=i: m.input.add().CopyFrom(_info_of(g.initializer[i]))
        for new in _values_near(values):
            yield lambda g, m, i=i, v=new: g.initializer[i].CopyFrom(_tensor(v, g.initializer[i].name))
    for i, info in enumerate(graph.input if graph is main else ()):
        tensor_type = info.type.tensor_type
        for k in range(len(tensor_type.shape.dim)):
            for size in ("K", "N", 1, 2, 3, 4, 8, 0):
                yield lambda g, m, i=i, k=k, v=size: _resize(g.input[i].type.tensor_type.shape.dim[k], v)
        yield lambda g, m, i=i: g.input[i].type.tensor_type.ClearField("shape")
        yield lambda g, m, i=i: g.input[i].type.tensor_type.shape.dim.add(dim_value=2)
        yield lambda g, m, i=i: g.input[i].type.tensor_type.shape.dim.insert(
            0, onnx.TensorShapeProto.Dimension(dim_value=1)
        )
        if tensor_type.shape.dim:
            yield lambda g, m, i=i: g.input[i].type.tensor_type.shape.dim.pop()
        for kind in (1, 3, 6, 7, 9, 10, 11):
            yield lambda g, m, i=i, v=kind: setattr(g.input[i].type.tensor_type, "elem_type", v)
    for kind in (10, 11):  # all that is float becomes another type
        yield lambda g, m, v=kind: _retype(m, v)


def _tensor(values: np.ndarray, name: str = "") -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, order="C"), name)


def _step(items: Any, index: int, by: int) -> None:
    items[index] += by


def _set(items: Any, index: int, value: Any) -> None:
    items[index] = value


def _fill(items: Any, value: int) -> None:
    items[:] = [value] * len(items)


def _read_through(graph: onnx.GraphProto, index: int, place: int) -> None:
    """An Identity before an input: it is computed then."""
    node = onnx.helper.make_node("Identity", [graph.node[index].input[place]], ["through"])
    graph.node[index].input[place] = "through"
    graph.node.insert(index, node)


def _more_outputs(graph: onnx.GraphProto, index: int, count: int) -> None:
    graph.node[index].output.extend([""] * (count - 1) + ["second"])
    graph.output.add(name="second")


def _info_of(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _as_input(graph: onnx.GraphProto, main: onnx.GraphProto, index: int) -> None:
    main.input.add().CopyFrom(_info_of(graph.initializer[index]))
    graph.initializer.pop(index)


def _resize(dim: Any, size: int | str) -> None:
    dim.Clear()
    setattr(dim, "dim_param" if isinstance(size, str) else "dim_value", size)


def _retype(main: onnx.GraphProto, kind: int) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    for info in [*main.input, *main.output]:
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = kind
    for tensor in main.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(_tensor(onnx.numpy_helper.to_array(tensor).astype(dtype), tensor.name))


def _values_near(values: np.ndarray) -> Iterator[np.ndarray]:
    """Other values, shapes and types for a constant."""
    if values.size and values.dtype.kind in "iuf":
        yield values + values.dtype.type(1)
        yield values * values.dtype.type(0)
        if values.dtype.kind != "u":
            yield -values
            yield values - values.dtype.type(1)
        for number in (0, 1, 2, -1, 2**31 - 1, np.nan, np.inf, 1e30, -0.0):
            if values.dtype.kind == "f" or (number == number and -1 < number < 127):
                for place in {0, values.size - 1}:
                    other = values.copy()
                    other.reshape(-1)[place] = number
                    yield other
        yield values.astype(np.int32 if values.dtype.kind != "i" else np.float32)
        yield np.full_like(values, values.reshape(-1)[0])
    if values.dtype == bool:
        yield ~values
    yield values[np.newaxis]
    yield values[..., np.newaxis]
    if values.ndim:
        yield values[:1]
        yield values[1:]
        yield np.concatenate([values, values[:1]])
    if values.size == 1:
        yield values.reshape(())
        yield np.repeat(values.reshape(1), 2)
