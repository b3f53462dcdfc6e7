"""Layouts: where in a model's outputs its answers stand, by task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BoxForm = Literal["xyxy", "yxyx", "cxcywh", "ltrb", "offsets", "anchored", "darknet", "priors"]
"""What four numbers of a box are: its corners, x or y first; its centre and size; its distances from the
point of its cell to the left, top, right and bottom, in strides (FCOS, arXiv 1904.01355; with more than one
column each, the mean of a distribution over 0, 1, ..., arXiv 2006.04388); or the centre's offset from its
cell and the logarithms of the size, in strides (YOLOX, arXiv 2107.08430). With several anchors a cell: shares
s of which the centre is 2 s - 0.5 cells from its cell, and the size (2 s)^2 anchors (YOLOv5); or the centre's
offset, and the logarithms of the size in anchors (YOLOv3, arXiv 1804.02767). Or what is left of a prior that
is in no output: the way of the centre in tenths of its size, and the logarithms of the size in fifths (SSD,
arXiv 1512.02325)."""

OF_CELLS = ("ltrb", "offsets", "anchored", "darknet")
"""The forms that are about cells of grids."""

WITH_ANCHORS = ("anchored", "darknet")
"""Those of several anchors a cell: a grid for each of them."""

Activation = Literal["", "sigmoid", "softmax"]

POINTS_WITHIN = 3.0
"""Percent of a thing's size that its points may be off: a tenth of the distance of a face's eyes."""

NMS_IOU = 0.45
"""Of two boxes of a class that overlap more, one is left: what YOLOv5 has by default."""


@dataclass(frozen=True, slots=True)
class _OfOne:
    """What is read off one output.

    Attributes:
        output: its name.
    """

    output: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.output,)


@dataclass(frozen=True, slots=True)
class Classes(_OfOne):
    """Rows of scores of classes, along the last axis that is not 1.

    Attributes:
        output: its name.
    """


@dataclass(frozen=True, slots=True)
class MultiLabel(_OfOne):
    """Scores that each decide by themselves: labels of a sample or of a stretch of sound, or one: yes or no.

    Attributes:
        output: its name, of any shape.
        over: over which score a label is given.
    """

    over: float = 0.5


@dataclass(frozen=True, slots=True)
class Tokens(_OfOne):
    """A row of scores a position, `[batch, positions, words]`.

    Attributes:
        output: its name.
        mask: the input that is 0 where padding is fed, `[batch, positions]`, perhaps behind the past's.
    """

    mask: str | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """Scores of where an answer starts and where it ends, `[batch, positions]` each.

    Attributes:
        start: the output of the starts.
        end: that of the ends.
        mask: as of `Tokens`.
    """

    start: str
    end: str
    mask: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.start, self.end)


@dataclass(frozen=True, slots=True)
class PixelClasses(_OfOne):
    """Semantic masks: a class a pixel.

    Attributes:
        output: its name.
        axis: that of the classes' scores; None: its whole numbers are classes.
        over: over which value the only channel is the mask; None: there are classes.
    """

    axis: int | None = 1
    over: float | None = None


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """Numbers of candidates, a row each: some columns of an output, or of several below each other.

    Attributes:
        outputs: their names, in the order of the rows.
        start: the first column.
        stop: the column behind the last; None: to the end.
    """

    outputs: tuple[str, ...]
    start: int = 0
    stop: int | None = None

    def of(self, size: int) -> int:
        """How many of an output's columns are meant; 0 where it has not all of them."""
        last = self.stop or self.start + 1
        return len(range(size)[self.start : self.stop]) if last <= size else 0


@dataclass(frozen=True, slots=True)
class Image:
    """The input that is a picture.

    Attributes:
        input: its name.
        height: the axis of its height; that of the width is the next one.
    """

    input: str
    height: int


