"""What the target does not take and a rule of `onnxq sanitize` repairs, or would if it knew more."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, check, stated
from onnxq.checks.answers import TargetAnswer
from onnxq.rewrite.changes import Change

NEAR_MISS = stated("near-miss", needs="target", severity="error")
_HARMLESS = "one-element-scales"
"""The target takes them without harm, as the checks of pairs know."""


@check("repairable", needs="target", severity="error")
def repairable(answer: TargetAnswer) -> Iterator[Fact]:
    """What `unsupported` does not say already."""
    refused = {entry.node for entry in answer.refused}
    for repair in answer.repairs:
        if repair.entry.node in refused:
            continue
        row = "repairable" if isinstance(repair.entry, Change) else "near-miss"
        values = {"reason": repair.reason, "advice": repair.advice}
        if repair.rule.lacks == _HARMLESS:
            values["severity"] = "note"
        op = "" if repair.node is None else repair.node.op
        yield Fact(row, (repair.entry.node, op), values)
