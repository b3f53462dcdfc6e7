"""What data look like: shapes, ranges and repetitions, one sample in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnxq.data.images import Preparation, layout_of
from onnxq.data.pictures import shrunk
from onnxq.data.samples import InputSpec, Sample, digest
from onnxq.graph.channels import by_channel

NAMED = 3
"""How many samples of a kind are remembered by name."""

_SIDE = 32  # pixels: smaller pictures are rough, as MNIST's digits are
_APART = 0.1  # of the variance: what is so far apart is another sample
_NEARLY = 0.01  # of the variance of small pictures: files of one photograph 0.0002, the nearest digits 0.05
_THUMB = 32  # pixels
_KEPT = 16  # small pictures


@dataclass(slots=True)
class Moments:
    """Mean and variance of values in rows, merged as Chan, Golub and LeVeque (1979) do.

    Attributes:
        count: how many values a row had.
        mean: float64 `[rows]`.
        squares: float64 `[rows]`, the sum of the squared distances to the mean.
    """

    count: int
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Moments:
        """Those of float64 `[rows, values]`."""
        mean = rows.mean(1)
        apart = rows - mean[:, None]
        return cls(rows.shape[1], mean, np.einsum("ij,ij->i", apart, apart))

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of each row."""
        return np.sqrt(self.squares / max(self.count, 1))

    def merged(self, other: Moments) -> Moments:
        """Those of both."""
        count = self.count + other.count
        shift, weight = other.mean - self.mean, other.count / count
        between = shift**2 * self.count * weight
        return Moments(count, self.mean + shift * weight, self.squares + other.squares + between)

    def whole(self) -> tuple[float, float]:
        """Mean and standard deviation of all rows together."""
        mean = self.mean.mean()
        squares = self.squares.sum() + self.count * ((self.mean - mean) ** 2).sum()
        return float(mean), float(np.sqrt(squares / max(self.count * len(self.mean), 1)))


@dataclass(slots=True)
class InputSurvey:
    """What an input was fed.

    Attributes:
        spec: the input.
        layout: NCHW, NHWC, CHW or HWC of images; None where there are no channels to tell apart.
        preparation: how its images were prepared; None: it was fed arrays.
        shapes: how many samples had each shape.
        min: the least value; None where there was none, or no number.
        max: the greatest.
        zeros: how many values were zero.
        whole: whether all values were whole numbers.
        channels: moments of each channel, of all values where there are none.
        tint: mean of the first channel less that of the third, a value a sample, of images of three.
        constant: samples in which all values are the same, of pictures all of a channel: how many, and the
            first of them.
        greatest: the greatest magnitude of each sample that has one above 0.
        alike: of each picture of 32 pixels a side and more, how alike neighbours in a row are: the
            correlation of their values less their channel's mean, -1 to 1.
        torn: of each such picture of three channels, how many times less alike neighbours in a column are
            than in the same numbers read in the other layout, NHWC for NCHW: below 1 where all is well.
        spread: the greatest distance of a sample to the first one, mean((x - first)^2) / var(first), of the
            samples up to the one that is surely another.
    """

    spec: InputSpec
    layout: str | None
    preparation: Preparation | None
    shapes: dict[tuple[int, ...], int] = field(default_factory=dict)
    min: float | None = None
    max: float | None = None
    zeros: int = 0
    whole: bool = True
    channels: Moments | None = None
    tint: Moments | None = None
    constant: int = 0
    constant_in: list[str] = field(default_factory=list)
    greatest: list[float] = field(default_factory=list)
    alike: list[float] = field(default_factory=list)
    spread: float = 0.0
    torn: list[float] = field(default_factory=list)
    _first: np.ndarray | None = None

    def add(self, where: str, array: np.ndarray) -> None:
        """Adds the input's array of a sample."""
        self.shapes[array.shape] = self.shapes.get(array.shape, 0) + 1
        if array.dtype.kind in "OUS" or not array.size:
            return
        values: np.ndarray = array.astype(np.float64)
        low, high = float(values.min()), float(values.max())
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)
        self.zeros += int(np.count_nonzero(values == 0))
        self.whole = self.whole and bool((values == np.rint(values)).all())
        if 0 < (most := max(-low, high)) < np.inf:
            self.greatest.append(most)
        rows = self._rows(values)
        if not np.ptp(rows, 1).any():
            self.constant += 1
            self.constant_in += [where] * (len(self.constant_in) < NAMED)
        elif self.layout is not None and min(array.shape[self.layout.index(side)] for side in "HW") >= _SIDE:
            self.alike.append(_alike(rows, array.shape[self.layout.index("W")]))
            if len(rows) == 3:
                self.torn.append(_torn(values, self.layout))
        self._add_channels(Moments.of(rows))
        self._compare(array, values)

    @property
    def size(self) -> int:
        """How many values the largest sample has."""
        return max((int(np.prod(shape)) for shape in self.shapes), default=0)

    @property
    def values(self) -> int:
        """How many values there were."""
        return sum(int(np.prod(shape)) * count for shape, count in self.shapes.items())

    def _rows(self, values: np.ndarray) -> np.ndarray:
        """The values `[channels, ...]`, or `[1, ...]`."""
        if self.layout is None:
            return values.reshape(1, -1)
        return np.ascontiguousarray(by_channel(values, self.layout.index("C")))

    def _add_channels(self, found: Moments) -> None:
        self.channels = found if self.channels is None else self.channels.merged(found)
        if len(found.mean) == 3:
            tint = Moments.of((found.mean[:1] - found.mean[2:])[None])
            self.tint = tint if self.tint is None else self.tint.merged(tint)

    def _compare(self, array: np.ndarray, values: np.ndarray) -> None:
        """Keeps how far the array, in float64 `values`, is from the first one."""
        if self._first is None:
            self._first = array.copy()
            return
        if array.shape != self._first.shape:
            self.spread = np.inf
        elif self.spread < _APART:
            first = self._first.astype(np.float64)
            apart, own = float(((values - first) ** 2).mean()), float(first.var())
            self.spread = max(self.spread, apart / own if own else (np.inf if apart else 0.0))


