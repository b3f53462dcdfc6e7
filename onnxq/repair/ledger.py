"""The ledger: which steps were tried, in their order, what each one did to the outputs, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.judge.acceptance import OutputLowered
from onnxq.judge.answers import AnswersChange

Verdict = Literal["kept", "dropped", "not-applicable", "left-out", "failed"]
"""`left-out`: for its effort, the time, or by the user; `failed`: a fault of ours, which is undone."""


@dataclass(frozen=True, slots=True)
class LayerSkipped(DocumentPart):
    """A layer that a step left as it is.

    Attributes:
        node: its name.
        why: why.
    """

    node: str
    why: str


_ONE = {"tensors": "tensor", "biases": "bias", "codes": "code", "weights": "weight", "ranges": "range"}


def taking(step: str, steps: Sequence[RepairStep]) -> str:
    """The flag with which a step is taken whatever the engine moves with it, beside those that are kept."""
    return f"--repair {','.join([*(one.step for one in steps if one.verdict == 'kept'), step])}"


@dataclass(frozen=True, slots=True)
class RepairStep(DocumentPart):
    """A step of repair.

    Attributes:
        step: its name.
        verdict: what came of it.
        why: in words.
        before_db: the signal-to-noise ratio about the mean of all outputs without it, on the samples that
            judged it, dB; None where it was not measured.
        after_db: the same with it.
        worst: the output that it lowers most; None where it lowers none.
        changed: how many biases, codes or tensors it changed, by name of what is counted.
        runs: how many runs of the model it took.
        rows: how many rows of activations fitted it.
        more_bytes: what the engine moves more with it, weights included, as a share of what plain float16
            moves: predicted from shapes.
        skipped: the layers that it left as they are.
        answers: what it keeps of the float model's answers beyond what is kept without it, on the samples
            that judged it; None where it was not measured, or the task is not known.
    """

    step: str
    verdict: Verdict
    why: str
    before_db: float | None = None
    after_db: float | None = None
    worst: OutputLowered | None = None
    changed: Mapping[str, int] = field(default_factory=dict)
    runs: float = 0.0
    rows: int = 0
    more_bytes: float = 0.0
    skipped: tuple[LayerSkipped, ...] = ()
    answers: AnswersChange | None = None

    @property
    def made(self) -> str:
        """What it changed, in words: `2 biases, 1,200 codes`."""
        made = ((count, what) for what, count in self.changed.items() if count)
        return ", ".join(f"{count:,} {_ONE.get(what, what) if count == 1 else what}" for count, what in made)
