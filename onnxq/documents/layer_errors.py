"""The errors by layer that a report keeps: of what `onnxq analyze` measures what one looks for first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.documents.analysis import Cause, Figures, LayerError, NonFinite, WorstOutputs


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
