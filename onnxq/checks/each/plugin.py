"""Nodes that plugins of the target's own library compute."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, check
from onnxq.checks.answers import TargetAnswer


@check("plugin", needs="target", severity="note")
def plugins(answer: TargetAnswer) -> Iterator[Fact]:
    """What onnxruntime and TensorRT-RTX do not have."""
    for entry in answer.plugins:
        yield Fact("plugin", (entry.node, entry.op), {"reason": entry.reason, "advice": entry.advice})
