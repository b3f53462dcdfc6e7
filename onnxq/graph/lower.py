"""An older opset for a model of which no operator changed since: only its stamp is another one."""

from __future__ import annotations

import onnx

from onnxq.graph.topology import Topology


def lower_opset(model: Topology, opset: int) -> str:
    """Gives a model an older opset, in place, where that says the same.

    Args:
        model: the model.
        opset: the version that it is to have.

    Returns:
        Why it is left as it is: an operator that is newer, or a version that onnx does not know; "" where
        it has the older opset now.
    """
    if model.opset > onnx.defs.onnx_opset_version():
        return f"onnx {onnx.__version__} does not know opset {model.opset}"
    for graph in model.graphs():
        for node in graph.nodes:
            if node.domain not in (None, "", "ai.onnx") or not onnx.defs.has(node.op, model.opset, ""):
                continue
            since = onnx.defs.get_schema(node.op, model.opset, "").since_version
            if since > opset:
                return f"{node.op} {node.name!r} is of opset {since}"
    model.opset = opset
    for entry in model.envelope.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = opset
    return ""
