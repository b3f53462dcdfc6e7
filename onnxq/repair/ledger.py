"""The ledger: which steps were tried, in their order, what each one did to the outputs, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["kept", "dropped", "not-applicable", "left-out", "failed"]
"""`left-out`: for its effort, or by the user; `failed`: a fault of ours, which is undone."""

MARGIN_DB = 0.5
"""By so much a step may lower the SQNR of one output, where that of all together rises."""


@dataclass(frozen=True, slots=True)
class StepEntry:
    """One step.

    Attributes:
        step: its name.
        verdict: what came of it.
        why: in words.
        before_db: SQNR about the mean of all outputs on the samples that choose, without it; None where it
            was not measured.
        after_db: likewise with it.
        worst: the output that it lowers most, and by how much, dB (negative); None where it lowers none.
        changed: what it changed: how many biases, codes, tensors, by name of what is counted.
        runs: how many runs of the model it took.
        rows: how many rows of activations fitted it.
        skipped: layers that it left as they are, and why.
    """

    step: str
    verdict: Verdict
    why: str = ""
    before_db: float | None = None
    after_db: float | None = None
    worst: tuple[str, float] | None = None
    changed: Mapping[str, int] = field(default_factory=dict)
    runs: float = 0.0
    rows: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """It, for the report."""
        return {
            "step": self.step,
            "verdict": self.verdict,
            "why": self.why,
            "before_db": self.before_db,
            "after_db": self.after_db,
            "worst": None if self.worst is None else {"output": self.worst[0], "change_db": self.worst[1]},
            "changed": dict(self.changed),
            "runs": round(self.runs, 2),
            "rows": self.rows,
            "skipped": [{"node": node, "why": why} for node, why in self.skipped.items()],
        }
