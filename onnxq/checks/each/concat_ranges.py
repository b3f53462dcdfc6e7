"""Inputs of one Concat that share a scale and need very different ones."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check, keep_float
from onnxq.checks.each._scores import mixes_scores
from onnxq.graph.view import Node


def _joined_inputs(evidence: Evidence, node: Node) -> dict[str, float]:
    """The measured inputs of a Concat under one scale, with its threshold."""
    if node.op != "Concat" or node.domain:
        return {}
    behind = node.outputs[0].name
    names = [name for source in node.inputs if (name := evidence.measured(source)) is not None]
    thresholds = {
        name: evidence.threshold(name) or evidence.threshold(behind) for name in dict.fromkeys(names)
    }
    usable = {name: threshold for name, threshold in thresholds.items() if threshold is not None}
    return usable if len(usable) > 1 and len(set(usable.values())) == 1 else {}


@check("concat-ranges", needs="data", is_cause=True)
def concat_ranges(evidence: Evidence) -> Iterator[Fact]:
    """Inputs of a Concat that the range of another one leaves few codes."""
    for node in evidence.nodes:
        inputs = _joined_inputs(evidence, node)
        if not inputs or mixes_scores(evidence, node):
            continue
        widest = max(inputs, key=lambda name: evidence.tensors[name].amax)
        for name, threshold in inputs.items():
            lost = evidence.loss(name, threshold) if name != widest else None
            if lost is None:
                continue
            yield Fact(
                "concat-ranges", (node.name, node.op, name),
                {
                    "name": name, "reach": evidence.tensors[name].amax,
                    "widest": widest, "widest_reach": evidence.tensors[widest].amax,
                    "command": keep_float(evidence, evidence.layers_behind(name)) or evidence.command,
                    "db": lost[0], "alone": lost[1],
                },
            )  # fmt: skip
