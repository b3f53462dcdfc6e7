"""Scales that are computed at run time."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import readers_in_float


@check(
    "computed-scale", needs="pairs", severity="error",
    parser=r"the compiler crashed", judge=readers_in_float,
)  # fmt: skip
def computed_scales(subject: Subject) -> Iterator[Fact]:
    """Scales that the model computes."""
    for pair in subject.pairs:
        node, scale = pair.node, pair.scale
        if scale is not None and not scale.is_constant and scale.constant is None:
            yield Fact("computed-scale", (node.name, node.op, scale.name))
