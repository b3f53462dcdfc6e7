"""Small pictures of samples as a model is fed them, for who looks whether they are what they should be."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.data.samples import Sample

if TYPE_CHECKING:
    from PIL.Image import Image

MOST, SIDE, BYTES = 8, 64, 40_000
"""Pictures of an input, pixels of their longer side, and characters of all pictures, at most."""

_INPUTS = 2
_LEAST = 8  # pixels of a side of what looks like an image
_SIDES = (SIDE, 48, 32, 24, 16, 8)


@dataclass(frozen=True, slots=True)
class Picture(DocumentPart):
    """A sample.

    Attributes:
        sample: its place in the data.
        where: where it is from.
        width: pixels.
        height: pixels.
        png: a PNG file, base64.
    """

    sample: int
    where: str
    width: int
    height: int
    png: str


@dataclass(frozen=True, slots=True)
class PictureSheet(DocumentPart):
    """Samples of an input that looks like an image, as they are fed.

    Attributes:
        input: its name.
        layout: `NCHW` or `NHWC`.
        channels: 1, or 3, which are shown as red, green and blue in the order in which they are fed.
        low: the value that is black.
        high: the value that is white.
        pictures: the samples.
    """

    input: str
    layout: str
    channels: int
    low: float
    high: float
    pictures: tuple[Picture, ...]


class Album:
    """Keeps small pictures of the first samples."""

    def __init__(self) -> None:
        """Of none yet."""
        self._seen: dict[str, list[tuple[Sample, np.ndarray]]] = {}
        self._layouts: dict[str, str] = {}

    def add(self, sample: Sample) -> None:
        """Looks at a sample; of each input `MOST` are kept."""
        for name, array in sample.feeds.items():
            layout = layout_of(np.asarray(array))
            if layout is None or self._layouts.setdefault(name, layout) != layout:
                continue
            kept = self._seen.setdefault(name, [])
            if len(kept) < MOST:
                bare = Sample(sample.index, sample.where, {})
                kept.append((bare, _small(np.asarray(array)[0], layout)))

    def sheets(self) -> tuple[PictureSheet, ...]:
        """The pictures of the inputs that look like images: those of two at most, `BYTES` in all."""
        inputs = [name for name, kept in self._seen.items() if kept][:_INPUTS]
        return tuple(
            _sheet(name, self._layouts[name], self._seen[name], BYTES // len(inputs)) for name in inputs
        )


def layout_of(array: np.ndarray) -> str | None:
    """The layout of a batch of images; None of what looks like none."""
    if array.ndim != 4 or not array.size or array.dtype.kind not in "fui" or array.dtype.itemsize > 8:
        return None
    if array.shape[1] in (1, 3) and min(array.shape[2:]) >= _LEAST:
        return "NCHW"
    if array.shape[3] in (1, 3) and min(array.shape[1:3]) >= _LEAST:
        return "NHWC"
    return None


def shrunk(pixels: np.ndarray, side: int, by: Literal["mean", "max", "first"] = "mean") -> np.ndarray:
    """A picture `[height, width, channels]` of sides of `side` at most: of blocks of it the mean, say.

    Blocks at the end are filled up with the pixels of the edge.
    """
    step = -(-max(pixels.shape[:2]) // side)
    if step == 1:
        return pixels
    if by == "first":
        return pixels[::step, ::step]
    high, wide = (-(-size // step) for size in pixels.shape[:2])
    ends = [(0, -size % step) for size in pixels.shape[:2]]
    blocks = np.pad(pixels, [*ends, (0, 0)], "edge").reshape(high, step, wide, step, -1)
    found: np.ndarray = blocks.mean((1, 3)) if by == "mean" else blocks.max((1, 3))
    return found


def drawn(pixels: np.ndarray, low: float, high: float) -> np.ndarray:
    """Values as bytes: `low` is 0, `high` 255, what is beyond is at the end."""
    span = high - low if high > low else 1.0
    return np.clip(np.rint((pixels - low) * (255 / span)), 0, 255).astype(np.uint8)


def png_of(pixels: np.ndarray, palette: Sequence[int] = ()) -> str:
    """A PNG file, base64.

    Args:
        pixels: bytes, `[height, width]`, or `[height, width, channels]` of 1 or 3 channels.
        palette: the red, green and blue of 256 colors, which bytes of one channel stand for; empty: greys.
    """
    from PIL.Image import fromarray

    image = fromarray(pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels)
    if palette:
        image.putpalette(palette)
    return _encoded(image)


def _encoded(image: Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _small(image: np.ndarray, layout: str) -> np.ndarray:
    """An image as float64 [height, width, channels], each side `SIDE` at most."""
    pixels = (image.transpose(1, 2, 0) if layout == "NCHW" else image).astype(np.float64)
    return shrunk(np.nan_to_num(pixels, nan=0.0, posinf=0.0, neginf=0.0), SIDE)


def _sheet(name: str, layout: str, kept: Sequence[tuple[Sample, np.ndarray]], most: int) -> PictureSheet:
    low = min(float(pixels.min()) for _, pixels in kept)
    high = max(float(pixels.max()) for _, pixels in kept)
    bytes_of = [drawn(pixels, low, high) for _, pixels in kept]
    pictures: list[Picture] = []
    for side in _SIDES:
        pictures = [_png(sample, pixels, side) for (sample, _), pixels in zip(kept, bytes_of, strict=True)]
        if sum(len(one.png) for one in pictures) <= most:
            break
    return PictureSheet(name, layout, int(bytes_of[0].shape[2]), low, high, tuple(pictures))


def _png(sample: Sample, pixels: np.ndarray, side: int) -> Picture:
    from PIL.Image import fromarray

    image = fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image.thumbnail((side, side))
    return Picture(sample.index, sample.where, image.width, image.height, _encoded(image))
