"""Split: half steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.graph.model import Model
from onnxq.repair.affine import ChannelMap
from onnxq.repair.draft import Draft
from onnxq.repair.found import FoundEdits


@dataclass(frozen=True, slots=True)
class HalfSteps:
    """Doubles channels."""

    tensor: str
    kind: str = "split"

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> HalfSteps:
        """The edit that `to_json` gave."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        raise NotImplementedError

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """Ranges."""
        raise NotImplementedError

    def maps(self, model: Model) -> dict[str, ChannelMap]:
        """Maps."""
        raise NotImplementedError

    def apply(self, model: Model) -> None:
        """Changes weights."""
        raise NotImplementedError


def find(model: Model, draft: Draft) -> FoundEdits:
    """The edits."""
    return FoundEdits()
