"""Scales that are no positive numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Fact, Subject, check
from onnxq.checks.engine import is_built


@check(
    "scale-sign", needs="pairs", severity="error", lacks="zero-scales",
    parser=r"Scale coefficients must all be positive", judge=is_built,
)  # fmt: skip
def scale_signs(subject: Subject) -> Iterator[Fact]:
    """Scales that are 0, negative or no numbers."""
    for pair in subject.pairs:
        node, values = pair.node, pair.scales
        if values is not None and not np.all(values > 0):
            yield Fact("scale-sign", (node.name, node.op))