class Survey:
    """What samples look like, as far as they were added.

    Attributes:
        samples: how many were added.
        inputs: of each input, what it was fed.
        repeated: samples that are equal to one before: how many.
        repeats: the first of them, each with the one it repeats.
        nearly: samples that are equal to one before, or nearly so where they are pictures: how many.
        near: the first of them, with the one that it is like.
    """

    def __init__(self, inputs: Sequence[InputSpec], prepared: Sequence[Preparation] = ()) -> None:
        by_name = {image.input: image for image in prepared}
        self.samples = 0
        self.inputs = [
            InputSurvey(spec, _layout(spec, by_name.get(spec.name)), by_name.get(spec.name))
            for spec in inputs
        ]
        self.repeated = 0
        self.repeats: list[tuple[str, str]] = []
        self._seen: dict[bytes, str] = {}
        self.nearly = 0
        self.near: tuple[str, str] | None = None
        self._thumbs: list[tuple[str, bytes, dict[str, np.ndarray]]] = []

    def add(self, sample: Sample) -> None:
        """Adds a sample."""
        self.samples += 1
        for entry in self.inputs:
            entry.add(sample.where, sample.feeds[entry.spec.name])
        first = self._seen.setdefault(digest(sample), sample.where)
        if len(self._seen) + self.repeated < self.samples:
            self.repeated += 1
            self.repeats += [(sample.where, first)] * (len(self.repeats) < NAMED)
            like: str | None = first
        else:
            like = self._near(sample)
        if like is not None:
            self.nearly += 1
            self.near = self.near or (sample.where, like)

    def _near(self, sample: Sample) -> str | None:
        """The sample before that this one nearly equals; kept where there is none."""
        pictures = {one.spec.name: one.layout for one in self.inputs if one.layout is not None}
        rest = {name: array for name, array in sample.feeds.items() if name not in pictures}
        thumbs = {name: _thumb(sample.feeds[name], layout) for name, layout in pictures.items()}
        if not thumbs or not all(map(_variance, thumbs.values())):
            return None
        others = digest(replace(sample, feeds=rest))
        for where, known, small in self._thumbs:
            if known == others and all(_is_near(one, small[name]) for name, one in thumbs.items()):
                return where
        if len(self._thumbs) < _KEPT:
            self._thumbs.append((sample.where, others, thumbs))
        return None

    @property
    def size(self) -> int:
        """How many values the largest sample has."""
        return sum(entry.size for entry in self.inputs)

    @property
    def numeric(self) -> Iterator[InputSurvey]:
        """The inputs that were fed numbers."""
        return (entry for entry in self.inputs if entry.channels is not None)


def _thumb(array: np.ndarray, layout: str) -> np.ndarray:
    """A small picture, float32 `[height, width, all else]`."""
    moved = np.moveaxis(array, (layout.index("H"), layout.index("W")), (0, 1))
    return shrunk(moved.reshape(*moved.shape[:2], -1).astype(np.float32), _THUMB)


def _is_near(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether small pictures differ by next to nothing of what each varies."""
    if one.shape != other.shape:
        return False
    return float(((one - other) ** 2).mean()) <= _NEARLY * min(_variance(one), _variance(other))


def _variance(thumb: np.ndarray) -> float:
    """The variance of a channel of a small picture, the mean of all."""
    return float(thumb.var((0, 1)).mean())


def _alike(channels: np.ndarray, wide: int) -> float:
    """How alike neighbours are in rows of so many pixels, of float64 `[channels, pixels]` that vary."""
    apart = (channels - channels.mean(1, keepdims=True)).reshape(-1, wide)
    one, other = apart[:, :-1], apart[:, 1:]
    powers = [float(np.einsum("ij,ij->", some, some)) for some in (one, other)]
    return float(np.einsum("ij,ij->", one, other)) / math.sqrt(max(math.prod(powers), np.finfo(float).tiny))


def _torn(values: np.ndarray, layout: str) -> float:
    """How many times less alike neighbours in a column are than in the same numbers in the other layout."""
    other = layout.replace("C", "") + "C" if layout.endswith("W") else layout.replace("HWC", "CHW")
    sizes = dict(zip(layout, values.shape, strict=True))
    apart = []
    for order, read in ((layout, values), (other, values.reshape([sizes[axis] for axis in other]))):
        columns = np.ascontiguousarray(
            by_channel(read.swapaxes(order.index("H"), order.index("W")), order.index("C"))
        )
        apart.append(1 - _alike(columns, values.shape[layout.index("H")]))
    return apart[0] / max(apart[1], np.finfo(float).tiny)


def _layout(spec: InputSpec, preparation: Preparation | None) -> str | None:
    """The layout of images; arrays are taken for such where they have four axes."""
    if preparation is not None:
        return preparation.layout
    is_picture = spec.shape is not None and len(spec.shape) == 4 and spec.dtype.kind not in "bOUS"
    return layout_of(spec) if is_picture else None
