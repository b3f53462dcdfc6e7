"""What the target does not take."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, check
from onnxq.checks.answers import TargetAnswer


@check(
    "unsupported", needs="target", severity="error",
    command="onnxq pieces split MODEL --at-op OP",
)  # fmt: skip
def unsupported(answer: TargetAnswer) -> Iterator[Fact]:
    """Each node once, with the advice of the rule that knows it."""
    stays = {entry.node for entry in answer.report.unsupported}
    advice = {repair.entry.node: repair.advice for repair in answer.repairs}
    for entry in answer.refused:
        removed = entry.node not in stays and entry.node not in advice
        yield Fact(
            "unsupported.removed" if removed else "unsupported", (entry.node, entry.op),
            {"reason": entry.reason, "advice": advice.get(entry.node, entry.advice)},
        )  # fmt: skip
