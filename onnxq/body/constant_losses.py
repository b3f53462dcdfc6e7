"""What constants lose in half precision, found once for all bodies of a model: these share them."""

from __future__ import annotations

from typing import Any

from onnxq.base.reason import Reason
from onnxq.body.formats import Kind, loss
from onnxq.graph.wiring import constant_of


class ConstantLosses:
    """Why a type cannot hold constants, as far as somebody has asked."""

    def __init__(self, kind: Kind) -> None:
        """Nothing is known yet; `kind`: the type."""
        self._kind = kind
        self._known: dict[tuple[int, bool, bool], tuple[Any, Reason | None]] = {}

    def of(self, constant: Any, *, divides: bool, bounds: bool) -> Reason | None:
        """Why the type cannot hold a constant, None where it can; the rest as for `loss`."""
        held = constant._values  # duplicates of a model have it in common; kept, as ids are used again
        key = (id(held), divides, bounds)
        if key not in self._known:
            values = constant_of(constant)
            assert values is not None
            self._known[key] = (held, loss(values, self._kind, divides=divides, bounds=bounds))
        return self._known[key][1]