@dataclass(frozen=True, slots=True)
class Boxes:
    """Candidates for boxes, `[batch, candidates, columns]`.

    Attributes:
        boxes: four columns, or as many times four as distances have bins.
        scores: a column a class; one alone where `label` is there.
        objectness: the score that there is anything; None: there is none.
        label: the number of the class; None: the column of the greatest score is.
        form: what the columns of boxes are.
        by_column: whether outputs are `[batch, columns, candidates]`.
        activation: what makes probabilities of the scores, and of the objectness.
        background: the column of scores that is no class; -1 is the last one; None: there is none.
        power: the score is objectness^power times score^(1 - power); None: their product.
        strides: of the cells' grids, in pixels of the picture, in the order of the candidates; for the forms
            that are about cells.
        centre: where in its cell the point is that distances are from, 0 to 1.
        anchors: their widths and heights in pixels, as many for each stride; none: four strides each.
        apart: whether a row is found again by the same row alone, as where its prior is not known.
        image: the picture, whose size gives the grids; None without strides.
        nms: the IoU over which one of two boxes of a class goes; None: the model did that.
    """

    boxes: CandidateColumns
    scores: CandidateColumns
    objectness: CandidateColumns | None = None
    label: CandidateColumns | None = None
    form: BoxForm = "xyxy"
    by_column: bool = False
    activation: Activation = ""
    background: int | None = None
    power: float | None = None
    strides: tuple[int, ...] = ()
    centre: float = 0.5
    anchors: tuple[tuple[float, float], ...] = ()
    apart: bool = False
    image: Image | None = None
    nms: float | None = NMS_IOU

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read, each once."""
        some = (self.boxes, self.scores, self.objectness, self.label)
        return tuple(dict.fromkeys(name for one in some if one is not None for name in one.outputs))


@dataclass(frozen=True, slots=True)
class Peaks:
    """Things as peaks of maps, `[batch, classes, height, width]` (CenterNet, arXiv 1904.07850).

    Attributes:
        scores: the output of which a class's peaks are.
        sizes: of sizes, two channels, or of distances to the four sides; None: there are none.
        offsets: of where in its cell a thing is, two channels; None: in its middle.
        sigmoid: whether scores are logits.
        size: what sizes are: themselves or their logarithms; "": their values say it.
        rows_first: whether the first of two channels is about rows: the height, the offset down.
    """

    scores: str
    sizes: str | None = None
    offsets: str | None = None
    sigmoid: bool = False
    size: Literal["", "direct", "exp"] = ""
    rows_first: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return tuple(name for name in (self.scores, self.sizes, self.offsets) if name is not None)


@dataclass(frozen=True, slots=True)
class Selections:
    """What a NonMaxSuppression selects, `[selections, 3]`: picture, class, box.

    Attributes:
        indices: the output.
        boxes: that of all boxes, `[batch, boxes, 4]`; None: it is none, and a box is its number.
        form: what four numbers of a box are.
    """

    indices: str
    boxes: str | None = None
    form: Literal["xyxy", "cxcywh"] = "xyxy"

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.indices,) if self.boxes is None else (self.indices, self.boxes)


@dataclass(frozen=True, slots=True)
class Vectors(_OfOne):
    """A vector that stands for a sample, `[batch, size]`, or one for each of its tokens.

    Attributes:
        output: its name.
        pool: what one vector is made of those of tokens: their mean, padding left out, or the first.
        mask: as of `Tokens`.
    """

    pool: Literal["mean", "first"] = "mean"
    mask: str | None = None


@dataclass(frozen=True, slots=True)
class Points(_OfOne):
    """Points of one thing, as of a face or a hand: `[batch, points, dims]`, or these in a row.

    Attributes:
        output: its name.
        dims: two or three numbers a point.
        within: percent of the thing's size that its points may be off, on average.
        there: the output that is over a half where the thing is there at all; None: it always is.
    """

    dims: int = 2
    within: float = POINTS_WITHIN
    there: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.output,) if self.there is None else (self.output, self.there)


@dataclass(frozen=True, slots=True)
class Lines(_OfOne):
    """Text that is read off positions (CTC, Graves 2006): `[batch, positions, characters]`.

    Attributes:
        output: its name.
        positions_first: whether it is `[positions, batch, characters]`.
        blank: the number of no character, -1 is the last; None: the first or the last, whichever is read more
            often.
    """

    positions_first: bool = False
    blank: int | None = None


@dataclass(frozen=True, slots=True)
class DenseMap(_OfOne):
    """Numbers of each pixel: how far it is, where it goes, or its colour.

    Attributes:
        output: its name, `[batch, channels, height, width]`.
        what: "depth" (one channel), "flow" (two: to the right and down, in pixels), "image".
    """

    what: Literal["depth", "flow", "image"]


Layout = (
    Classes
    | MultiLabel
    | Tokens
    | Spans
    | PixelClasses
    | Boxes
    | Peaks
    | Selections
    | Vectors
    | Points
    | Lines
    | DenseMap
)
