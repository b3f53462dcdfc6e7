"""The part of a model that depends on no input."""

from __future__ import annotations

import onnx

from onnxq.graph.order import reads

# Fewer constant nodes cost nothing to speak of.
_MANY = 256


def constant_part(model: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto] | None:
    """Parts a model of many nodes that depend on no input: those nodes, and the rest.

    onnxruntime's time to load a graph grows with the number of such nodes times its size.

    Returns:
        A model that gives what the rest reads of them, and the rest, which lacks these tensors as
        initializers. None where that gains nothing, or the model is not of the simplest kind.
    """
    graph = model.graph
    if model.functions or graph.sparse_initializer or model.ir_version < 4:
        return None
    fixed = {tensor.name for tensor in graph.initializer} - {info.name for info in graph.input}
    made: set[str] = set()
    constants, rest = (onnx.ModelProto(ir_version=model.ir_version) for _ in range(2))
    outputs: dict[str, None] = {}
    for node in graph.node:
        read = [name for name in reads(node) if name]
        if all(name in fixed for name in read) and not any(a.HasField("g") for a in node.attribute):
            constants.graph.node.append(node)
            made.update(node.output)
            fixed.update(node.output)
        else:
            rest.graph.node.append(node)
            outputs.update((name, None) for name in read if name in made)
    if len(made) < _MANY or not outputs or any(info.name in made for info in graph.output):
        return None
    for part, nodes in ((constants, constants.graph.node), (rest, rest.graph.node)):
        part.opset_import.extend(model.opset_import)
        part.graph.name = graph.name
        needed = {name for node in nodes for name in reads(node)}
        listed = {info.name for info in graph.input} | {info.name for info in graph.output}
        keep = needed | listed if part is rest else needed
        part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in keep)
    rest.graph.input.extend(graph.input)
    rest.graph.output.extend(graph.output)
    for name in outputs:
        constants.graph.output.add(name=name)
    return constants, rest
