"""Scales that are computed at run time."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import AGAIN, Said, Subject, check
from onnxq.checks.engine import readers_in_float


@check(
    "computed-scale", needs="pairs", severity="error",
    parser=r"the compiler crashed", judge=readers_in_float,
)  # fmt: skip
def computed_scales(subject: Subject) -> Iterator[Said]:
    """Scales that the model computes."""
    for pair in subject.pairs:
        node, scale = pair.node, pair.scale
        if scale is not None and not scale.is_constant and scale.constant is None:
            yield Said(
                node.name, node.op, "its scale is computed",
                f"use constant scales: {AGAIN}", tensor=scale.name,
                consequence="the compiler knows static scales: it runs what reads them in float, or fails",
            )  # fmt: skip
