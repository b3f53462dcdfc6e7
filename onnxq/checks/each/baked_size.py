"""Sizes that an input names dynamic and a node has baked in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.graph.baked import baked_sizes


@check("baked-size", needs="file", kind="shape")
def baked_size(subject: Subject) -> Iterator[Said]:
    """Of each such dimension the first node that runs at one size of it alone."""
    for baked in baked_sizes(subject.model):
        yield Said(
            baked.node.name, baked.node.op, str(baked),
            f"export the model with {baked.symbol} free there (-1 in a Reshape); or state the size: "
            f"onnxq sanitize MODEL --assume {shlex.quote(f'{baked.symbol}={baked.size}')}",
            consequence=f"no other {baked.symbol} runs, whatever profile is stated",
        )  # fmt: skip
