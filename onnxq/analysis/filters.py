"""Which rows of a table are wanted: by glob of a name, and by operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.base.patterns import fits


@dataclass(frozen=True, slots=True)
class Filter:
    """What is wanted; nothing said wants all.

    Attributes:
        layers: globs, of which one has to fit one of a row's names.
        ops: operators, of which one has to be one of a row's; case does not matter.
    """

    layers: Sequence[str] = ()
    ops: Sequence[str] = ()

    def keeps(self, names: Sequence[str], ops: Sequence[str]) -> bool:
        """Whether a row is wanted."""
        if not fits(names, self.layers):
            return False
        chosen = {op.lower() for op in self.ops}
        return not chosen or not chosen.isdisjoint(op.lower() for op in ops)
