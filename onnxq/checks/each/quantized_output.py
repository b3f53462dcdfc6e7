"""Pairs in front of an output."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.checks.each._activations import pairs_of_activations
from onnxq.checks.engine import only_rounds
from onnxq.formats import INT8
from onnxq.graph.pairs import outputs_of


@check("quantized-output", needs="pairs", severity="note", judge=only_rounds)
def quantized_outputs(subject: Subject) -> Iterator[Said]:
    """Outputs of the model that are quantized and dequantized at last."""
    for pair in pairs_of_activations(subject):
        node, codes = pair.node, (pair.format or INT8).name
        for output in outputs_of(node.outputs[0]):
            yield Said(
                node.name, node.op, f"output {output.name!r} is rounded to {codes}",
                "leave the pair in front of an output out", tensor=output.name,
                consequence=f"at most the values of {codes}, and a kernel more: nothing reads its {codes}",
            )  # fmt: skip
