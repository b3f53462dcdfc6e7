"""What repair of accuracy did."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.repair.lattice import Lattice
from onnxq.repair.ledger import RepairStep
from onnxq.repair.scale import Scale
from onnxq.repair.shift import Shift
from onnxq.repair.split import HalfSteps

EditMade = Lattice | Shift | Scale | HalfSteps


@dataclass(frozen=True, slots=True)
class TensorMapped(DocumentPart):
    """What edits made of a tensor's values: `after[c] = before[index[c]] * scale[c] + offset[c]`.

    Attributes:
        tensor: its name.
        axis: its channel axis; None where scale and offset are one number for all, or `shape` says it.
        scale: by channel, or one for all.
        shape: as which the scale broadcasts to the tensor, where channels lie along several axes; else None.
        offset: likewise.
        index: which channel each one was; None: its own.
        was: the tensor whose values they were; None: that of the same name.
    """

    tensor: str
    axis: int | None
    scale: float | tuple[float, ...]
    shape: tuple[int, ...] | None = field(kw_only=True, default=None)
    offset: float | tuple[float, ...]
    index: tuple[int, ...] | None
    was: str | None = None


@dataclass(frozen=True, slots=True)
class RepairPart(DocumentPart):
    """What repair of accuracy did.

    Attributes:
        asked: the steps that were asked for, or "auto" or "none".
        why_not: why nothing was tried, or what a plan states; None where steps were tried.
        method: how it is judged, for people.
        margin_db: by how much an output may be lowered, dB.
        fitted_on: how many samples fitted what is written.
        judged_on: how many judged what is kept, where others fitted it.
        apart: whether each was judged with what others fitted; None where nothing was tried.
        few: which samples did two things, as there are too few; None where none did.
        runs: how many runs of the model it took.
        runs_before: how many it might have taken; None where nothing was tried.
        before_db: the signal-to-noise ratio about the mean of all outputs before, dB; None where it was not
            measured.
        after_db: the same after it.
        edits: the edits of the float model, in order.
        maps: what they made of the values of tensors.
        biases: how many biases are fitted.
        codes: how many weights have fitted codes.
        steps: each step.
    """

    asked: str | tuple[str, ...]
    why_not: str | None
    method: str
    margin_db: float
    fitted_on: int
    judged_on: int
    apart: bool | None
    runs: float
    runs_before: float | None
    before_db: float | None
    after_db: float | None
    edits: tuple[EditMade, ...]
    maps: tuple[TensorMapped, ...]
    biases: int
    codes: int
    steps: tuple[RepairStep, ...]
    few: str | None = None
