"""What calibration found: samples, methods, ranges, scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.documents.data import CalibrationData
from onnxq.judge.comparable import OutputLeftOut
from onnxq.quant.choice import Choice, Refinement, Trial
from onnxq.quant.weights import WeightsStated


@dataclass(frozen=True, slots=True)
class LevelOfOutput(DocumentPart):
    """How near an output is.

    Attributes:
        output: its name.
        sqnr_db: its signal-to-noise ratio, dB.
    """

    output: str
    sqnr_db: float


@dataclass(frozen=True, slots=True)
class MethodChosen(DocumentPart):
    """What the outputs chose, on samples that did not calibrate.

    Attributes:
        method: the method of the whole model.
        why: why it was not chosen by its outputs; "" where it was.
        samples: how many samples chose.
        sqnr_db: the signal-to-noise ratio of the outputs with all that was chosen, dB; None where nothing
            could be compared.
        outputs: that of each output that chose, the worst first.
        left_out: the outputs that did not choose.
        trials: the methods that were tried, the best first.
        refined: scales that are by another method.
    """

    method: str
    why: str
    samples: int
    sqnr_db: float | None
    outputs: tuple[LevelOfOutput, ...]
    left_out: tuple[OutputLeftOut, ...]
    trials: tuple[Trial, ...]
    refined: tuple[Refinement, ...]

    @classmethod
    def of(cls, choice: Choice) -> MethodChosen:
        """What was chosen."""
        return cls(
            str(choice.method), choice.why, choice.samples, choice.sqnr_db,
            tuple(LevelOfOutput(*one) for one in choice.outputs.items()),
            choice.left_out,
            tuple(choice.trials), tuple(choice.refined),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowsSampled(DocumentPart):
    """How exact histograms of sampled rows are.

    Attributes:
        sampled_tensors: how many tensors were sampled.
        least_values: the fewest values that one of them was counted by.
        tail_error: the standard error, in proportion, of the share of values above the 99.99 percentile.
        meaning: what that means, for people.
    """

    sampled_tensors: int
    least_values: int
    tail_error: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Threshold(DocumentPart):
    """Where the range of a tensor ends.

    Attributes:
        amax: the magnitude of the greatest code.
        because: where that is from.
        code: a word for it, for programs.
    """

    amax: float
    because: str
    code: str


@dataclass(frozen=True, slots=True)
class TensorMoments(DocumentPart):
    """Figures of a tensor over all samples.

    Attributes:
        values: how many values there were.
        mean: their mean; None where it was not taken.
        variance: their variance; None likewise.
    """

    values: int
    mean: float | None
    variance: float | None


@dataclass(frozen=True, slots=True)
class DrawnHistogram(DocumentPart):
    """How often magnitudes of a tensor occur, coarse enough to be drawn.

    Attributes:
        top: the greatest magnitude: the upper edge of the last bin. Bins have equal widths, from 0 on.
        counts: how many values are in each, in decimal, with blanks between (a list would be a line each).
    """

    top: float
    counts: str


@dataclass(frozen=True, slots=True)
class ScaleProfile(DocumentPart):
    """The scales of a weight's channels, and what the weight holds.

    Attributes:
        channels: how many there are.
        values: 32 scales at most, sorted, evenly spaced by rank, the least and the greatest included; in
            decimal, with blanks between.
        drawn: the histogram of the weights as they are written; None where they are in another file.
        widest: the channel with the greatest of them, from 0; None likewise.
        of_widest: the counts of that channel, as those of `drawn`; "" likewise.
    """

    channels: int
    values: str
    drawn: DrawnHistogram | None = None
    widest: int | None = None
    of_widest: str = ""


@dataclass(frozen=True, slots=True)
class CalibrationPart(DocumentPart):
    """What calibration found.

    Attributes:
        method: what found the ranges: a method, "auto: " and the one that was chosen, or what states them.
        choice: what the outputs chose; None where they did not.
        samples: how many samples calibrated.
        seed: what chose the samples.
        counting: what histograms are made of: "all" values, "sampled" rows, or "none".
        sampling: how exact those of sampled rows are; None for others.
        data: the data.
        notes: what may not be expected.
        held_out: which samples verified, for people.
        held_out_code: a word for it: "apart", "crossed" (and others by what the
            samples without them fitted), "shared" or "none".
        scales: the scale of each quantized activation, by name.
        ranges: the least and the greatest value of each measured tensor, by name.
        thresholds: where the range of each measured tensor ends, by name.
        statistics: figures of each measured tensor, by name.
        histograms: the histogram of each tensor that was counted, by name.
        not_run: operators that onnxruntime does not know, by the node that depends on one.
        stats_file: the file that statistics were read from, None for none.
        missing: the samples, by index, that the statistics of that file lack.
        cached: how many tensors the calibration cache names; None: there is none.
        not_verified: what the accuracy does not tell of the files, "" for nothing.
        in_float32: whether the model was run as a float32 copy.
        measured: of `onnxq plan`, that ranges are known; None in other documents.
        before: of tensors whose range, figures and histogram are those before an edit of repair, and whose
            scale and threshold are of what it makes of them: the kind of the edit, by name.
        weights: what entries of the configuration make of weights, by weight.
    """

    method: str
    choice: MethodChosen | None
    samples: int
    seed: int
    counting: str
    sampling: RowsSampled | None
    data: CalibrationData
    notes: tuple[str, ...]
    held_out: str
    held_out_code: str
    scales: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]
    thresholds: Mapping[str, Threshold]
    statistics: Mapping[str, TensorMoments]
    histograms: Mapping[str, DrawnHistogram]
    not_run: Mapping[str, str]
    stats_file: str | None
    missing: tuple[int, ...]
    cached: int | None
    not_verified: str
    in_float32: bool
    measured: bool | None = None
    before: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, WeightsStated] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotCalibrated(DocumentPart):
    """That a plan was made without data and statistics.

    Attributes:
        measured: false: ranges are measured when the plan is obeyed; true: they are those of the file's
            pairs.
        notes: what may not be expected.
    """

    measured: bool
    notes: tuple[str, ...]
