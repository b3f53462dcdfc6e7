"""Boxes and scores in one quantized tensor: coordinates of hundreds, and probabilities from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Said, check
from onnxq.checks.each._scores import mixes_scores


@check("boxes-with-scores", needs="data", is_cause=True)
def boxes_with_scores(evidence: Evidence) -> Iterator[Said]:
    """Concats of scores and of what is much larger, under one scale."""
    for node in evidence.nodes:
        mixed = mixes_scores(evidence, node)
        if mixed is None:
            continue
        score, other, threshold = mixed
        values = 1 + int(evidence.greatest(score) / threshold + 0.5)
        reach = evidence.tensors[other].amax
        yield Said(
            node.name, node.op,
            f"it joins scores from 0 to 1 ({score!r}) and {other!r}, up to {reach:.4g}, under one scale",
            "end the model in front of it, with an output for each, or divide the boxes by the size of the "
            f"image; else leave the output in float: {evidence.command}",
            tensor=score,
            consequence=f"one step is {threshold / evidence.greatest(score):.3g}: a score is one of {values}",
        )  # fmt: skip
