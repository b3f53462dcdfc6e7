"""Boxes and scores in one quantized tensor: coordinates of hundreds, and probabilities from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check
from onnxq.checks.each._scores import mixes_scores


@check("boxes-with-scores", needs="data", is_cause=True)
def boxes_with_scores(evidence: Evidence) -> Iterator[Fact]:
    """Concats of scores and of what is much larger, under one scale."""
    for node in evidence.nodes:
        mixed = mixes_scores(evidence, node)
        if mixed is None:
            continue
        score, other, threshold = mixed
        values = 1 + int(evidence.greatest(score) / threshold + 0.5)
        yield Fact(
            "boxes-with-scores", (node.name, node.op, score),
            {
                "score": score, "other": other, "reach": evidence.tensors[other].amax, "values": values,
                "command": evidence.command, "step": threshold / evidence.greatest(score),
            },
        )  # fmt: skip
