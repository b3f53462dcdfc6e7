"""The data that calibrated, and the document of `onnxq calibrate`: statistics that were taken of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.data.understood import ImagesRead, LeftOutSample, SkippedSamples
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


@dataclass(frozen=True, slots=True)
class TensorTaken(DocumentPart):
    """Statistics of a tensor.

    Attributes:
        min: the least value.
        max: the greatest value.
        values: how many values there were.
        mean: their mean; None where it was not taken.
        variance: their variance; None likewise.
        counted: how many of them are in the histogram.
    """

    min: float
    max: float
    values: int
    mean: float | None
    variance: float | None
    counted: int


@dataclass(frozen=True, slots=True)
class StatisticsTaken(DocumentPart):
    """What `onnxq calibrate` wrote into `X.stats.npz`.

    Attributes:
        kind: "calibration".
        schema: 3.
        file: the file that was written.
        samples: how many samples it is of.
        of: how many calibrate, those of all shards together.
        available: how many there are; None where that is not known.
        counting: what histograms are made of: "all" values, "sampled" rows, or "none".
        model_hash: the hash of the model as it was calibrated, in hexadecimal.
        data_hash: that of the samples.
        missing: the samples, by index, that it lacks.
        skipped: the bad samples that were left out, the first 20.
        doubts: what is doubtful about the data.
        looked_at: how many samples were looked at for that.
        tensors: the statistics, by tensor.
    """

    kind: str
    schema: int
    file: str
    samples: int
    of: int
    available: int | None
    counting: str
    model_hash: str
    data_hash: str
    missing: tuple[int, ...]
    skipped: tuple[LeftOutSample, ...]
    doubts: tuple[DataWarning, ...]
    looked_at: int
    tensors: Mapping[str, TensorTaken]
