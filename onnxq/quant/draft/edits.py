"""Edits of the float model, as data: a plan can state them and a report tell them.

An edited model computes what it computed, exactly or but for the order of sums: edits only make easier to
quantize what is quantized. Tensors and nodes keep their names; `maps` says what became of their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from onnxq.graph.duplicate import duplicate
from onnxq.graph.model import Model
from onnxq.graph.view import every_node
from onnxq.quant.draft.affine import ChannelMap


class FloatEdit(Protocol):
    """One edit.

    Attributes:
        kind: its name, in plans and reports.
        tensor: the tensor that it is about.
    """

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def tensor(self) -> str:
        """The tensor that it is about."""
        ...

    def apply(self, model: Model) -> None:
        """Changes a model.

        Raises:
            UserError: the model has no such tensor, or it is not read and made as the edit needs.
        """
        ...

    def maps(self, model: Model) -> Mapping[str, ChannelMap]:
        """What becomes of the values of tensors, by name; `model`: the one before the edit."""
        ...

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """The ranges of the measured tensors that it changes; `amax`: those before it, by tensor."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """All of it, for the report and the plan; `onnxq.quant.draft.edit_kinds.edit_of` makes it again."""
        ...


def edited(model: Model, edits: Sequence[FloatEdit]) -> tuple[Model, dict[str, ChannelMap]]:
    """A model with edits, and what became of the values of its tensors.

    The model that is given is not changed; the result shares its weights.

    Raises:
        UserError: an edit does not fit the model.
    """
    result = duplicate(model)
    maps: dict[str, ChannelMap] = {}
    for edit in edits:
        before = _made(result)
        held = dict(maps)
        for name, new in edit.maps(result).items():
            both = maps.pop(name).then(new) if name in maps else new
            if both is not None:
                maps[name] = both
        edit.apply(result)
        for place, name in _made(result).items():
            old = before.get(place, name)
            if (
                name != old
            ):  # what a node gave has a new name, and what reads it, in another form, the old one
                kept = held.get(old, ChannelMap.of())
                maps[name] = replace(kept, was=kept.was or old)
    return result, maps


def _made(model: Model) -> dict[tuple[str, int], str]:
    """What each node gives, by the node and the place among its outputs."""
    return {
        (node.name, place): tensor.name
        for node in every_node(model)
        for place, tensor in enumerate(node.outputs)
    }
