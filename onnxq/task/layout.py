"""Layouts: where in a model's outputs its answers stand, by task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BoxForm = Literal["xyxy", "yxyx", "cxcywh", "ltrb", "offsets"]
"""What four numbers of a box are: its corners, x or y first; its centre and size; its distances from the
point of its cell to the left, top, right and bottom, in strides (FCOS, arXiv 1904.01355; with more than one
column each, the mean of a distribution over 0, 1, ..., arXiv 2006.04388); or the centre's offset from its
cell and the logarithms of the size, in strides (YOLOX, arXiv 2107.08430)."""

Activation = Literal["", "sigmoid", "softmax"]

NMS_IOU = 0.45
"""Of two boxes of a class that overlap more, one is left: what YOLOv5 has by default."""


@dataclass(frozen=True, slots=True)
class Classes:
    """Rows of scores of classes, along the last axis that is not 1.

    Attributes:
        output: its name.
    """

    output: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.output,)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A row of scores a position, `[batch, positions, words]`.

    Attributes:
        output: its name.
        mask: the input that is 0 where padding is fed, `[batch, positions]`, perhaps behind the past's.
    """

    output: str
    mask: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.output,)


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
class PixelClasses:
    """Semantic masks: a class a pixel.

    Attributes:
        output: its name.
        axis: that of the classes' scores; None: its whole numbers are classes.
        over: over which value the only channel is the mask; None: there are classes.
    """

    output: str
    axis: int | None = 1
    over: float | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read."""
        return (self.output,)


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
    image: Image | None = None
    nms: float | None = NMS_IOU

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is read, each once."""
        some = (self.boxes, self.scores, self.objectness, self.label)
        return tuple(dict.fromkeys(name for one in some if one is not None for name in one.outputs))


Layout = Classes | Tokens | Spans | PixelClasses | Boxes
