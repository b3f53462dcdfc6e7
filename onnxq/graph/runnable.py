"""The part of a model that onnxruntime can run: everything that no unknown operator feeds."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnxq.graph.load import opset_of
from onnxq.graph.order import reads

_KNOWN_DOMAINS = ("ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")


def runnable_part(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Leaves out operators of unknown domains, and all that depends on them.

    Args:
        model: a model whose nodes are in topological order and have names.

    Returns:
        The model itself where all of it is known. Else a model without the others, whose outputs
        are the original's that are left and the tensors that the others read; and for each node
        left out, the unknown operator that it is or depends on.
    """
    opset = opset_of(model)
    blame: dict[str, str] = {}
    left: dict[str, str] = {}
    kept: list[onnx.NodeProto] = []
    read_by_left: list[str] = []
    for node in model.graph.node:
        why = next(_foreign(node, opset), None) or next(
            (blame[name] for name in reads(node) if name in blame), None
        )
        if why is None:
            kept.append(node)
            continue
        left[node.name] = why
        blame.update((name, why) for name in node.output if name)
        read_by_left += reads(node)
    if not left:
        return model, {}
    part = onnx.ModelProto(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(kept)
    part.graph.input.extend(model.graph.input)
    part.graph.initializer.extend(model.graph.initializer)
    part.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    part.graph.output.extend(info for info in model.graph.output if info.name not in blame)
    made = {name for node in kept for name in node.output}
    listed = {info.name for info in part.graph.output}
    for name in dict.fromkeys(read_by_left):
        if name in made and name not in listed:
            part.graph.output.add(name=name)
    return part, left


def _foreign(node: onnx.NodeProto, opset: int) -> Iterator[str]:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain and domain not in _KNOWN_DOMAINS:
        yield f"{domain}.{node.op_type}"
    elif not domain and not onnx.defs.has(node.op_type, opset, ""):
        yield node.op_type
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _foreign(inner, opset)
