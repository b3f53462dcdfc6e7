"""Outputs that are pictures, drawn small: the float model's, the result's, and where they differ."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.base.remarks import remark
from onnxq.data.fed_sample import FedSample
from onnxq.data.pictures import drawn, png_of, shrunk
from onnxq.judge.comparable import as_tensor
from onnxq.judge.sqnr import Energy
from onnxq.task.measures import pixel_labels
from onnxq.task.pictured import LEAST, PicturedOutput, PictureKind

SAMPLES, OUTPUTS, SIDE, BYTES = 3, 4, 192, 240_000
"""Samples of an output, outputs, pixels of a longer side, and characters of all pictures, at most."""

_SIDES = (SIDE, 128, 96, 64, 48, 32, 16)
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class PictureBeside(DocumentPart):
    """An output in one sample, small: PNG files of one size, base64.

    Attributes:
        where: the sample that it is of.
        sqnr_db: how near the result is in this sample, dB; None of classes.
        changed: the share of the pixels that have another class, 0 to 1; None of numbers.
        width: pixels.
        height: pixels.
        reference: what the float model gives.
        result: what the result gives, in the same colors.
        difference: the magnitude of the difference, the greatest of the channels; of classes where they
            differ.
    """

    where: str
    sqnr_db: float | None
    changed: float | None
    width: int
    height: int
    reference: str
    result: str
    difference: str


@dataclass(frozen=True, slots=True)
class OutputPictures(DocumentPart):
    """An output that is a picture, in the samples in which the result is furthest off.

    Attributes:
        output: its name.
        kind: what stands in a pixel: `image` of 3 channels (red, green, blue) or 4 (a quarter each), `map`
            of one number, `heat` (the greatest number of several channels), `classes`, `mask`.
        why: by what that is known.
        channels: how many there are; 1 of classes and masks.
        low: the value that is black; None of classes and masks.
        high: the value that is white; likewise.
        most: the difference that is white; likewise.
        samples: how many samples these are the worst of.
        pictures: the worst first.
    """

    output: str
    kind: PictureKind
    why: str
    channels: int
    low: float | None
    high: float | None
    most: float | None
    samples: int
    pictures: tuple[PictureBeside, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Pictures of a sample, of `SIDE` at most.

    Attributes:
        where: the sample.
        near: what the worst have least of: dB, or of classes the share that stays.
        channels: of the output.
        reference: `[height, width, channels]`, float64 or labels.
        result: the same.
        difference: `[height, width, 1]`, float64, 0 where they are equal.
    """

    where: str
    near: float
    channels: int
    reference: np.ndarray
    result: np.ndarray
    difference: np.ndarray


