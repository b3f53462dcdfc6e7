"""What the report beside a quantized model names: the original, and the data."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, replace
from pathlib import Path

from onnxq.analysis.reports import part_of
from onnxq.base.errors import UserError
from onnxq.base.plain import to_json
from onnxq.data.sources import DataSource
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.data import DataPlaced
from onnxq.emit.recorded import recorded_report
from onnxq.options.settings import Feeding, ImageOptions

_GIVE_BOTH = "give both models: onnxq analyze A.onnx B.onnx --data D"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a report says of how its model was made.

    Attributes:
        original: the float model.
        place: where the data are, and how they were read; None where they were no path, or are not there.
    """

    original: Path
    place: DataPlaced | None


def place_of(data: DataSource, images: ImageOptions | None, feeding: Feeding) -> DataPlaced | None:
    """Where data are and how they are read, for the report; None for data that are no path."""
    if not isinstance(data, str | os.PathLike):
        return None
    options = {} if images is None else {name: getattr(images, name) for name in images.given()}
    return DataPlaced(
        os.fspath(data), to_json(options), dict(feeding.input_names or {}), feeding.skip_bad, held_out=None
    )


def recorded_run(model: Path) -> RecordedRun:
    """What the report beside a model names.

    Raises:
        UserError: there is no report of this file, or the original is not where it was.
    """
    report = recorded_report(model)
    if report is None:
        missing = "there is no model file" if not os.path.isfile(model) else "there is no report of"
        end = "" if not os.path.isfile(model) else " beside it that names the original"
        raise UserError(f"{missing} {str(model)!r}{end}", hint=_GIVE_BOTH)
    named = report.model
    original = None if named is None else _found(named, model.parent)
    if original is None:
        raise UserError(
            f"the original of {str(model)!r}, {named!r} by its report, is not there", hint=_GIVE_BOTH
        )
    place = part_of(CalibrationPart, report.calibration).data.place
    path = None if place is None else _found(place.path, model.parent)
    if place is None or path is None:
        return RecordedRun(original, None)
    held = place.held_out or ()
    held_out = held if held and all(number >= 0 for number in held) else None
    return RecordedRun(original, replace(place, path=str(path), held_out=held_out))


def _found(named: str, folder: Path) -> Path | None:
    """A file that a report names, or a glob that matches some: there, or beside the report."""
    if "\0" in named:
        return None
    for path in (Path(named), folder / named, folder / Path(named).name):
        if os.path.exists(path) or next(glob.iglob(str(path), recursive=True), None) is not None:
            return path
    return None
