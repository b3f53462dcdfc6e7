"""How sure a model is of its answers: whether it gives them again for pictures that are moved a little.

A greatest probability alone tells little: of a network without normalization it grows with the values that it
is fed, whatever these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from onnxq.judge.comparable import as_tensor
from onnxq.task.boxes import Detections, matched
from onnxq.task.detections import activated, detections
from onnxq.task.layout import Boxes, Classes, Layout, PixelClasses
from onnxq.task.measures import SCORES, in_rows

__all__ = ["Move", "SurenessMeter", "measurable", "moved"]

_PART = 32  # of a side, by which pictures are moved: a few pixels, which change no answer
_EPS = 0.005  # a probability below which an answer is lost: one of many must not decide alone
_LEAST = 1e-9  # a probability: float32 has no less beside 1
_PLACES = 16  # rows and columns of a mask that are looked at
_SURE_OF_MOST = 0.6  # of what can be told of classes
_SURE_CLASSES = 1.1  # nats: as much as three classes tell, of which any that are not meant are sure, too
_SURE_PIXELS = 0.3  # nats: most of a photograph is background to most models
_SURE_BOXES = 0.4  # nats: half a detection a picture


class Move(NamedTuple):
    """By how much pictures were moved.

    Attributes:
        down: as a part of the height.
        right: as a part of the width.
        size: height and width, in pixels.
    """

    down: float
    right: float
    size: tuple[int, int]


def moved(pictures: np.ndarray, height: int, width: int) -> tuple[np.ndarray, Move]:
    """Pictures a 32nd of each side further down and to the right; their edges are repeated.

    Args:
        pictures: of any layout.
        height: the axis of the height.
        width: that of the width.
    """
    high, wide = pictures.shape[height], pictures.shape[width]
    down, right = max(1, high // _PART), max(1, wide // _PART)
    rows, columns = (np.maximum(np.arange(size) - by, 0) for size, by in ((high, down), (wide, right)))
    there = np.ascontiguousarray(pictures.take(rows, height).take(columns, width))
    return there, Move(down / high, right / wide, (high, wide))


def measurable(layout: Layout | None) -> bool:
    """Whether there is a measure for a layout."""
    if isinstance(layout, Boxes):
        return not layout.apart  # which row is a moved thing's is not known
    return isinstance(layout, Classes) or (isinstance(layout, PixelClasses) and layout.over is None)


class SurenessMeter:
    """Measures one preparation of pictures, sample by sample.

    Of classes, and of those of pixels, it is how much the answer for a moved picture tells of which picture
    that is: ln(p / mean p), p the probability that both answers, drawn by the model's probabilities, are of
    one class, the mean over all pictures: a contrastive bound of mutual information (arXiv 1807.03748). It is
    0 of a model that always gives one answer. Of boxes it is ln(1 + d) of the detections d that are found
    again, by the product of their scores, less half the squares of those that are not.

    Attributes:
        samples: how many samples were added.
        detected: how many detections there are, found again or not; 0 of classes.
    """

    def __init__(self, layout: Layout, outputs: tuple[str, ...]) -> None:
        self._layout, self._outputs = layout, outputs
        self._answers: list[tuple[np.ndarray, np.ndarray]] = []
        self._found: list[float] = []
        self.samples = self.detected = 0

    def add(
        self,
        seen: list[Any],
        again: list[Any],
        feeds: Mapping[str, np.ndarray],
        move: Move,
    ) -> None:
        """Adds the outputs for a sample, and those for it when it is moved; `feeds`: what it was fed.

        Raises:
            ValueError: they are not as the layout says.
        """
        one, other = (dict(zip(self._outputs, some, strict=True)) for some in (seen, again))
        self.samples += 1
        if isinstance(self._layout, Boxes):
            found = [detections(self._layout, some, feeds, SCORES[0]) for some in (one, other)]
            self.detected += sum(len(some.scores) for some in found[0])
            self._found += [_found_again(a, b, self._layout, move) for a, b in zip(*found, strict=True)]
        elif isinstance(self._layout, PixelClasses):
            self._answers.append(_of_pixels(self._layout, one, other, move))
        elif isinstance(self._layout, Classes):
            rows = (_probabilities(in_rows(as_tensor(some[self._layout.output]))) for some in (one, other))
            first, second = (some.reshape(-1, 1, some.shape[-1]) for some in rows)
            self._answers.append((first, second))

    @property
    def is_of_boxes(self) -> bool:
        """Whether detections are measured."""
        return isinstance(self._layout, Boxes)

    @property
    def is_of_classes(self) -> bool:
        """Whether answers are classes of whole pictures."""
        return isinstance(self._layout, Classes)

    @property
    def each(self) -> np.ndarray:
        """The measure of each picture, float64, in nats."""
        if self.is_of_boxes:
            found = np.array(self._found)
            signed: np.ndarray = np.sign(found) * np.log1p(np.abs(found))
            return signed
        return _told(*(np.concatenate(some) for some in zip(*self._answers, strict=True)))

    def sharpened(self, power: float) -> float:
        """The mean measure of classes, their probabilities to a power, as greater values make them."""
        answers = (np.concatenate(some) for some in zip(*self._answers, strict=True))
        return float(_told(*(_sharpened(some, power) for some in answers)).mean())

    def again(self, power: float = 1.0) -> float:
        """How often answers to a picture and to the moved one are the same class, 0 to 1.

        `power`: of their probabilities; of a greater one how clear answers are counts less.
        """
        first, second = (_sharpened(np.concatenate(some), power) for some in zip(*self._answers, strict=True))
        return float(np.einsum("iuk,iuk->iu", first, second).mean())

    @property
    def excluded(self) -> np.ndarray:
        """How far the answers for each picture exclude classes: float64, nats, of classes.

        It is the mean of -ln p over all classes: the Kullback-Leibler divergence of equal probabilities from
        the answer (arXiv 2110.00218), but for a constant. It compares what has the same values alone: it
        grows with these, whatever they are.
        """
        each = np.concatenate([np.stack(both) for both in self._answers], 1)
        told: np.ndarray = -np.log(np.maximum(each, _LEAST)).mean((0, 2, 3))
        return told

    @property
    def sure(self) -> float:
        """The least mean of a model that was made for such pictures."""
        if self.is_of_boxes:
            return _SURE_BOXES
        if isinstance(self._layout, PixelClasses):
            return _SURE_PIXELS
        count = sum(len(one) for one, _ in self._answers)
        return max(_SURE_CLASSES, _SURE_OF_MOST * float(np.log(min(count, self.classes))))

    @property
    def classes(self) -> int:
        """How many classes there are; 0 of boxes."""
        return 0 if self.is_of_boxes else int(self._answers[0][0].shape[-1])


def _sharpened(probabilities: np.ndarray, power: float) -> np.ndarray:
    """Probabilities to a power, which sum to 1 again."""
    raised = np.maximum(probabilities, _LEAST) ** power
    sharp: np.ndarray = raised / raised.sum(-1, keepdims=True)
    return sharp


def _told(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What answers tell of each picture, of probabilities `[pictures, places, classes]`."""
    same = np.einsum("iuk,juk->ij", first, second, optimize=True) / first.shape[1] + _EPS
    told: np.ndarray = np.log(np.diag(same) / same.mean(1))
    return told


