"""Image files as model inputs."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.data import layout as array_layout
from onnxq.data.image_options import PRESETS, resolved
from onnxq.data.samples import InputSpec
from onnxq.data.understood import ImagesRead
from onnxq.graph.types import Dim, shape_text
from onnxq.options.settings import CHANNELS, LARGEST, Color, ImageOptions, Size

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"))
"""File name suffixes of the images that are read, lower case."""

PADDING = 114
"""The gray, of 0 to 255, around a letterboxed image: that of Ultralytics' YOLO models."""

_MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True, slots=True)
class Preparation:
    """Everything that is done to an image before the model reads it, each choice made.

    Attributes:
        input: the input's name.
        dtype: its dtype.
        layout: NCHW, NHWC, CHW or HWC.
        color: the order of the channels.
        width: columns that the input takes; not an int where dynamic.
        height: rows; not an int where dynamic.
        scale: factor of the values from 0 to 255.
        mean: subtracted after scaling, for all channels or for each in the input's order.
        std: as `mean`; each channel is divided by it.
        resize: width and height, or the length of the shorter side; None: the input's size.
        crop: width and height of the center that is kept.
        letterbox: whether the aspect ratio is kept, in the middle of gray.
        preset: name of the preset that some of these are from.
        given: the names of the options that the user gave.
    """

    input: str
    dtype: np.dtype
    layout: str
    color: Color
    width: Dim
    height: Dim
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int | Size | None
    crop: Size | None
    letterbox: bool
    preset: str | None
    given: tuple[str, ...] = ()

    def decode(
        self, image: Path | bytes | Image.Image, note: Callable[[str], None], where: str = ""
    ) -> np.ndarray:
        """An image as values of the input, without the batch axis.

        Args:
            image: it, or its file, or what that holds.
            note: is told what the user may not expect.
            where: where it is from, for messages, of one that is no file.

        Returns:
            float32 `[C, H, W]` or `[H, W, C]` for a float input, else uint8.

        Raises:
            UserError: the file is no image, is corrupt, has more than 8 bits a channel, or comes
                out in another size than the input takes.
        """
        where = where or f"{str(image)!r} (input {self.input!r})"
        channels = CHANNELS[self.color]
        arranged = self._arranged(_open(image, where, _MODES[channels], note), where)
        pixels = np.asarray(arranged).reshape(arranged.height, arranged.width, channels)
        if self.color == "bgr":
            pixels = pixels[..., ::-1]
        if not _is_integer(self.dtype):
            mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
            pixels = (pixels * np.float32(self.scale) - mean) / std
        return np.ascontiguousarray(pixels.transpose(2, 0, 1) if self.layout.endswith("CHW") else pixels)

    def pixels(self, values: np.ndarray) -> np.ndarray:
        """What `decode` made, as colors again: its inverse, except for the size of the image.

        Args:
            values: `[C, H, W]` or `[H, W, C]`, as `decode` gives them.

        Returns:
            float32 `[H, W, C]`, RGB or gray from 0 to 255.
        """
        pixels = values.transpose(1, 2, 0) if self.layout.endswith("CHW") else values
        pixels = pixels.astype(np.float32)
        if not _is_integer(self.dtype):
            mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
            pixels = (pixels * std + mean) / np.float32(self.scale)
        return pixels[..., ::-1] if self.color == "bgr" else pixels

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value that comes of pixels."""
        mean, std = np.broadcast_arrays(self.mean, self.std)
        ends = [(value * self.scale - mean) / std for value in (0, 255)]
        return float(np.min(ends)), float(np.max(ends))

    def told(self) -> ImagesRead:
        """What the model is fed, for the report."""
        return ImagesRead(
            self.input, str(self.dtype), self.layout, self.color, self._steps(), self.scale, self.mean,
            self.std, self.range, self.preset,
        )  # fmt: skip

    def _steps(self) -> str:
        resize, crop = self.resize, self.crop
        if self.letterbox:
            return f"letterboxed to {shape_text(self._frame())} with gray {PADDING}"
        steps = []
        if isinstance(resize, int):
            steps.append(f"shorter side resized to {resize}")
        elif resize is not None:
            steps.append(f"stretched to {shape_text(resize)}")
        elif crop is None and (isinstance(self.width, int) or isinstance(self.height, int)):
            steps.append(f"stretched to {shape_text((self.width, self.height))}")
        if crop is not None:
            steps.append(f"center {shape_text(crop)} cut out")
        return ", ".join(steps) or "each image in its own size"

    def _frame(self) -> tuple[Dim, Dim]:
        """Width and height that an image is stretched or letterboxed to."""
        return self.resize if isinstance(self.resize, tuple) else (self.width, self.height)

    def labels(self, path: Path, around: int) -> np.ndarray:
        """An image whose pixels are labels, as the picture that it is of: nearest pixels, no colors.

        Args:
            path: the file, of one channel or with a palette.
            around: the label around a letterboxed one.

        Returns:
            Whole numbers `[height, width]`.

        Raises:
            UserError: the file is no such image, or comes out in another size than the input takes.
        """
        where = repr(str(path))
        with _opened(path, where) as file:
            if file.mode not in ("1", "L", "P", "I", "I;16"):
                raise UserError(
                    f"{where} has the mode {file.mode}, and its pixels are to be numbers of classes",
                    hint="give masks of one channel, or with a palette",
                )
            image = ImageOps.exif_transpose(file)
            numbers = Image.fromarray(np.asarray(image).astype(np.int32))
        return np.asarray(self._arranged(numbers, where, around))

    def place(self, points: np.ndarray, size: Size) -> np.ndarray:
        """Points of an image, x and y in the last axis, in pixels of the input.

        Args:
            points: float64 `[..., 2]`, in pixels of the image.
            size: its width and height.

        Raises:
            UserError: the image does not come out in the size of the input.
        """
        now, offset = np.array(size, np.float64), np.zeros(2)
        frame = [
            side if isinstance(side, int) else own for side, own in zip(self._frame(), size, strict=True)
        ]
        if self.letterbox:
            now = np.array(_letterboxed(size, (frame[0], frame[1])), np.float64)
            offset = (np.array(frame) - now) // 2
        elif isinstance(self.resize, int):
            now = np.array(_shorter(size, self.resize, "an image"), np.float64)
        elif self.resize is not None or self.crop is None:
            now = np.array(frame, np.float64)
        if self.crop is not None and not self.letterbox:
            offset = -np.round((now - self.crop) / 2)
        placed: np.ndarray = points * (now / size) + offset
        return placed

    def _arranged(self, image: Image.Image, where: str, around: int | None = None) -> Image.Image:
        """The image in the size that the input takes; `around`: of labels, that around a letterboxed one."""
        frame, nearest = self._frame(), around is not None
        if self.letterbox:
            return _letterbox(image, frame, around)
        if isinstance(self.resize, int):
            image = _resize(image, _shorter(image.size, self.resize, where), nearest)
        elif self.resize is not None or self.crop is None:
            own = zip(frame, image.size, strict=True)
            width, height = (side if isinstance(side, int) else other for side, other in own)
            image = _resize(image, (width, height), nearest)
        if self.crop is not None:
            image = _crop(image, self.crop, where)
        self._check_size(image.size, where)
        return image

    def _check_size(self, size: Size, what: str) -> None:
        takes = (self.width, self.height)
        if any(isinstance(b, int) and a != b for a, b in zip(size, takes, strict=True)):
            raise UserError(
                f"{what} becomes {shape_text(size)} (width x height), input {self.input!r} takes "
                f"{shape_text(takes)}",
                hint=f"end with a crop or a resize to {shape_text(takes)}, or with letterbox",
            )


Prepared = Sequence[Preparation]
"""How images become inputs, of those that are fed some."""


def batched(inputs: Sequence[InputSpec], prepared: Prepared) -> frozenset[str]:
    """Names of the inputs whose first axis is the batch; of images, the layout tells."""
    layouts = {image.input: image.layout for image in prepared}
    alike = array_layout.batched(inputs)
    return frozenset(
        spec.name
        for spec in inputs
        if (layouts[spec.name].startswith("N") if spec.name in layouts else spec.name in alike)
    )


def prepare(spec: InputSpec, options: ImageOptions) -> Preparation:
    """How images become an input: NCHW, NHWC, CHW or HWC with 1 or 3 channels, float or integer.

    Raises:
        UserError: the input takes no images, or not with these options.
    """
    layout, channels, width, height = _format(spec)
    if _is_integer(spec.dtype):
        _check_integer(spec, options)
    color: Color = options.color or ("rgb" if channels == 3 else "gray")
    if CHANNELS[color] != channels:
        raise UserError(
            f"color {color} has {CHANNELS[color]} channel{'s' * (channels == 1)}, "
            f"input {spec.name!r} takes {shape_text(spec.shape)}",
            hint="leave color out" + (", or give bgr" if channels == 3 else ""),
        )
    chosen = resolved(options, color, width, height)
    made = Preparation(
        input=spec.name, dtype=spec.dtype, layout=layout, color=color, width=width, height=height,
        scale=chosen.scale or (1.0 if _is_integer(spec.dtype) else 1.0 / 255.0),
        mean=chosen.mean or (0.0,), std=chosen.std or (1.0,),
        resize=chosen.resize, crop=chosen.crop, letterbox=bool(chosen.letterbox), preset=options.preset,
        given=tuple(options.given()),
    )  # fmt: skip
    _check_counts(made, channels, options)
    _check_sizes(made)
    _check_values(made)
    return made


def _check_integer(spec: InputSpec, options: ImageOptions) -> None:
    """Refuses what would make fractions of pixels."""
    fractions = [name for name in options.given() if name in ("scale", "mean", "std")]
    if fractions:
        raise UserError(
            f"input {spec.name!r} is {spec.dtype}: scale, mean and std are for float inputs",
            hint="leave them out; the model takes pixels from 0 to 255",
        )
    if options.preset is not None and not PRESETS[options.preset].for_integers:
        raise UserError(
            f"input {spec.name!r} is {spec.dtype}: preset {options.preset} is for float inputs, since it "
            "scales pixels",
            hint="the model takes pixels from 0 to 255: preset raw, with resize, crop or letterbox",
        )


def _check_counts(made: Preparation, channels: int, options: ImageOptions) -> None:
    """Refuses a mean or std for another number of channels."""
    for name, values in (("mean", made.mean), ("std", made.std)):
        if len(values) not in (1, channels):
            of = "" if getattr(options, name) else f" of preset {made.preset}"
            raise UserError(
                f"{name}{of} has {len(values)} values, input {made.input!r} has {channels} "
                f"channel{'s' * (channels > 1)}",
                hint="give one value, or one for each channel",
            )


def _check_values(made: Preparation) -> None:
    """Refuses what makes values of pixels that float32 does not hold."""
    values = made.range
    if max(map(abs, values)) > float(np.finfo(np.float32).max):
        raise UserError(
            f"input {made.input!r} would be fed values from {values[0]:g} to {values[1]:g}, too large for "
            "float32",
            hint="give the scale, mean and std that the model was trained with",
        )


def _check_sizes(made: Preparation) -> None:
    """Refuses what cannot fit whatever the image."""
    frame = made._frame()
    if made.letterbox and not all(isinstance(side, int) for side in frame):
        raise UserError(
            f"input {made.input!r} has no fixed width and height to letterbox images into",
            hint='give one, resize = "640x640", or bind that of the input with --shape',
        )
    last = made.crop if made.crop is not None else made.resize
    if isinstance(last, tuple):
        made._check_size(last, f"an image with {'crop' if made.crop else 'resize'} {shape_text(last)}")


def _format(spec: InputSpec) -> tuple[str, int, Dim, Dim]:
    """Layout, channels, width and height of an image input."""
    layout, shape = layout_of(spec), spec.shape
    if layout is None or shape is None:
        raise UserError(
            f"input {spec.name!r} takes {shape_text(shape)}, which is not an image of 1 or 3 "
            "channels (NCHW or NHWC)",
            hint="give the data as .npy or .npz arrays; bind a dynamic channel axis with --shape",
        )
    channels = shape[layout.index("C")]
    assert isinstance(channels, int)
    return layout, channels, shape[layout.index("W")], shape[layout.index("H")]


def layout_of(spec: InputSpec) -> str | None:
    """NCHW, NHWC, CHW or HWC where an input's shape is that of an image of 1 or 3 channels."""
    shape = spec.shape or ()
    if len(shape) not in (3, 4):
        return None
    batch = "N" * (len(shape) - 3)
    if shape[-3] in _MODES:
        return f"{batch}CHW"
    return f"{batch}HWC" if shape[-1] in _MODES else None


