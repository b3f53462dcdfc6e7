"""The data that calibrated: where they are, how they were understood, what is doubtful."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.data.understood import ImagesRead, SkippedSamples
from onnxq.data.warnings import DataWarning


@dataclass(frozen=True, slots=True)
class DataPlaced(DocumentPart):
    """Where data are, for whoever opens them again.

    Attributes:
        path: the folder or file.
        images: the options of images that were given, by name.
        input_names: what the data call inputs that have another name in the model.
        skip_bad: whether bad samples are left out.
        held_out: indices of the samples that verify; None where none are.
    """

    path: str
    images: Mapping[str, object]
    input_names: Mapping[str, str]
    skip_bad: bool
    held_out: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class CalibrationData(DocumentPart):
    """The data that calibrated.

    Attributes:
        lines: how they were understood, for people.
        images: how images become inputs.
        notes: what was done to the data that may not be expected.
        doubts: what is doubtful about them.
        looked_at: how many samples were looked at for that.
        place: where they are; None where they are of no path.
        batch: how many rows a sample has; None where only statistics are known.
        skipped: the bad samples that were left out; None likewise.
    """

    lines: tuple[str, ...]
    images: tuple[ImagesRead, ...]
    notes: tuple[str, ...]
    doubts: tuple[DataWarning, ...]
    looked_at: int
    place: DataPlaced | None
    batch: int | None = None
    skipped: SkippedSamples | None = None


def path_of(data: object) -> str | None:
    """The path of data; None of what is of no path."""
    return str(data) if isinstance(data, str | os.PathLike) else None
