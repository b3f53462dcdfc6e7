"""Edits by the name of their kind, as plan files state them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.base.errors import UserError, in_short, unknown_name
from onnxq.base.typed import typed
from onnxq.draft.edits import FloatEdit
from onnxq.repair.lattice import Lattice
from onnxq.repair.scale import Scale
from onnxq.repair.shift import Shift
from onnxq.repair.split import HalfSteps

_KINDS: dict[str, type[FloatEdit]] = {
    "lattice": Lattice,
    "shift": Shift,
    "scale": Scale,
    "smooth": Scale,
    "split": HalfSteps,
}


def edit_of(json: Mapping[str, Any]) -> FloatEdit:
    """The edit that `to_dict` gave.

    Raises:
        UserError: it is none.
    """
    kind = str(json.get("kind"))
    if kind not in _KINDS:
        raise unknown_name("kind of edit", kind, list(_KINDS))
    try:
        return typed(_KINDS[kind], dict(json))
    except ValueError as error:
        raise UserError(
            f"edit {kind!r} of tensor {in_short(json.get('tensor'))} is not complete: {error}",
            hint="write the plan again with: onnxq plan",
        ) from error
