"""What the report of a quantized model says that the comparison has to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxq.repair.affine import ChannelMap


@dataclass(frozen=True, slots=True)
class Mapped:
    """What an edit made of the values of a tensor.

    Attributes:
        change: what, channel by channel.
        axis: of the channels.
    """

    change: ChannelMap
    axis: int

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The values after, in the type of those before."""
        if values.ndim == 0 and (self.change.scale.ndim or self.change.index is not None):
            return values
        return self.change.apply(values, self.axis).astype(values.dtype)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a report tells.

    Attributes:
        removed: the rule that replaced a node, by its name.
        maps: what edits made of tensors, by name.
        renamed: the tensor whose values one holds that an edit gave a new name, by that name.
        fitted: whether weights were fitted to data.
    """

    removed: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, Mapped] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    fitted: bool = False


def recorded(report: Mapping[str, Any] | None) -> Recorded:
    """What a report tells; a part of it that is none of onnxq's tells nothing."""
    if report is None:
        return Recorded()
    removed: dict[str, str] = {}
    for change in _entries(report.get("changes")):
        for name in change.get("removed") or ():
            removed[str(name)] = str(change.get("rule", ""))
    repair = report.get("repair")
    repair = repair if isinstance(repair, dict) else {}
    maps, renamed = {}, {}
    for entry in _entries(repair.get("maps")):
        if entry.get("was"):
            renamed[str(entry.get("tensor"))] = str(entry["was"])
        made = _mapped(entry)
        if made is not None:
            maps[str(entry.get("tensor"))] = made
    fitted = bool(repair.get("codes") or repair.get("biases") or repair.get("edits"))
    return Recorded(removed, maps, renamed, fitted)


def _entries(value: Any) -> Sequence[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _mapped(entry: Mapping[str, Any]) -> Mapped | None:
    try:
        index, shape = entry["index"], entry.get("shape")
        scale = np.asarray(entry["scale"], np.float32)
        return Mapped(
            ChannelMap(
                scale if shape is None else scale.reshape(shape),
                np.asarray(entry["offset"], np.float32),
                None if index is None else np.asarray(index, np.int64),
            ),
            0 if entry["axis"] is None else int(entry["axis"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
