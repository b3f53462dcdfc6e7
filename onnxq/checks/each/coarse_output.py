"""Outputs that int8 makes coarse."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check
from onnxq.checks.limits import OUTPUT_DB
from onnxq.graph.pairs import pairs_of


@check("coarse-output", needs="data")
def coarse_outputs(evidence: Evidence) -> Iterator[Fact]:
    """Quantized outputs of the model with much rounding noise."""
    for output in evidence.model.outputs:
        for pair in pairs_of(output):
            node, name = pair.node, evidence.measured(pair.codes)
            threshold = evidence.threshold(name) if name is not None else None
            if name is None or threshold is None:
                continue
            left = evidence.db(name, threshold)
            if left < OUTPUT_DB:
                yield Fact(
                    "coarse-output", (node.name, node.op, output.name),
                    {
                        "output": output.name, "format": evidence.numbers(name).name,
                        "command": evidence.command, "step": threshold / evidence.greatest(name), "db": left,
                    },
                )  # fmt: skip
