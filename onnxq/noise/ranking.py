"""Decisions, ranked by what they gain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from onnxq.noise.decisions import Costs, Decision
from onnxq.noise.gram import NoiseModel


@dataclass(frozen=True, slots=True)
class Ranked:
    """A decision and what it is worth.

    Attributes:
        decision: what is left in float.
        gain_db: by how much the outputs' SQNR rises with it in float as well, predicted.
        measured_gain_db: the same, measured; None where it was not.
        alone_db: the SQNR that the sources that it removes leave, alone on; inf where there are none.
        cost: of it and its partners.
        share: which share of the int8 MACs it takes to float.
        sources: names of what it removes, the loudest first.
        why: in words.
    """

    decision: Decision
    gain_db: float
    measured_gain_db: float | None
    alone_db: float
    cost: float
    share: float
    sources: tuple[str, ...]
    why: str

    def to_json(self) -> dict[str, Any]:
        """The entry for the report."""
        raise NotImplementedError


def ranked(
    model: NoiseModel, decisions: Sequence[Decision], costs: Costs, floats: Collection[str] = ()
) -> list[Ranked]:
    """Decisions by what they gain beside what is float already, the greatest gain first."""
    raise NotImplementedError
