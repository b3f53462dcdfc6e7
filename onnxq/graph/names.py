"""Names that nothing has yet, and those that TensorRT refuses as they are too long."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnxq.base.shown import shorten
from onnxq.graph.load import graphs
from onnxq.graph.source import copy_model


def free_name(base: str, taken: set[str], others: frozenset[str] | set[str] = frozenset()) -> str:
    """A name that is not taken, `base` where possible; from now on it is.

    Args:
        base: the name to begin with; to others a number is added.
        taken: the names that are taken; the new one is added.
        others: names that one with a number may not have either.
    """
    name, count = base, 1
    while name in taken or (name != base and name in others):
        name, count = f"{base}_{count}", count + 1
    taken.add(name)
    return name


LONGEST = 4096
"""Bytes: "The given name exceeds the limit (4096 characters)" (TensorRT, `apiCheckName`)."""

_SHOWN = 200


def long_names(model: onnx.ModelProto) -> dict[str, None]:
    """The names of nodes and tensors that are too long; not those of inputs and outputs, which stay."""
    interface = {info.name for info in (*model.graph.input, *model.graph.output)}
    names = (name for graph in graphs(model.graph) for name in _names(graph))
    return dict.fromkeys(name for name in names if _is_long(name) and name not in interface)


def long_ends(model: onnx.ModelProto) -> list[str]:
    """The names of inputs and outputs that are too long: callers use them, so nobody here shortens them."""
    return [info.name for info in (*model.graph.input, *model.graph.output) if _is_long(info.name)]


def with_short_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model without `long_names`; the model itself where it has none."""
    found = long_names(model)
    if not found:
        return model
    model = copy_model(model)
    taken = {name for graph in graphs(model.graph) for name in _names(graph)}
    short = {name: free_name(shorten(name, _SHOWN), taken) for name in found}
    for graph in graphs(model.graph):
        for node in graph.node:
            node.name = short.get(node.name, node.name)
            node.input[:] = [short.get(name, name) for name in node.input]
            node.output[:] = [short.get(name, name) for name in node.output]
        for one in (*graph.initializer, *graph.value_info, *graph.input, *graph.output):
            one.name = short.get(one.name, one.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = short.get(sparse.values.name, sparse.values.name)
        for annotation in graph.quantization_annotation:
            annotation.tensor_name = short.get(annotation.tensor_name, annotation.tensor_name)
            for entry in annotation.quant_parameter_tensor_names:
                entry.value = short.get(entry.value, entry.value)
    return model


def _is_long(name: str) -> bool:
    return len(name) > LONGEST // 4 and len(name.encode("utf-8", "surrogateescape")) > LONGEST


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.name
        yield from node.output
    yield from (one.name for one in (*graph.initializer, *graph.input))
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
