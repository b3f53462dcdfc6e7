"""Outputs that int8 makes coarse."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Said, check
from onnxq.checks.limits import OUTPUT_DB
from onnxq.graph.pairs import pairs_of


@check("coarse-output", needs="data")
def coarse_outputs(evidence: Evidence) -> Iterator[Said]:
    """Quantized outputs of the model with much rounding noise."""
    for output in evidence.model.outputs:
        for pair in pairs_of(output):
            node, name = pair.node, evidence.measured(pair.codes)
            threshold = evidence.threshold(name) if name is not None else None
            if name is None or threshold is None:
                continue
            left = evidence.db(name, threshold)
            if left < OUTPUT_DB:
                yield Said(
                    node.name, node.op, f"output {output.name!r} is rounded to {evidence.numbers(name).name}",
                    f"leave the pair in front of the output out; onnxq places none there: {evidence.command}",
                    tensor=output.name,
                    consequence=f"one step is {threshold / evidence.greatest(name):.3g}: "
                    f"{left:.1f} dB, by this pair alone",
                    db=left,
                )  # fmt: skip
