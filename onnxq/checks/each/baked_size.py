"""Sizes that an input names dynamic and a node has baked in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.graph.baked import baked_sizes


@check("baked-size", needs="file", kind="shape")
def baked_size(subject: Subject) -> Iterator[Fact]:
    """Of each such dimension the first node that runs at one size of it alone."""
    for baked in baked_sizes(subject.model):
        yield Fact(
            "baked-size", (baked.node.name, baked.node.op),
            {
                "reason": str(baked), "symbol": baked.symbol,
                "assumed": shlex.quote(f"{baked.symbol}={baked.size}"),
            },
        )  # fmt: skip
