"""What could be fused into a layer, and is not."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check
from onnxq.graph.layers import multiplies
from onnxq.graph.pairs import is_qdq
from onnxq.graph.view import Node

_FUSED = ("Relu", "Clip", "LeakyRelu", "BatchNormalization")


@check("unfused", needs="data")
def unfused(evidence: Evidence) -> Iterator[Fact]:
    """Activations behind a layer that a pair, or another reader of its result, keeps out of its kernel.

    The engine has the last word: what it fuses is none, and without it only pairs are told.
    """
    for node in evidence.original.nodes:
        if node.op not in _FUSED or node.domain:
            continue
        layer, passed = _layer(node)
        if layer is None:
            continue
        code, other = _cause(layer, node, passed)
        seen = _apart(evidence, layer.name, node.name)
        if not code or seen is False or (seen is None and not passed):
            continue
        yield Fact(
            code, (node.name, node.op, layer.outputs[0].name),
            {
                "op": node.op, "layer_op": layer.op, "layer": layer.name, "other": other,
                "command": evidence.command, "confirmed": seen,
            },
        )  # fmt: skip


def _layer(node: Node) -> tuple[Node | None, bool]:
    """The layer whose result a node reads, and whether a pair is between them."""
    passed = False
    source = node.inputs[0]
    while source is not None and source.producer is not None:
        maker = source.producer
        if not is_qdq(maker):
            return (maker if multiplies(maker) else None), passed
        passed, source = True, maker.inputs[0]
    return None, passed


def _cause(layer: Node, node: Node, passed: bool) -> tuple[str, str]:
    """What keeps them apart, as a row, and the other reader; a row "" where nothing does."""
    out = layer.outputs[0]
    if passed:
        return "unfused.paired", ""
    if out.is_output:
        return "unfused.output", ""
    other = next((user.name for user in out.users if user != node), None)
    return ("", "") if other is None else ("unfused.read", other)


def _apart(evidence: Evidence, layer: str, node: str) -> bool | None:
    """Whether two nodes are in kernels of their own; None where no kernel lists one of them."""
    if evidence.reading is None:
        return None
    kernels = [
        {one.name for one in evidence.reading.kernels if name in one.nodes and one.is_kernel}
        for name in (layer, node)
    ]
    return not (kernels[0] & kernels[1]) if all(kernels) else None
