"""What makes a graph invalid whatever its operators are: checked in linear time, when it is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain

import onnx

from onnxq.base.errors import UserError
from onnxq.graph.constants import tensor_bytes
from onnxq.graph.order import cycle
from onnxq.graph.types import Shape, shape_text

_AGAIN = "the file is damaged, or its exporter is at fault: export the model again"
_UNIQUE = "give each tensor a name of its own; onnx.checker.check_model checks that"

_SHOWN = 6  # nodes of a cycle

_T = onnx.TensorProto
_PAIRS = (_T.COMPLEX64, _T.COMPLEX128)  # a value takes two entries of its field (onnx.proto)
_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def check_text(model: onnx.ModelProto, where: str) -> None:
    """Refuses names that are no text: a protobuf message may hold any bytes, and ONNX says UTF-8.

    Args:
        model: the model, subgraph bodies included.
        where: what it is called, for the message.

    Raises:
        UserError: there is one.
    """
    own = (model.producer_name, model.producer_version, model.domain, model.doc_string)
    props = (text for entry in model.metadata_props for text in (entry.key, entry.value))
    for name in chain(own, props, _names(model.graph)):
        if not isinstance(name, str):  # what protobuf gives in place of text that cannot be decoded
            raise UserError(f"{_invalid(where)}: a name is no UTF-8 text: {name!r}", hint=_AGAIN)


def _names(graph: onnx.GraphProto) -> Iterator[object]:
    """Every name and doc string of a graph and its subgraph bodies."""
    yield from (graph.name, graph.doc_string)
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield from (info.name, info.doc_string, *(dim.dim_param for dim in info.type.tensor_type.shape.dim))
    for tensor in graph.initializer:
        yield from (tensor.name, tensor.doc_string)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, node.doc_string, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _names(attribute.g)


def check_names(graph: onnx.GraphProto, where: str, *, outer: bool) -> None:
    """Refuses a graph with two definitions of a tensor, or an output that nothing makes.

    Args:
        graph: the graph; its subgraph bodies are not looked at.
        where: the model, for the message.
        outer: whether there is a graph around it, whose tensors its outputs may be.

    Raises:
        UserError: there is one.
    """
    inputs: set[str] = set()
    for info in graph.input:
        if not info.name:
            raise UserError(f"{_invalid(where)}: a graph input has no name", hint=_AGAIN)
        if info.name in inputs:
            raise UserError(f"{_invalid(where)}: there are two inputs {info.name!r}", hint=_UNIQUE)
        inputs.add(info.name)
    made = {*inputs, *(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer)}
    for name in (name for node in graph.node for name in node.output if name):
        if name in made:
            raise UserError(f"{_invalid(where)}: tensor {name!r} is defined more than once", hint=_UNIQUE)
        made.add(name)
    for info in graph.output:
        if info.name not in made and not (outer and info.name):
            what = f"nothing makes its output {info.name!r}" if info.name else "an output has no name"
            raise UserError(f"{_invalid(where)}: {what}", hint=_AGAIN)


def refuse_cycle(graph: onnx.GraphProto, where: str) -> None:
    """Refuses a graph in which nodes read each other in a circle.

    Raises:
        UserError: some do.
    """
    nodes = cycle(graph)
    if not nodes:
        return
    names = [repr(node.name or next(filter(None, node.output), "")) for node in nodes]
    if len(nodes) == 1:
        what = f"node {names[0]} ({nodes[0].op_type}) reads its own output"
    else:
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "...", names[-1]]
        what = f"{len(nodes)} nodes read each other in a cycle: {' -> '.join([*shown, names[0]])}"
    raise UserError(f"{_invalid(where)}: {what}", hint=_AGAIN)


def check_values(tensor: onnx.TensorProto, where: str, *, stripped: bool) -> None:
    """Refuses a tensor whose sizes do not fit the data that the model holds of it.

    Args:
        tensor: the tensor.
        where: the model, for the message.
        stripped: whether it may have no data at all.

    Raises:
        UserError: they do not, or a size is negative.
    """
    sizes = "x".join(map(str, tensor.dims)) or "a scalar"
    name = f"weight {tensor.name!r}" if tensor.name else "a constant"
    if any(size < 0 for size in tensor.dims):
        raise UserError(f"{_invalid(where)}: {name} is {sizes}: a size is negative", hint=_AGAIN)
    if tensor.data_location == _T.EXTERNAL or tensor.data_type not in _T.DataType.values():
        return  # external data is looked at beside the model
    if tensor.data_type == _T.UNDEFINED:
        raise UserError(f"{_invalid(where)}: {name} has no type", hint=_AGAIN)
    if tensor.HasField("raw_data"):
        needed, held, unit = tensor_bytes(tensor), len(tensor.raw_data), "bytes"
        fits = held == needed or tensor.data_type == _T.STRING
    else:
        needed = math.prod(tensor.dims) * (2 if tensor.data_type in _PAIRS else 1)
        held, unit = max(len(getattr(tensor, field)) for field in _FIELDS), "values"
        packed = tensor_bytes(tensor) < needed and tensor.data_type != _T.STRING  # less than a byte each
        fits = held == needed or (packed and held == tensor_bytes(tensor))
    if not fits and not (stripped and held == 0):
        raise UserError(
            f"{_invalid(where)}: {name} is {sizes}, which is {needed:,} {unit}, and the file holds {held:,}",
            hint="the file is damaged or stripped of its weights: copy or export it again",
        )


def _invalid(where: str) -> str:
    return f"{where!r} is not a valid ONNX model"


_MOST_VALUES = 1 << 31
"""Of an input: 8 GiB as float32. Samples are held in memory, several at a time."""


def check_sizes(inputs: Iterable[tuple[str, Shape | None]]) -> None:
    """Refuses inputs that no sample fits, before memory is asked for.

    Args:
        inputs: their names and shapes.

    Raises:
        UserError: the sizes of one make more than 2^31 values, or one of them is negative.
    """
    for name, shape in inputs:
        sizes = [dim for dim in shape or () if isinstance(dim, int)]
        said = f"input {name!r} takes {shape_text(shape)}"
        if any(size < 0 for size in sizes):
            raise UserError(f"{said}: a size is at least 0", hint="give the file as onnxq wrote it")
        if math.prod(sizes) > _MOST_VALUES:
            raise UserError(
                f"{said}, more than {_MOST_VALUES:,} values, which no memory holds",
                hint="export the model with a smaller one, or with a dynamic dimension",
            )
