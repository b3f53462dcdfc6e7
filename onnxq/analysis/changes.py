"""What the report of a quantized model says that the comparison has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxq.analysis.reports import names, objects
from onnxq.errors import UserError
from onnxq.repair.affine import ChannelMap

_REPORT_HINT = "give the report as onnxq wrote it, or the model without it"


@dataclass(frozen=True, slots=True)
class Mapped:
    """What an edit made of the values of a tensor.

    Attributes:
        tensor: its name.
        change: what, channel by channel.
        axis: of the channels.
    """

    tensor: str
    change: ChannelMap
    axis: int

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The values after, in the type of those before.

        Raises:
            UserError: the edit is not one of a tensor of this shape.
        """
        if values.ndim == 0 and (self.change.scale.ndim or self.change.index is not None):
            return values
        if not -values.ndim <= self.axis < max(values.ndim, 1):
            raise self._misfit(values, f"it has no axis {self.axis}")
        try:
            found = self.change.apply(values, self.axis)
        except (ValueError, IndexError) as error:  # it does not broadcast, or there is no such channel
            raise self._misfit(values, str(error)) from error
        if found.ndim != values.ndim:
            raise self._misfit(values, f"it makes {_shape(found)} of it")
        return found.astype(values.dtype)

    def _misfit(self, values: np.ndarray, why: str) -> UserError:
        return UserError(
            f"the report says in repair.maps what an edit made of {self.tensor!r}, which does not fit its "
            f"shape {_shape(values)}: {why}",
            hint=_REPORT_HINT,
        )


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
    """What a report tells; a part of it that is none of onnxq's tells nothing.

    Raises:
        UserError: it says of a tensor that it was edited, and not how.
    """
    if report is None:
        return Recorded()
    removed: dict[str, str] = {}
    for change in objects(report.get("changes")):
        for name in names(change.get("removed")):
            removed[str(name)] = str(change.get("rule", ""))
    repair = report.get("repair")
    repair = repair if isinstance(repair, dict) else {}
    maps, renamed = {}, {}
    for entry in objects(repair.get("maps")):
        if entry.get("was"):
            renamed[str(entry.get("tensor"))] = str(entry["was"])
        made = _mapped(entry)
        maps[made.tensor] = made
    fitted = bool(repair.get("codes") or repair.get("biases") or repair.get("edits"))
    return Recorded(removed, maps, renamed, fitted)


def _mapped(entry: Mapping[str, Any]) -> Mapped:
    try:
        index, shape = entry["index"], entry.get("shape")
        scale, offset = (_finite(entry[key]) for key in ("scale", "offset"))
        change = ChannelMap(
            scale if shape is None else scale.reshape(shape),
            offset,
            None if index is None else np.asarray(index, np.int64).reshape(-1),
        )
        return Mapped(str(entry["tensor"]), change, 0 if entry["axis"] is None else int(entry["axis"]))
    except KeyError as error:
        why = f"it has no {error}"
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error)
    raise UserError(
        f"the report says in repair.maps that {entry.get('tensor')!r} was edited; how cannot be read: {why}",
        hint=_REPORT_HINT,
    )


def _finite(given: Any) -> np.ndarray:
    values = np.asarray(given, np.float64)
    if not np.all(np.abs(values) <= np.finfo(np.float32).max):
        raise ValueError(f"{given!r:.60} is not finite")
    return values.astype(np.float32)


def _shape(values: np.ndarray) -> str:
    return "x".join(map(str, values.shape)) or "()"
