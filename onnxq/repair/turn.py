"""What a step of repair is given, and what it answers with; the file imports nothing that takes long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np

    from onnxq.graph.model import Model
    from onnxq.quant.draft.draft import Draft
    from onnxq.quant.plan import Edge
    from onnxq.repair.found_edits import FoundEdits
    from onnxq.repair.statistics import Channels


@dataclass(slots=True)
class Proposal:
    """What a step would change.

    Attributes:
        drafts: the candidates, of which the best is judged; of several the last are left out where they are
            too dear.
        skipped: what is left as it is, and why, by the name of a node or tensor.
        changed: how many things a candidate changes beside what is fitted, by the name of what is counted.
        too_many_bytes: why there is no candidate, where that is for the bytes that the engine would move.
    """

    drafts: list[Draft] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    too_many_bytes: str = ""


class Turn(Protocol):
    """The turn of a step: what it begins with, and what it may ask."""

    @property
    def model(self) -> Model:
        """The float model with the draft's edits."""

    @property
    def draft(self) -> Draft:
        """What the kept steps before it come to; a step proposes others that are made of it."""

    def permitted(self, proposed: FoundEdits) -> FoundEdits:
        """Edits, but for those at layers that may not have the step (`[[layer]]`)."""

    def edits(self, *proposed: FoundEdits, draft: Draft | None = None) -> Proposal:
        """A candidate for each of some permitted edits; `draft`: what they are added to, else the turn's."""

    def channels(self) -> Channels:
        """The greatest magnitude of each channel of tensors, by name, on the samples that fit."""

    def values(self, tensor: str) -> Iterable[np.ndarray]:
        """What a tensor near the inputs holds, for each of the samples that fit."""

    def shares(self, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        """How much of the outputs' noise edges make alone, by name; those of next to none are left out."""

    def refined(self) -> Mapping[str, float]:
        """Other ranges of measured tensors, by name, with which the outputs seem nearer."""

    def gain_db(self, draft: Draft) -> float:
        """By how much the outputs are nearer with another draft, dB."""

    def more_bytes(self, draft: Draft) -> float:
        """What the engine moves more with another draft, of what plain float16 moves: predicted."""

    @property
    def bytes_left(self) -> float:
        """How much more it may move; infinite where nobody sets a bound."""

    @property
    def taking(self) -> str:
        """The flag with which the step is taken whatever the engine moves."""

    def affordable(self, candidates: int = 1) -> int:
        """How many candidates a search may propose, of so many at most. A step with a search asks first.

        Raises:
            TooDear: none; the step is left out.
        """
