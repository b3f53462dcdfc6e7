"""The sources of noise of a plan, and what of them a set of layers in float removes.

A source is the smallest thing that a file can remove: the edges that read the tensors of one scale group (or one
quantized weight) and that go together, whatever is left in float. A pair in front of a shared MaxPool or Concat is read
by all that needs what comes behind, and stays while one of them does; a tensor that three layers read gives a source
for each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.quant.plan import Edge, QuantPlan


@dataclass(frozen=True, slots=True)
class Source:
    """Edges that read what is quantized, and that no set of layers in float parts.

    Attributes:
        name: of its tensors, or the first of them; not unique.
        kind: `activation` or `weight`; `block` for all of consecutive layers.
        group: the scale group, -1 for a pair of the model's own, and for a block.
        tensors: what is quantized.
        edges: who reads it; without them, it makes no noise.
        wants: what keeps it: each is a set of nodes, all of which have to be in int8. It is there while one holds.
    """

    name: str
    kind: str
    group: int
    tensors: tuple[str, ...]
    edges: frozenset[Edge]
    wants: tuple[frozenset[str], ...]

    def stays(self, floats: Collection[str]) -> bool:
        """Whether it is there with some nodes in float."""
        return any(want.isdisjoint(floats) for want in self.wants)


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a plan, in the order of the model.

    Attributes:
        entries: they.
    """

    entries: tuple[Source, ...]

    @staticmethod
    def of(plan: QuantPlan) -> Sources:
        """Those of a plan, each as small as a file can tell apart."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.entries)

    def on(self, floats: Collection[str]) -> np.ndarray:
        """Which are there with some nodes in float, bool [sources]."""
        return np.array([source.stays(floats) for source in self.entries], bool)

    def on_each(self, sets: Sequence[Collection[str]]) -> np.ndarray:
        """Likewise for many sets, bool [sets, sources]."""
        raise NotImplementedError
