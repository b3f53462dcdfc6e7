"""How data were understood, as documents say it."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.base.plain import DocumentPart


@dataclass(frozen=True, slots=True)
class ImagesRead(DocumentPart):
    """How images become an input.

    Attributes:
        input: the input.
        dtype: its type.
        layout: its layout, "NCHW" or "NHWC".
        color: "rgb", "bgr" or "gray".
        size: how they are brought to its size, in words; sizes are width x height.
        scale: what values of 0 to 255 are multiplied with.
        mean: what is subtracted then, by channel, or one for all.
        std: what they are divided by then, likewise.
        range: the least and the greatest value that comes of it.
        preset: the preset that says so, None for none.
    """

    input: str
    dtype: str
    layout: str
    color: str
    size: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    range: tuple[float, float]
    preset: str | None


@dataclass(frozen=True, slots=True)
class LeftOutSample(DocumentPart):
    """A bad sample that was left out.

    Attributes:
        where: where it stands.
        why: what is wrong with it.
    """

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class SkippedSamples(DocumentPart):
    """The bad samples that were left out.

    Attributes:
        count: how many.
        first: the first 20 of them.
    """

    count: int
    first: tuple[LeftOutSample, ...]


@dataclass(frozen=True, slots=True)
class DataRead(DocumentPart):
    """Data of a verb that looks at a model's inputs or outputs.

    Attributes:
        path: the folder or file; None where they are of no path.
        lines: how they were understood, for people.
        batch: how many rows a sample has.
        images: how images become inputs.
        notes: what was done to the data that may not be expected.
        skipped: the bad samples that were left out.
        script: a script that gives them, None for none.
    """

    path: str | None
    lines: tuple[str, ...]
    batch: int
    images: tuple[ImagesRead, ...]
    notes: tuple[str, ...]
    skipped: SkippedSamples
    script: str | None = None
