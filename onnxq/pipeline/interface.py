"""The inputs and outputs of a model, and which of them surgery changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxq.documents.changes import ChangeOfInterface
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, shape_text


def interface(model: Model) -> dict[str, tuple[str, str]]:
    """Each input and output of a model as (kind, type and shape), for a reader."""
    types = {}
    for kind, entries in (("input", model.inputs), ("output", model.outputs)):
        for tensor in entries:
            types[tensor.name] = (kind, _type_text(tensor.dtype, tensor.shape, model.symbols))
    return types


def interface_changes(
    before: Mapping[str, tuple[str, str]],
    after: Mapping[str, tuple[str, str]],
    because: Mapping[str, str] | None = None,
) -> tuple[ChangeOfInterface, ...]:
    """What of a model's interface is another now, and why where a rule changed it."""
    changes = []
    for name, (kind, text) in before.items():
        now = after.get(name)
        if now is None:
            changes.append(ChangeOfInterface(name, f"{kind} {text}", "constant"))
        elif now[1] != text:
            why = (because or {}).get(name)
            changes.append(ChangeOfInterface(name, f"{kind} {text}", f"{now[0]} {now[1]}", why))
    return tuple(changes)


def _type_text(dtype: np.dtype | None, shape: Shape | None, symbols: set[str]) -> str:
    if shape is not None:
        shape = tuple(None if dim in symbols else dim for dim in shape)
    return f"{dtype if dtype is not None else 'unknown'} {shape_text(shape)}"
