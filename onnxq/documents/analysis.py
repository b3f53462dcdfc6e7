"""What an analysis says, as typed rows, and the errors by layer that a report keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.base.shown import Shown, Words, count, decibels

_ROWS = 10


@dataclass(frozen=True, slots=True)
class Figures(DocumentPart):
    """How near a tensor of B is to that of A over samples; a is a value of A, b of B, d is b - a.

    Only values that are finite in both count, but for `nonfinite` and `skipped`.

    Attributes:
        samples: how many were compared.
        values: how many values, over all samples.
        cosine: sum(a b) / sqrt(sum(a^2) sum(b^2)); 1 where both are equal.
        sqnr_db: 10 log10(sum(a^2) / sum(d^2)), dB; inf where both are equal, -inf where B is not finite and
            A is.
        sqnr_about_mean_db: the same with the power of A about its mean over samples, element by element; of
            one sample, of samples of different shapes, or of a tensor that is too large to keep its mean
            (a note says how many are), about the mean of all values. None where A does
            not vary.
        mse: sum(d^2) / values.
        l1: sum(|d|) / values.
        kl: Kullback-Leibler divergence of B's histogram from A's, nats; bins are a quarter of an octave
            from 2^-40 to 2^24, by sign, and each that is not empty in both counts half a value more.
        max_abs: the greatest |d|; inf where B is not finite and A is.
        max_ref: the greatest |a|.
        max_steps: `max_abs` in steps of the scale that quantizes the tensor in B; None where none does.
        rms_steps: sqrt(mse) in the same steps.
        nonfinite: values that are NaN or infinite in B and finite in A.
        skipped: values that are NaN or infinite in A.
        mismatched: samples in which the shapes differ; nothing else counts them.
        metric: the mean over samples of the user's own; None where there is none.
    """

    samples: int
    values: int
    cosine: float | None
    sqnr_db: float | None
    sqnr_about_mean_db: float | None
    mse: float | None
    l1: float | None
    kl: float | None
    max_abs: float | None
    max_ref: float | None
    max_steps: float | None
    rms_steps: float | None
    nonfinite: int
    skipped: int
    mismatched: int
    metric: float | None


@dataclass(frozen=True, slots=True)
class Cause(DocumentPart):
    """Why a layer errs.

    Attributes:
        code: `nonfinite` (it makes NaN or Inf), `swapped` (channels of its weights), `weights` (differ by
            more than rounding), `bias`, `scale` (far wider than the range), `clipped` (far narrower),
            `unquantized` (its input lost its pair), `unexplained` (its error is far above its kind's).
        text: what was found, with numbers.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class LayerError(DocumentPart):
    """How far a tensor of B is from that of A.

    Attributes:
        layer: the node of B that gives it, pairs and casts looked through.
        op: its operator.
        tensor: the tensor's name in B.
        a_tensor: its name in A.
        a_layer: the node of A that gives it.
        a_op: that one's operator.
        how: how they were matched: `name`, `node` or `structure`.
        place: its place among the compared tensors in the order of B, from 0.
        output: whether it is an output of A.
        step: the scale that quantizes it in B, the smallest of several; None where none does.
        accumulated: both models run whole on the same samples.
        isolated: what B's nodes between this tensor and the compared ones before it make of A's values; None
            where B is what was saved of it.
        predicted_db: the SQNR about the mean at the outputs, dB, of this layer's noise alone by the noise
            model; None where it was not asked, or knows nothing of the layer.
        causes: why it errs more than its steps explain, the worst first; mostly empty.
        under: the thresholds that it does not meet, as `sqnr 18.3 < 20`.
    """

    layer: str
    op: str
    tensor: str
    a_tensor: str
    a_layer: str
    a_op: str
    how: str
    place: int
    output: bool
    step: float | None
    accumulated: Figures
    isolated: Figures | None
    predicted_db: float | None
    causes: tuple[Cause, ...]
    under: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unmatched(DocumentPart):
    """A float tensor of one stage that the other has not.

    Attributes:
        tensor: its name.
        node: the node that gives it.
        op: that one's operator.
        why: what became of it, as far as that is known.
    """

    tensor: str
    node: str
    op: str
    why: str


@dataclass(frozen=True, slots=True)
class MatchedShare(DocumentPart):
    """How many tensors of A were compared.

    Attributes:
        compared: how many were.
        by: how many were matched by `name`, `node` and `structure`.
        share: of the tensors of A those that were matched, or that a rule removed by the report, 0 to 1.
        left_a: the tensors of A that B has not.
        left_b: the tensors of B that A has not.
    """

    compared: int
    by: Mapping[str, int]
    share: float
    left_a: tuple[Unmatched, ...]
    left_b: tuple[Unmatched, ...]


@dataclass(frozen=True, slots=True)
class NonFinite(DocumentPart):
    """NaN or infinities.

    Attributes:
        model: `A` or `B`.
        tensor: the first tensor, in the order of the model, that has some.
        layer: the first operator that makes them of finite values; "" where it is not found.
        op: its operator.
        sample: the first sample, by its place in the data.
        where: where that is from.
        values: how many, over all samples, of the tensor that is compared.
    """

    model: str
    tensor: str
    layer: str
    op: str
    sample: int
    where: str
    values: int


@dataclass(frozen=True, slots=True)
class ValueBeside(DocumentPart):
    """A value of an output in both.

    Attributes:
        index: its place.
        a: in A; NaN and infinities as they are.
        b: in B.
    """

    index: tuple[int, ...]
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class OutputBeside(DocumentPart):
    """An output of the worst sample.

    Attributes:
        output: its name in A.
        shape: in A.
        argmax: where A's greatest value is and where B's is, by flat index.
        values: the values that differ most, the worst first, eight at most.
    """

    output: str
    shape: tuple[int, ...]
    argmax: tuple[int, int]
    values: tuple[ValueBeside, ...]


@dataclass(frozen=True, slots=True)
class WorstOutputs(DocumentPart):
    """The sample whose outputs are furthest off.

    Attributes:
        sample: its place in the data.
        where: where it is from.
        sqnr_db: of all its outputs together, each in units of A's power in the sample, dB.
        outputs: side by side.
    """

    sample: int
    where: str
    sqnr_db: float
    outputs: tuple[OutputBeside, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Analysis(Shown, DocumentPart):
    """Two stages of a model, layer by layer.

    Attributes:
        kind: "analysis".
        schema: 1.
        a: the path of the reference.
        b: the path of the other.
        runner: which runner gave B, where it is what was saved; "" else.
        data: the path of the data, "" where they are none.
        data_lines: how they were understood.
        samples: how many were run.
        held_out: whether they calibrated nothing, as far as the report tells.
        emulated: whether half precision was rounded after every node.
        rows: a row for each compared tensor that the filters want: what is suspicious first, then by the
            error of the layer alone, the greatest first.
        drift: the first tensor, in the order of B, whose accumulated SQNR is under `drift_db`; None for none.
        drift_db: what counts as drifted, dB: the threshold of `sqnr`, or 20.
        thresholds: the thresholds, by figure.
        under: how many rows do not meet one.
        suspicious: how many rows have a cause.
        match: what was compared.
        nonfinite: the first operator of each model that makes NaN or Inf.
        worst: the worst sample; None where no output of A is compared.
        notes: what the reader may not expect.
        seconds: how long it took.
        groups: in how many parts each model ran, so that its tensors fit into memory.
        peak_memory_mb: the largest resident size of the process, MiB.
    """

    kind: str
    schema: int
    a: str
    b: str
    runner: str
    data: str
    data_lines: tuple[str, ...]
    samples: int
    held_out: bool
    emulated: bool
    rows: tuple[LayerError, ...]
    drift: str | None
    drift_db: float
    thresholds: Mapping[str, float]
    under: int
    suspicious: int
    match: MatchedShare
    nonfinite: tuple[NonFinite, ...]
    worst: WorstOutputs | None
    notes: tuple[str, ...]
    seconds: float
    groups: int
    peak_memory_mb: float

    def words(self) -> Words:
        """How many rows are suspicious, where drift begins, and the worst rows."""
        facts = [
            f"{count(self.samples, 'sample')}, {count(len(self.rows), 'row')}",
            f"{self.suspicious} suspicious, {self.under} under a threshold",
            f"under {self.drift_db:g} dB from {self.drift} on" if self.drift is not None else "",
        ]
        rows = [
            (
                one.layer,
                one.op,
                decibels(one.accumulated.sqnr_db),
                decibels(one.isolated.sqnr_db) if one.isolated is not None else "",
                "; ".join(cause.code for cause in one.causes),
            )
            for one in self.rows[:_ROWS]
        ]
        columns = ("layer", "operator", "accumulated", "alone", "causes")
        return Words(f"{self.b} against {self.a}, layer by layer", facts, columns, rows)


@dataclass(frozen=True, slots=True)
class ShortFigures(DocumentPart):
    """How near a tensor is to that of the float model over samples; of `Figures` what a report keeps.

    Attributes:
        sqnr_db: SQNR, dB; inf where both are equal, -inf where the result is not finite.
        sqnr_about_mean_db: the same about the mean, dB; None where the float model does not vary.
        cosine: the cosine, -1 to 1.
        max_steps: the greatest difference in steps of the scale that quantizes it; None where none does.
        rms_steps: the root of the mean square, in the same steps.
    """

    sqnr_db: float | None
    sqnr_about_mean_db: float | None
    cosine: float | None
    max_steps: float | None
    rms_steps: float | None

    @classmethod
    def of(cls, figures: Figures) -> ShortFigures:
        """Those of all figures."""
        return cls(
            figures.sqnr_db, figures.sqnr_about_mean_db, figures.cosine, figures.max_steps, figures.rms_steps
        )


@dataclass(frozen=True, slots=True)
class ErrorLine(DocumentPart):
    """A tensor of the result beside that of the original; see `LayerError`.

    Attributes:
        layer: the node that gives it.
        op: its operator.
        tensor: its name in the result.
        place: its place in the order of the result, from 0.
        output: whether it is an output.
        accumulated: both models run whole.
        isolated: the layer alone, on the original's values; None where it does not run so.
        causes: why it errs more than its steps explain.
    """

    layer: str
    op: str
    tensor: str
    place: int
    output: bool
    accumulated: ShortFigures
    isolated: ShortFigures | None
    causes: tuple[Cause, ...]

    @classmethod
    def of(cls, row: LayerError) -> ErrorLine:
        """That of a row of an analysis."""
        alone = None if row.isolated is None else ShortFigures.of(row.isolated)
        return cls(
            row.layer, row.op, row.tensor, row.place, row.output, ShortFigures.of(row.accumulated), alone,
            row.causes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChannelDrawn(DocumentPart):
    """How magnitudes of a channel are spread, or those of all channels; zeros are left out.

    Attributes:
        channel: which one, from 0; None: all.
        first: the power of two with which the first octave begins.
        counts: how many values are in each octave, in decimal, with blanks between.
    """

    channel: int | None
    first: int
    counts: str


ENDED = "the run ended before"
"""Why layers were not compared where the model is written and they are still to be."""


@dataclass(frozen=True, slots=True)
class LayerErrors(DocumentPart):
    """What the result's layers err on some of the samples that verify.

    Attributes:
        why_not: why nothing was measured; "" where it was.
        samples: how many samples were run.
        rows: a line a compared tensor, in the order of the result.
        drift: the first tensor whose accumulated SQNR is under `drift_db`; None for none.
        drift_db: what counts as drifted, dB.
        nonfinite: the first operator of each model that makes NaN or Inf.
        worst: the sample whose outputs are furthest off; None where no output is compared.
        notes: what the reader may not expect.
        ranges: the least and the greatest finite value of each compared tensor in the original, on the same
            samples, by the name in the result and in its order; inputs first.
        channels: histograms of all channels of the quantized tensors in the original, and of the two with the
            greatest values, by the name in the result.
    """

    why_not: str = ""
    samples: int = 0
    rows: tuple[ErrorLine, ...] = ()
    drift: str | None = None
    drift_db: float | None = None
    nonfinite: tuple[NonFinite, ...] = ()
    worst: WorstOutputs | None = None
    notes: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    channels: Mapping[str, tuple[ChannelDrawn, ...]] = field(default_factory=dict)


def lines_of(rows: Sequence[LayerError]) -> tuple[ErrorLine, ...]:
    """The lines of rows, in the order of the model."""
    return tuple(ErrorLine.of(row) for row in sorted(rows, key=lambda row: row.place))
