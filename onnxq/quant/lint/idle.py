"""Pairs that no int8 kernel reads: they round, and save nothing."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.finding import Finding, finding
from onnxq.graph.layers import WEIGHTED
from onnxq.graph.pairs import QUANTIZE, Pair, outputs_of
from onnxq.graph.view import Node
from onnxq.quant.lint.subject import Subject

# What may read int8, or take it in at the end of a product's kernel.
_READ_INT8 = (
    *WEIGHTED, "Add", "Sum", "AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool", "Resize",
    "Upsample", QUANTIZE,
)  # fmt: skip


def idle_pairs(subject: Subject) -> Iterator[Finding]:
    """Pairs whose readers all compute in float."""
    for pair in _of_activations(subject):
        node = pair.node
        readers = [reader for reader, _ in pair.readers]
        if not readers or outputs_of(node.outputs[0]) or any(map(_may_read, readers)):
            continue
        ops = ", ".join(sorted({reader.op for reader in readers}))
        yield finding(
            "idle-pair", node.name, node.op, f"only {ops} read it, in float", "leave the pair out",
            tensor=node.outputs[0].name, consequence="the values are rounded to int8, and nothing is saved",
        )  # fmt: skip


def quantized_outputs(subject: Subject) -> Iterator[Finding]:
    """Outputs of the model that are quantized and dequantized at last."""
    for node in (pair.node for pair in _of_activations(subject)):
        for output in outputs_of(node.outputs[0]):
            yield finding(
                "quantized-output", node.name, node.op, f"output {output.name!r} is rounded to int8",
                "leave the pair in front of an output out", tensor=output.name,
                consequence="256 values at most in the output, and a kernel more: nothing reads its int8",
            )  # fmt: skip


def _of_activations(subject: Subject) -> Iterator[Pair]:
    for pair in subject.pairs.dequantizing:
        if pair.codes is not None and not pair.codes.is_constant:
            maker = pair.codes.producer
            if maker is None or maker.inputs[0] is None or not maker.inputs[0].is_constant:
                yield pair


def _may_read(node: Node) -> bool:
    return bool(node.domain) or node.has_body or node.op in _READ_INT8
