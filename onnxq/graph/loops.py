"""Loops: the only operator that may never end."""

from __future__ import annotations

import onnx

from onnxq.graph.load import graphs
from onnxq.graph.source import copy_model


def has_loop(model: onnx.ModelProto) -> bool:
    """Whether there is a Loop in a model, its subgraph bodies or its functions."""
    holders = (holder for part in (model.graph, *model.functions) for holder in graphs(part))
    return any(node.op_type == "Loop" for holder in holders for node in holder.node)


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
