"""Edits by the name of their kind, as plan files state them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.base.errors import UserError, in_short, unknown_name
from onnxq.base.registry import at
from onnxq.base.typed import typed
from onnxq.options.step import steps
from onnxq.quant.draft.edits import FloatEdit


def edit_of(json: Mapping[str, Any]) -> FloatEdit:
    """The edit that `to_dict` gave.

    Raises:
        UserError: it is none.
    """
    kind = str(json.get("kind"))
    kinds = {step.name: step.edit for step in steps().values() if step.edit}
    if kind not in kinds:
        raise unknown_name("kind of edit", kind, kinds)
    try:
        edit: FloatEdit = typed(at(kinds[kind]), dict(json))
        return edit
    except ValueError as error:
        raise UserError(
            f"edit {kind!r} of tensor {in_short(json.get('tensor'))} is not complete: {error}",
            hint="write the plan again with: onnxq plan",
        ) from error
