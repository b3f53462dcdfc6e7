"""What the target does not take."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, check
from onnxq.checks.answers import TargetAnswer


@check(
    "unsupported", needs="target", severity="error",
    command="onnxq split MODEL --at-op OP",
)  # fmt: skip
def unsupported(answer: TargetAnswer) -> Iterator[Said]:
    """Each node once, with the advice of the rule that knows it."""
    stays = {entry.node for entry in answer.report.unsupported}
    advice = {repair.entry.node: repair.advice for repair in answer.repairs}
    for entry in answer.refused:
        removed = entry.advice if entry.node in stays else "onnxq sanitize removes it"
        yield Said(entry.node, entry.op, entry.reason, advice.get(entry.node, removed))