def upright_size(path: Path) -> Size:
    """Width and height of an image file, upright.

    Raises:
        UserError: it is no image.
    """
    with _opened(path, repr(str(path))) as file:
        turned = file.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
        return (file.height, file.width) if turned else (file.width, file.height)


_ORIENTATION = 0x0112  # the tag of EXIF


def _open(
    image: Path | bytes | Image.Image, where: str, mode: str, note: Callable[[str], None]
) -> Image.Image:
    """The first frame of an image, upright, as RGB or L.

    Transparency is dropped; a palette or CMYK is converted by Pillow, without color management.
    """
    with _opened(image, where) as file:
        if file.mode.startswith(("I", "F")):
            raise UserError(
                f"{where} has more than 8 bits a channel (mode {file.mode})",
                hint="give such data as .npy arrays, scaled as the model takes it",
            )
        if getattr(file, "n_frames", 1) > 1:
            note(noted("left-out.frames"))
        return ImageOps.exif_transpose(file).convert(mode)


@contextlib.contextmanager
def _opened(image: Path | bytes | Image.Image, where: str) -> Iterator[Image.Image]:
    """An image file, open; what is wrong with it is the user's error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on metadata, which are not needed
            if isinstance(image, Image.Image):  # the user's, who closes it
                yield image
                return
            with Image.open(io.BytesIO(image) if isinstance(image, bytes) else image) as file:
                yield file
    except UserError:
        raise
    except UnidentifiedImageError as error:
        raise UserError(
            f"{where} is not an image that Pillow reads", hint="remove or replace the file"
        ) from error
    except Exception as error:  # decoders of damaged files raise anything
        raise UserError(f"{where} is a corrupt image: {error}", hint="remove or replace the file") from error


def _resize(image: Image.Image, size: Size, nearest: bool = False) -> Image.Image:
    """Bilinear, antialiased (as Pillow and torchvision do, and OpenCV does not); of labels the nearest."""
    how = Image.Resampling.NEAREST if nearest else Image.Resampling.BILINEAR
    return image if image.size == size else image.resize(size, how)


def _shorter(size: Size, side: int, where: str) -> Size:
    """The size with a shorter side of `side`, as torchvision's Resize rounds it."""
    short, long = min(size), max(size)
    other = int(side * long / short)
    if other > LARGEST:
        raise UserError(
            f"{where} is {shape_text(size)} (width x height): with a shorter side of {side} the other one "
            f"has {other} pixels, and {LARGEST} are the most",
            hint='remove the file, or give width and height: resize = "256x256" under [images]',
        )
    return (side, other) if size[0] <= size[1] else (other, side)