def _probabilities(values: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, of such or of logits."""
    wide: np.ndarray = values.astype(np.float64)
    if wide.min() >= 0 and np.abs(wide.sum(-1) - 1).max() < 0.01:
        return wide
    return activated(wide, "softmax")


def _of_pixels(
    layout: PixelClasses, one: Mapping[str, Any], other: Mapping[str, Any], move: Move
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities at places of a grid, `[pictures, places, classes]`, and at the same of the moved one.

    Raises:
        ValueError: the output is none of masks.
    """
    if layout.axis is None:
        raise ValueError("its whole numbers are classes: they have no scores")
    first, second = (np.moveaxis(as_tensor(some[layout.output]), layout.axis, -1) for some in (one, other))
    if first.ndim != 4 or first.shape != second.shape:
        raise ValueError(f"output {layout.output!r} has the shape {list(first.shape)}")
    high, wide = first.shape[1:3]
    down, right = round(move.down * high), round(move.right * wide)
    rows, columns = (
        np.unique(np.linspace(0, size - 1 - by, _PLACES).astype(int))
        for size, by in ((high, down), (wide, right))
    )
    taken = first[:, rows][:, :, columns], second[:, rows + down][:, :, columns + right]
    a, b = (_probabilities(some.reshape(len(some), -1, some.shape[-1])) for some in taken)
    return a, b


def _found_again(seen: Detections, again: Detections, layout: Boxes, move: Move) -> float:
    boxes = np.concatenate([seen.boxes, again.boxes])
    pixels = bool(layout.strides) or (len(boxes) > 0 and float(np.median(boxes[:, 2:])) > 2)
    high, wide = move.size if pixels else (1, 1)
    offset = np.array([move.right * wide, move.down * high] * 2)
    back = Detections(again.boxes - offset, again.scores, again.classes)
    partner = matched(seen, back)
    hit = partner >= 0
    both = float((seen.scores[hit] * back.scores[partner[hit]]).sum())
    return 2 * both - float((seen.scores**2).sum() + (back.scores**2).sum()) / 2
