"""What is not quantized: what is wanted of it, and what it is made by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onnxq.base.reason import Reason
from onnxq.body.decide import Decision
from onnxq.body.formats import Kind
from onnxq.quant.plan_file import BodyType

_NONE = Reason("", "")


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """What is done with a model with pairs before it is written.

    Attributes:
        kind: the type of what is not quantized; None: float types stay as they are.
        io: whether inputs and outputs are of this type too.
        form: the form of weight scales.
        forced: whether it was asked for.
        because: why it is that type.
        half: whether the model has half precision itself.
        widens: whether that becomes float32, and with `io` its inputs and outputs too.
        layers: the layers that a plan gives one weight scale; None where no plan says.
        gained_db: what repair brought the outputs, dB: the body is not asked for all of it as well.
        asked: the nodes that the user has stay float32, or NVIDIA's compiler, and in what words.
        decision: what stays float32; None: nothing is converted, or it is not decided yet.
        notes: what the user may not expect.
        plain: whether nothing is done, as it ended in a fault.
    """

    kind: Kind | None = None
    io: bool = False
    form: str = "per-channel"
    forced: bool = False
    because: Reason = _NONE
    half: bool = False
    widens: bool = False
    layers: frozenset[str] | None = None
    gained_db: float = 0.0
    asked: Mapping[str, Reason] = field(default_factory=dict)
    decision: Decision | None = None
    notes: tuple[str, ...] = ()
    plain: bool = False

    @property
    def unchanged(self) -> BodyType:
        """The type of a body that is not changed: that of the model, where it has half precision itself."""
        return "own" if self.half and not self.widens else "fp32"

    def leaving(self, nodes: Mapping[str, Reason]) -> BodyPlan:
        """The same, where further nodes stay float32, each with its reason."""
        decision = self.decision
        if decision is not None:
            decision = replace(decision, stays={**decision.stays, **nodes})
        return replace(self, asked={**self.asked, **nodes}, decision=decision)

    def noting(self, *notes: str) -> BodyPlan:
        """The same, with more to be said, each once."""
        return replace(self, notes=tuple(dict.fromkeys([*self.notes, *notes])))


UNCHANGED = BodyPlan()
"""Nothing is done."""
