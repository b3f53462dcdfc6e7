"""What the report of a quantized model says that the comparison has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxq.analysis.reports import part_of
from onnxq.base.errors import UserError
from onnxq.documents.reading import REPORT_HINT
from onnxq.documents.repair import RepairPart, TensorMapped
from onnxq.documents.report import Report
from onnxq.quant.draft.edits import ChannelMap


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
            after = self.change.apply(values, self.axis)
        except (ValueError, IndexError) as error:  # it does not broadcast, or there is no such channel
            raise self._misfit(values, str(error)) from error
        if after.ndim != values.ndim:
            raise self._misfit(values, f"it makes {_shape(after)} of it")
        return after.astype(values.dtype)

    def _misfit(self, values: np.ndarray, why: str) -> UserError:
        return UserError(
            f"the report says in repair.maps what an edit made of {self.tensor!r}, which does not fit its "
            f"shape {_shape(values)}: {why}",
            hint=REPORT_HINT,
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


def recorded(report: Report | None) -> Recorded:
    """What a report tells.

    Raises:
        UserError: it says of a tensor that it was edited, and not how.
    """
    if report is None:
        return Recorded()
    removed = {name: change.rule for change in report.changes for name in change.removed}
    repair = part_of(RepairPart, report.repair)
    return Recorded(
        removed,
        {one.tensor: _mapped(one) for one in repair.maps},
        {one.tensor: one.was for one in repair.maps if one.was},
        bool(repair.codes or repair.biases or repair.edits),
    )


def _mapped(entry: TensorMapped) -> Mapped:
    try:
        scale, offset = _finite(entry.scale), _finite(entry.offset)
        change = ChannelMap(
            scale if entry.shape is None else scale.reshape(entry.shape),
            offset,
            None if entry.index is None else np.asarray(entry.index, np.int64),
        )
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"the report says in repair.maps that {entry.tensor!r} was edited; how cannot be read: {error}",
            hint=REPORT_HINT,
        ) from error
    return Mapped(entry.tensor, change, 0 if entry.axis is None else entry.axis)


def _finite(numbers: float | tuple[float, ...]) -> np.ndarray:
    values = np.asarray(numbers, np.float64)
    if not np.all(np.abs(values) <= np.finfo(np.float32).max):
        raise ValueError(f"{numbers!r:.60} is not finite")
    return values.astype(np.float32)


def _shape(values: np.ndarray) -> str:
    return "x".join(map(str, values.shape)) or "()"
