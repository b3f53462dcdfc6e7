"""The document of `onnxq calibrate`: statistics that were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.data.understood import LeftOutSample
from onnxq.data.warnings import DataWarning


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