class OutputAlbum:
    """Hears the outputs of samples, and keeps small pictures of the worst."""

    def __init__(self, outputs: Sequence[str], pictured: Sequence[PicturedOutput]) -> None:
        """Of none yet.

        Args:
            outputs: the names of the outputs that it hears, in their order.
            pictured: those that may be pictures.
        """
        self._places = {name: place for place, name in enumerate(outputs)}
        self._pictured = [one for one in pictured if one.output in self._places]
        self._kept: dict[str, list[_Kept]] = {}
        self._heard: dict[str, int] = {}

    def add(
        self,
        reference: Sequence[Any],
        candidates: Sequence[Sequence[Any]],
        feeds: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds a sample; of the candidates the first counts. What ends in a fault is no longer drawn."""
        try:
            for one in self._pictured:
                place = self._places[one.output]
                self._add(one, as_tensor(reference[place]), as_tensor(candidates[0][place]), feeds or {})
        except Exception as error:  # the pictures are worth less than the run
            remark(noted("outputs-not-drawn", error=error))
            self._pictured, self._kept = [], {}

    def _add(
        self, one: PicturedOutput, ours: np.ndarray, theirs: np.ndarray, feeds: Mapping[str, np.ndarray]
    ) -> None:
        fed = None if one.beside is None else feeds[one.beside.input].shape
        if ours.shape != theirs.shape or not ours.size or not one.fits(ours.shape, fed):
            return
        if one.layout is not None:
            ours, theirs = (_labels(pixel_labels(one.layout, value)) for value in (ours, theirs))
        if one.layout is not None and (ours.ndim != 3 or min(ours.shape[1:]) < LEAST):
            return
        self._heard[one.output] = self._heard.get(one.output, 0) + 1
        kept = self._kept.setdefault(one.output, [])
        where = feeds.where if isinstance(feeds, FedSample) else f"sample {self._heard[one.output] - 1}"
        for item, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            near = _share(a, b) if one.layout is not None else _level(a, b)
            if near < (kept[-1].near if len(kept) == SAMPLES else _equal(one)):
                of = f"{where} [{item}]" if len(ours) > 1 else where
                kept.append(
                    _labelled(of, near, a, b) if one.layout is not None else _drawn(one, of, near, a, b)
                )
                kept.sort(key=lambda one: one.near)
                del kept[SAMPLES:]

    def sheets(self) -> tuple[OutputPictures, ...]:
        """The pictures: of `OUTPUTS` outputs that differ anywhere, `BYTES` characters in all."""
        found = [one for one in self._pictured if self._kept.get(one.output)][:OUTPUTS]
        try:
            return tuple(
                _sheet(one, self._kept[one.output], self._heard[one.output], BYTES // len(found))
                for one in found
            )
        except Exception as error:  # as above
            remark(noted("outputs-not-drawn", error=error))
            return ()


def _equal(one: PicturedOutput) -> float:
    """How near what is equal is."""
    return math.inf if one.layout is None else 1.0


def _labels(found: np.ndarray) -> np.ndarray:
    """Labels as `[batch, height, width]`, where one of four axes is 1."""
    axis = next((axis for axis in (1, 3) if found.ndim == 4 and found.shape[axis] == 1), None)
    return found if axis is None else found.squeeze(axis)


def _share(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.mean(ours == theirs))


def _level(ours: np.ndarray, theirs: np.ndarray) -> float:
    energy = Energy()
    energy.add(ours.astype(np.float64), theirs.astype(np.float64))
    return energy.sqnr_db


def _labelled(where: str, near: float, ours: np.ndarray, theirs: np.ndarray) -> _Kept:
    changed = shrunk((ours != theirs)[..., None].astype(np.float64), SIDE, "max")
    a, b = (shrunk(value[..., None], SIDE, "first") for value in (ours, theirs))
    return _Kept(where, near, 1, a, b, changed)


def _drawn(one: PicturedOutput, where: str, near: float, ours: np.ndarray, theirs: np.ndarray) -> _Kept:
    """Numbers of one item of a batch."""
    a, b = (
        (value[..., None] if one.axis is None else np.moveaxis(value, one.axis - 1, -1)).astype(np.float64)
        for value in (ours, theirs)
    )
    with np.errstate(invalid="ignore"):
        apart = np.where(np.isfinite(a), np.where(np.isfinite(b), np.abs(b - a), math.inf), 0.0)
    a, b = (_in_colors(one, np.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)) for value in (a, b))
    difference = _in_colors(one, apart).max(-1, keepdims=True)
    small = shrunk(difference, SIDE, "max")
    return _Kept(where, near, apart.shape[-1], shrunk(a, SIDE), shrunk(b, SIDE), small)


def _in_colors(one: PicturedOutput, values: np.ndarray) -> np.ndarray:
    """Channels as red, green and blue, or as grey: the greatest of those of heat; of four a quarter each."""
    if one.kind == "heat":
        return np.asarray(values.max(-1, keepdims=True))
    if values.shape[-1] != 4:
        return values
    rows = [np.concatenate([values[..., [at]] for at in pair], axis=1) for pair in ((0, 1), (2, 3))]
    return np.concatenate(rows, axis=0)


def class_colors() -> list[int]:
    """Red, green and blue of 256 classes, one after another: class 0 is black, neighbors differ in hue."""
    hues = (
        colorsys.hsv_to_rgb(_GOLDEN * label % 1, 0.65 + 0.3 * (label % 2), 0.95 - 0.25 * (label // 2 % 2))
        for label in range(1, 256)
    )
    return [0, 0, 0, *(round(255 * part) for part in chain.from_iterable(hues))]


def _sheet(one: PicturedOutput, kept: Sequence[_Kept], samples: int, most: int) -> OutputPictures:
    numbers = one.layout is None
    low = min(float(sample.reference.min()) for sample in kept)
    high = max(float(sample.reference.max()) for sample in kept)
    ends = np.concatenate([sample.difference.ravel() for sample in kept])
    white = float(ends[np.isfinite(ends)].max(initial=0.0)) if numbers else 1.0
    pictures: list[PictureBeside] = []
    for side in _SIDES:
        pictures = [_beside(one, sample, side, (low, high), white) for sample in kept]
        if sum(len(png) for p in pictures for png in (p.reference, p.result, p.difference)) <= most:
            break
    least, greatest, most_apart = (low, high, white) if numbers else (None, None, None)
    return OutputPictures(
        one.output, one.kind, one.why, kept[0].channels, least, greatest, most_apart, samples, tuple(pictures)
    )


def _beside(
    one: PicturedOutput, sample: _Kept, side: int, ends: tuple[float, float], white: float
) -> PictureBeside:
    numbers = one.layout is None
    pngs: list[str] = []
    for value in (sample.reference, sample.result):
        if numbers:
            pngs.append(png_of(drawn(shrunk(value, side), *ends)))
        elif one.kind == "mask":
            pngs.append(png_of(shrunk(value, side, "first").astype(np.uint8) * 255))
        else:
            labels = (shrunk(value, side, "first").astype(np.int64) % 256).astype(np.uint8)
            pngs.append(png_of(labels, class_colors()))
    difference = drawn(shrunk(sample.difference, side, "max"), 0.0, white)
    high, wide = difference.shape[:2]
    level, changed = (sample.near, None) if numbers else (None, 1 - sample.near)
    return PictureBeside(sample.where, level, changed, wide, high, pngs[0], pngs[1], png_of(difference))
