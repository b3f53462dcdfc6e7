"""How right two models are by the user's labels, in one pass: top-1, top-5, average precision, mean IoU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.data.fed_sample import FedSample
from onnxq.judge.comparable import as_tensor
from onnxq.task.boxes import NONE, Detections
from onnxq.task.detections import detections
from onnxq.task.labels import IGNORED, Labels
from onnxq.task.layout import Boxes, Classes, Layout, PixelClasses
from onnxq.task.measures import in_rows, pixel_labels
from onnxq.task.precision import AveragePrecision, BoxesThere

LEAST = 0.001
"""Scores of detections whose precision is measured are over that: many that are doubtful make a recall."""

_SHARES = 2.0  # corners up to there are shares of a picture: no picture has two pixels
_SEVERAL = 5

LabelKind = Literal["top1", "top5", "map50", "map", "miou"]

_NAMES: Mapping[LabelKind, str] = {
    "top1": "top-1", "top5": "top-5", "map50": "mAP at IoU 0.5", "map": "mAP at IoU 0.5 to 0.95",
    "miou": "mean IoU",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LabelFigure(DocumentPart):
    """How right both models are.

    Attributes:
        kind: "top1", "top5", "map50" and "map" (as COCO defines them), or "miou".
        float: the float model's, percent; None where there is nothing to find.
        int8: the other's, percent.
    """

    kind: LabelKind
    floating: float | None = field(metadata={"key": "float"})
    int8: float | None

    @property
    def name(self) -> str:
        """What it is, for people."""
        return _NAMES[self.kind]

    @property
    def said(self) -> str:
        """Both figures: `mAP at IoU 0.5: 61.2 % float, 60.8 % quantized`."""
        if self.floating is None or self.int8 is None:
            return f"{self.name}: there is nothing to find in the labels"
        return f"{self.name}: {self.floating:.1f} % float, {self.int8:.1f} % quantized"


@dataclass(frozen=True, slots=True)
class LabelsPart(DocumentPart):
    """How right both models are by the user's labels.

    Attributes:
        samples: how many have a label.
        without: how many have none, and do not count.
        figures: what was measured; none where no sample has a label.
    """

    samples: int
    without: int
    figures: tuple[LabelFigure, ...]


class LabelMeter:
    """Scores the float model and another one by labels, sample by sample."""

    def __init__(self, outputs: Sequence[str], layout: Layout, labels: Labels) -> None:
        self._outputs, self._layout, self._labels = tuple(outputs), layout, labels
        self._samples = self._without = 0
        self._right = np.zeros((2, 2))  # of each model, top-1 and top-5
        self._classes = 0
        self._precision = AveragePrecision(), AveragePrecision()
        self._overlap: tuple[dict[int, np.ndarray], dict[int, np.ndarray]] = {}, {}

    def add(
        self,
        reference: Sequence[Any],
        candidates: Sequence[Sequence[Any]],
        feeds: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds a sample; of the candidates the first counts.

        Raises:
            UserError: the sample's label cannot be read, or does not fit what the model answers.
        """
        label = self._labels.of(feeds) if isinstance(feeds, FedSample) else None
        if label is None or not isinstance(feeds, FedSample):
            self._without += 1
            return
        self._samples += 1
        for place, some in enumerate((reference, candidates[0])):
            values = dict(zip(self._outputs, some, strict=True))
            match self._layout:
                case Classes() as layout:
                    self._class(place, as_tensor(values[layout.output]), label, feeds)
                case Boxes() as layout:
                    assert isinstance(label, BoxesThere)
                    self._boxes(place, _detected(layout, values, feeds), label, feeds)
                case PixelClasses() as layout:
                    self._mask(
                        place,
                        pixel_labels(layout, as_tensor(values[layout.output])),
                        np.asarray(label),
                        feeds,
                    )

    def _class(self, place: int, value: np.ndarray, label: Any, feeds: FedSample) -> None:
        scores = in_rows(value).reshape(-1, in_rows(value).shape[-1])
        _one(len(scores), feeds)
        self._classes = scores.shape[1]
        if not 0 <= int(label) < self._classes:
            raise UserError(
                f"the label of {feeds.where!r} is class {label}, and the model has {self._classes}",
                hint="number the classes as the model does, from 0; name folders by these numbers",
            )
        before = int((scores[0] > scores[0, int(label)]).sum())
        self._right[place] += before < 1, before < _SEVERAL

    def _boxes(self, place: int, found: list[Detections], truth: BoxesThere, feeds: FedSample) -> None:
        _one(len(found), feeds)
        self._precision[place].add(_in_pixels(found[0], feeds), truth)

    def _mask(self, place: int, found: np.ndarray, truth: np.ndarray, feeds: FedSample) -> None:
        high, wide = found.shape[-2], found.shape[-1]
        _one(found.size // max(1, high * wide), feeds)
        given: np.ndarray = np.reshape(found, (high, wide))
        if given.shape != truth.shape:  # a model's masks may be smaller than its picture: nearest pixels
            rows, columns = _nearest(truth.shape[0], high), _nearest(truth.shape[1], wide)
            given = given[np.ix_(rows, columns)]
        given, truth = given[truth != IGNORED].astype(int), truth[truth != IGNORED]
        for label in np.union1d(given, truth).tolist():
            one, other = given == label, truth == label
            count = np.array(
                [np.count_nonzero(one & other), np.count_nonzero(one | other), np.count_nonzero(other)]
            )
            self._overlap[place][label] = self._overlap[place].get(label, 0) + count

    @property
    def part(self) -> LabelsPart:
        """What a document says of it."""
        return LabelsPart(self._samples, self._without, tuple(self._figures()) if self._samples else ())

    def _figures(self) -> list[LabelFigure]:
        match self._layout:
            case Classes():
                shares = 100 * self._right / self._samples
                kinds: tuple[LabelKind, ...] = ("top1", "top5") if self._classes > _SEVERAL else ("top1",)
                return [LabelFigure(kind, *map(float, shares[:, place])) for place, kind in enumerate(kinds)]
            case Boxes():
                one, other = (precision.by_threshold() for precision in self._precision)
                if one is None or other is None:
                    return [LabelFigure("map50", None, None), LabelFigure("map", None, None)]
                return [
                    LabelFigure("map50", 100 * float(one[0]), 100 * float(other[0])),
                    LabelFigure("map", 100 * float(one.mean()), 100 * float(other.mean())),
                ]
            case _:
                return [LabelFigure("miou", *(_mean_iou(some) for some in self._overlap))]


def _mean_iou(some: Mapping[int, np.ndarray]) -> float | None:
    """The mean over the classes of the labels of their IoU over all pixels of all samples, percent."""
    shares = [both / either for both, either, there in some.values() if there]
    return 100 * float(np.mean(shares)) if shares else None


def _detected(layout: Boxes, values: Mapping[str, Any], feeds: FedSample) -> list[Detections]:
    """What a model detects; nothing where its outputs have another shape than the layout's."""
    try:
        return detections(layout, values, feeds, LEAST)
    except (ValueError, IndexError):
        return [NONE]


def _nearest(size: int, own: int) -> np.ndarray:
    """Which of so many pixels of its own each of a size is the nearest to."""
    return np.minimum((np.arange(size) + 0.5) * own / size, own - 1).astype(int)


def _in_pixels(found: Detections, feeds: FedSample) -> Detections:
    """Boxes in pixels of the input: those whose corners are all within 2 are shares of it."""
    if not len(found.scores) or len(feeds.images) != 1 or np.abs(found.boxes).max() > _SHARES:
        return found
    (image,) = feeds.images
    shape = feeds[image.input].shape
    high, wide = shape[-2:] if image.layout.endswith("CHW") else shape[-3:-1]
    return found._replace(boxes=found.boxes * (wide, high, wide, high))


def _one(rows: int, feeds: FedSample) -> None:
    if rows != 1:
        raise UserError(
            f"{feeds.where!r} has {rows} answers, and a label is of one",
            hint="give a model with a dynamic batch, or of batch size 1",
        )
