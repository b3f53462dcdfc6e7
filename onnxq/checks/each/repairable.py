"""What the target does not take and a rule of `onnxq sanitize` repairs, or would if it knew more."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from onnxq.checks import Said, check, stated
from onnxq.checks.answers import TargetAnswer
from onnxq.rewrite.changes import Change

NEAR_MISS = stated("near-miss", needs="target", severity="error")
_HARMLESS = "one-element-scales"
"""The target takes them without harm, as the checks of pairs know."""


@check("repairable", needs="target", severity="error")
def repairable(answer: TargetAnswer) -> Iterator[Said]:
    """What `unsupported` does not say already."""
    refused = {entry.node for entry in answer.refused}
    for repair in answer.repairs:
        if repair.entry.node in refused:
            continue
        teller = repairable if isinstance(repair.entry, Change) else NEAR_MISS
        if repair.rule.lacks == _HARMLESS:
            teller = dataclasses.replace(teller, severity="note")
        op = "" if repair.node is None else repair.node.op
        yield Said(repair.entry.node, op, repair.reason, repair.advice, check=teller)
