"""Photographs of folders that the user names, and their parts as nets are fed them."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
from PIL import Image

Box = tuple[float, float, float, float]


def folder(variable: str) -> Path:
    """What an environment variable names.

    Raises:
        LookupError: it is not set.
    """
    named = os.environ.get(variable)
    if named is None:
        raise LookupError(f"{variable} names no folder")
    return Path(named)


@functools.cache
def faces() -> tuple[Path, ...]:
    """The photographs of people of the corpus."""
    return tuple(sorted((folder("ONNXQ_CORPUS") / "data" / "faces").iterdir()))


@functools.cache
def labelled() -> tuple[Path, ...]:
    """The photographs of ONNXQ_COCO, whose objects are labelled."""
    return tuple(sorted((folder("ONNXQ_COCO") / "images").rglob("*.jpg")))


@functools.cache
def imagenet() -> tuple[Path, ...]:
    """The photographs of ONNXQ_IMAGENET, one a class."""
    return tuple(sorted(folder("ONNXQ_IMAGENET").glob("*.JPEG")))


def everything() -> tuple[Path, ...]:
    """All photographs."""
    return (*faces(), *labelled(), *imagenet())


@functools.cache
def objects(photograph: Path) -> np.ndarray:
    """What is labelled in a photograph: class, x, y, width, height as shares of its sides, [objects, 5]."""
    path = folder("ONNXQ_COCO") / "object_detection/labels" / photograph.parent.name / photograph.stem
    text = path.with_suffix(".txt")
    rows = [line.split() for line in text.read_text("utf-8").splitlines()] if text.is_file() else []
    return np.array(rows, np.float64).reshape(-1, 5)


def with_people() -> tuple[Path, ...]:
    """The photographs of people, and those in which a person is labelled."""
    return (*faces(), *(path for path in labelled() if 0 in objects(path)[:, 0]))


def opened(path: Path) -> Image.Image:
    """A photograph, RGB."""
    return Image.open(path).convert("RGB")


def letterboxed(image: Image.Image, width: int, height: int, padding: int) -> tuple[np.ndarray, float]:
    """An image in a corner, scaled so that it fits, RGB uint8 [height, width, 3]; and the scale."""
    scale = min(width / image.width, height / image.height)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    pixels = np.full((height, width, 3), padding, np.uint8)
    pixels[: size[1], : size[0]] = np.asarray(image.resize(size, Image.Resampling.BILINEAR))
    return pixels, scale


def planes(pixels: np.ndarray, mean: float = 0, scale: float = 1) -> np.ndarray:
    """Pixels [height, width, channels] as a net takes them: float32 [1, channels, height, width]."""
    return ((pixels.astype(np.float32) - mean) / scale).transpose(2, 0, 1)[None]


def part(image: Image.Image, x: float, y: float, side: float, angle: float, size: int) -> np.ndarray:
    """A square part of an image, RGB uint8 [size, size, 3]; black beyond its border.

    Args:
        image: the image.
        x: the middle of the part from the left, pixels.
        y: the same from the top.
        side: its side, pixels.
        angle: by which it is turned clockwise, radians.
        size: its side as it is given, pixels.
    """
    step = side / size
    along = np.array([np.cos(angle), np.sin(angle)]) * step
    down = np.array([-np.sin(angle), np.cos(angle)]) * step
    left, top = np.array([x, y]) - (along + down) * (size / 2)
    data = (along[0], down[0], left, along[1], down[1], top)
    turned = image.transform((size, size), Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)
    return np.asarray(turned)
