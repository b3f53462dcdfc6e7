"""Edits of the float model, as data: a plan can state them and a report tell them.

An edited model computes what it computed, exactly or but for the order of sums: edits only make easier to
quantize what is quantized. Tensors and nodes keep their names; `maps` says what became of their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from onnxq.graph.duplicate import duplicate
from onnxq.graph.model import Model
from onnxq.graph.view import every_node


@dataclass(frozen=True, slots=True)
class ChannelMap:
    """`after[c] = before[index[c]] * scale[c] + offset[c]` along the channel axis of a tensor.

    Attributes:
        scale: float32 [channels after] or []; or of the tensor's rank, where the channels lie along several
            axes (`wide`), as behind the Reshape of attention.
        offset: float32 [channels after] or [].
        index: the channel that each one is made of, int64 [channels after]; None: its own.
        was: the tensor whose values they were; "" where it has the same name.
        axis: the axis of the channels, where the edit knows it.
    """

    scale: np.ndarray
    offset: np.ndarray
    index: np.ndarray | None = None
    was: str = ""
    axis: int | None = None

    @staticmethod
    def of(
        scale: float | np.ndarray = 1.0, offset: float | np.ndarray = 0.0, axis: int | None = None
    ) -> ChannelMap:
        """One that keeps the channels."""
        return ChannelMap(np.asarray(scale, np.float32), np.asarray(offset, np.float32), axis=axis)

    @property
    def wide(self) -> bool:
        """Whether the channels lie along several axes."""
        return self.scale.ndim > 1

    @property
    def _by_channel(self) -> bool:
        return self.scale.ndim == 1 or self.offset.ndim == 1 or self.index is not None

    def apply(self, values: np.ndarray, axis: int) -> np.ndarray:
        """The values after, of a tensor whose channels are along `axis`."""
        if self.index is not None:
            values = np.take(values, self.index, axis)
        shape = [-1 if place == axis % values.ndim else 1 for place in range(values.ndim)]

        def spread(vector: np.ndarray) -> np.ndarray:
            return vector.reshape(shape) if vector.ndim == 1 else vector

        return np.asarray(values * spread(self.scale) + spread(self.offset))

    def then(self, later: ChannelMap) -> ChannelMap | None:
        """This one, and then another one; None where one knows several axes, and the other a channel's."""
        scale, offset, index = self.scale, self.offset, self.index
        if (self.wide or later.wide) and (self._by_channel or later._by_channel):
            return None
        if later.index is not None:
            scale = scale[later.index] if scale.ndim else scale
            offset = offset[later.index] if offset.ndim else offset
            index = later.index if index is None else index[later.index]
        axis = self.axis if later.axis is None else later.axis
        return ChannelMap(scale * later.scale, offset * later.scale + later.offset, index, self.was, axis)


class FloatEdit(Protocol):
    """One edit.

    Attributes:
        kind: its name, in plans and reports.
        tensor: the tensor that it is about.
    """

    @property
    def kind(self) -> str:
        """Its name."""

    @property
    def tensor(self) -> str:
        """The tensor that it is about."""

    def apply(self, model: Model) -> None:
        """Changes a model.

        Raises:
            UserError: the model has no such tensor, or it is not read and made as the edit needs.
        """

    def maps(self, model: Model) -> Mapping[str, ChannelMap]:
        """What becomes of the values of tensors, by name; `model`: the one before the edit."""

    def ranges(self, amax: Mapping[str, float]) -> dict[str, float]:
        """The ranges of the measured tensors that it changes; `amax`: those before it, by tensor."""

    def to_dict(self) -> dict[str, Any]:
        """All of it, for the report and the plan; `onnxq.quant.draft.edit_kinds.edit_of` makes it again."""


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
