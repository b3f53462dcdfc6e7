"""Loops: the only operator that may never end."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnxq.graph.load import graphs
from onnxq.graph.source import copy_model


def has_loop(model: onnx.ModelProto) -> bool:
    """Whether there is a Loop in a model, its subgraph bodies or its functions."""
    return next(_loops(model), None) is not None


def loops(model: onnx.ModelProto) -> tuple[str, ...]:
    """The names of all of them; of one that has none, that of its output."""
    return tuple(node.name or "".join(node.output[:1]) for node in _loops(model))


def _loops(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    holders = (holder for part in (model.graph, *model.functions) for holder in graphs(part))
    return (node for holder in holders for node in holder.node if node.op_type == "Loop")


def stoppable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, with a node in each body of a Loop: only between nodes can a run be stopped."""
    if not _bare_bodies(model):
        return model
    model = copy_model(model)
    for number, body in enumerate(_bare_bodies(model)):
        condition = body.output[0]
        name = f"{condition.name}:stoppable{number}"
        body.node.add(op_type="Identity", input=[condition.name], output=[name])
        condition.name = name
    return model


def _bare_bodies(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [
        attribute.g
        for part in (model.graph, *model.functions)
        for holder in graphs(part)
        for node in holder.node
        if node.op_type == "Loop"
        for attribute in node.attribute
        if attribute.HasField("g") and not attribute.g.node and attribute.g.output
    ]
