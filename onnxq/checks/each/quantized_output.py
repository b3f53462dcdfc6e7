"""Pairs in front of an output."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._activations import pairs_of_activations
from onnxq.checks.engine import only_rounds
from onnxq.formats import INT8
from onnxq.graph.pairs import outputs_of


@check("quantized-output", needs="pairs", severity="note", judge=only_rounds)
def quantized_outputs(subject: Subject) -> Iterator[Fact]:
    """Outputs of the model that are quantized and dequantized at last."""
    for pair in pairs_of_activations(subject):
        node, codes = pair.node, (pair.format or INT8).name
        for output in outputs_of(node.outputs[0]):
            yield Fact(
                "quantized-output",
                (node.name, node.op, output.name),
                {"output": output.name, "format": codes},
            )
