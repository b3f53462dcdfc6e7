"""Edits by the name of their kind, as plan files state them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnxq.errors import UserError, unknown_name
from onnxq.repair.edits import FloatEdit
from onnxq.repair.lattice import Lattice
from onnxq.repair.scale import Scale
from onnxq.repair.shift import Shift
from onnxq.repair.split import HalfSteps

_KINDS: dict[str, Callable[[Mapping[str, Any]], FloatEdit]] = {
    "lattice": Lattice.from_json,
    "shift": Shift.from_json,
    "scale": Scale.from_json,
    "smooth": Scale.from_json,
    "split": HalfSteps.from_json,
}


def edit_of(json: Mapping[str, Any]) -> FloatEdit:
    """The edit that `to_json` gave.

    Raises:
        UserError: it is none.
    """
    kind = json.get("kind")
    if kind not in _KINDS:
        raise unknown_name("kind of edit", str(kind), list(_KINDS))
    try:
        return _KINDS[str(kind)](json)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"edit {kind!r} of tensor {json.get('tensor')!r} is not complete: {error!r}",
            hint="write the plan again with: onnxq plan",
        ) from error
