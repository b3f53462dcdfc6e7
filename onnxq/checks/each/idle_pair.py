"""Pairs that no int8 kernel reads: they round, and save nothing."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._activations import pairs_of_activations
from onnxq.checks.engine import only_rounds
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.pairs import QUANTIZE, outputs_of
from onnxq.graph.view import Node

# What may read int8, or take it in at the end of a product's kernel.
_READ_INT8 = (
    *WEIGHTED, "Add", "Sum", "AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool", "Resize",
    "Upsample", QUANTIZE,
)  # fmt: skip


@check("idle-pair", needs="pairs", severity="note", judge=only_rounds)
def idle_pairs(subject: Subject) -> Iterator[Fact]:
    """Pairs whose readers all compute in float."""
    for pair in pairs_of_activations(subject):
        node = pair.node
        readers = [reader for reader, _ in pair.readers]
        if not readers or outputs_of(node.outputs[0]) or any(map(_may_read, readers)):
            continue
        ops = ", ".join(sorted({reader.op for reader in readers}))
        yield Fact("idle-pair", (node.name, node.op, node.outputs[0].name), {"ops": ops})


def _may_read(node: Node) -> bool:
    return bool(node.domain) or node.has_body or node.op in _READ_INT8
