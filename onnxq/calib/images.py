"""Image files as model inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from onnxq.calib.samples import InputSpec
from onnxq.errors import UserError
from onnxq.graph.types import Dim, shape_text

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"))
"""File name suffixes of the images that are read, lower case."""

_MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How pixels become input values: `(pixel * scale - mean) / std`.

    Attributes:
        scale: factor of the 8-bit pixel values; None: 1/255 for a float input, 1 for an integer.
        mean: subtracted from each channel after scaling: a value for all, or one for each.
        std: each channel is divided by it: a value for all, or one for each.
    """

    scale: float | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """The pixels that an input takes.

    Attributes:
        channels: 1 (grey) or 3 (RGB).
        channels_first: whether the layout is CHW, not HWC.
        height: rows; not an int where dynamic.
        width: columns; not an int where dynamic.
    """

    channels: int
    channels_first: bool
    height: Dim
    width: Dim


def image_format(spec: InputSpec) -> ImageFormat:
    """The format of an image input: NCHW, NHWC, CHW or HWC with 1 or 3 channels.

    Raises:
        UserError: the input does not take images.
    """
    shape = spec.shape or ()
    if len(shape) in (3, 4):
        first, middle, last = shape[-3:]
        if first in _MODES and isinstance(first, int):
            return ImageFormat(first, True, middle, last)
        if last in _MODES and isinstance(last, int):
            return ImageFormat(last, False, first, middle)
    raise UserError(
        f"input {spec.name!r} takes {shape_text(spec.shape)}, which is not an image of 1 or 3 "
        "channels (NCHW or NHWC)",
        hint="give the data as .npy or .npz arrays; bind a dynamic channel axis with --shape",
    )


def decode(path: Path, spec: InputSpec, options: ImageOptions) -> np.ndarray:
    """An image file as the values of an input, without the batch axis.

    The image is turned as its EXIF orientation says and resized to the input's static height and
    width, bilinear with antialiasing, without keeping the aspect ratio.

    Returns:
        float32 `[C, H, W]` or `[H, W, C]` for a float input, else uint8.

    Raises:
        UserError: the file is no image, is corrupt, or has more than 8 bits a channel.
    """
    form = image_format(spec)
    where = f"{str(path)!r} (input {spec.name!r})"
    try:
        with Image.open(path) as file:
            if file.mode.startswith(("I", "F")):
                raise UserError(
                    f"{where} has more than 8 bits a channel (mode {file.mode})",
                    hint="give such data as .npy arrays, scaled as the model takes it",
                )
            image = ImageOps.exif_transpose(file).convert(_MODES[form.channels])
    except UnidentifiedImageError as error:
        raise UserError(
            f"{where} is not an image that Pillow reads", hint="remove or replace the file"
        ) from error
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise UserError(f"{where} is a corrupt image: {error}", hint="remove or replace the file") from error
    width = form.width if isinstance(form.width, int) else image.width
    height = form.height if isinstance(form.height, int) else image.height
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image).reshape(height, width, form.channels)
    if spec.dtype.kind in "iub":
        if options != ImageOptions():
            raise UserError(
                f"input {spec.name!r} is {spec.dtype}: scale, mean and std are for float inputs",
                hint="leave them out; the model takes pixels from 0 to 255",
            )
        values = pixels
    else:
        values = _normalize(pixels, options, spec)
    return np.ascontiguousarray(values.transpose(2, 0, 1)) if form.channels_first else values


def _normalize(pixels: np.ndarray, options: ImageOptions, spec: InputSpec) -> np.ndarray:
    channels = pixels.shape[-1]
    for name, given in (("mean", options.mean), ("std", options.std)):
        if len(given) not in (1, channels):
            raise UserError(
                f"{name} has {len(given)} values, input {spec.name!r} has {channels} channels",
                hint="give one value, or one for each channel",
            )
    if 0.0 in options.std:
        raise UserError("std is 0 for a channel", hint="give the std of the training data")
    scale = 1.0 / 255.0 if options.scale is None else options.scale
    mean = np.array(options.mean, np.float32)
    std = np.array(options.std, np.float32)
    values: np.ndarray = (pixels * np.float32(scale) - mean) / std
    return values