def _crop(image: Image.Image, size: Size, where: str) -> Image.Image:
    """The center, as torchvision's CenterCrop rounds it."""
    if size[0] > image.width or size[1] > image.height:
        raise UserError(
            f"{where} is {shape_text(image.size)} (width x height), smaller than the crop {shape_text(size)}",
            hint="resize it first: resize = 256 under [images] makes the shorter side 256",
        )
    left, top = round((image.width - size[0]) / 2), round((image.height - size[1]) / 2)
    return image.crop((left, top, left + size[0], top + size[1]))


def _letterboxed(size: Size, frame: tuple[Any, Any]) -> Size:
    """The size of a whole image in a frame, as Ultralytics' LetterBox rounds it."""
    ratio = min(frame[0] / size[0], frame[1] / size[1])
    return max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))


def _letterbox(image: Image.Image, frame: tuple[Any, Any], around: int | None = None) -> Image.Image:
    """The whole image in the middle of a frame of gray, or of a label."""
    size = _letterboxed(image.size, frame)
    gray = (PADDING,) * len(image.getbands())
    padded = Image.new(image.mode, frame, gray if around is None else around)
    padded.paste(
        _resize(image, size, around is not None), ((frame[0] - size[0]) // 2, (frame[1] - size[1]) // 2)
    )
    return padded


def _is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iub"
