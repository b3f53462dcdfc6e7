"""What the user chooses about images."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onnxq.data.presets import PRESETS, Preset
from onnxq.errors import UserError, unknown_name
from onnxq.graph.types import Dim

Color = Literal["rgb", "bgr", "gray"]
Size = tuple[int, int]
"""Width and height, pixels."""

LARGEST = 32768
"""Pixels that a side may have: more are a mistake, and would take all memory."""

_GREATEST, _LEAST = 3.4028234663852886e38, 1.1754943508222875e-38  # of the normal float32

CHANNELS: dict[str, int] = {"rgb": 3, "bgr": 3, "gray": 1}


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How image files become input values.

    An image is turned as its EXIF orientation says, made RGB, BGR or gray, resized, cropped, and
    each of its values, 0 to 255, becomes `(value * scale - mean) / std`.

    Attributes:
        scale: None: 1/255 for a float input, 1 for an integer.
        mean: for all channels, or one for each in the input's order; subtracted after scaling.
        std: as `mean`; each channel is divided by it.
        color: order of the channels; None: RGB for three, gray for one.
        resize: width and height; or an int: the length of the shorter side, the other follows.
        crop: width and height of the center that is kept, after resizing.
        letterbox: keep the aspect ratio inside `resize` (None: the input's size), in the middle of
            gray 114.
        preset: a name of `onnxq.data.presets.PRESETS`.

    Without size options, an image is stretched to the input's size, and keeps its own where the
    input's is dynamic.

    Raises:
        UserError: a value makes no sense, or two exclude each other.
    """

    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    color: Color | None = None
    resize: int | Size | None = None
    crop: Size | None = None
    letterbox: bool | None = None
    preset: str | None = None

    def __post_init__(self) -> None:
        if self.preset is not None and self.preset not in PRESETS:
            raise unknown_name("preset", str(self.preset), PRESETS)
        if self.color is not None and self.color not in CHANNELS:
            raise unknown_name("color order", str(self.color), CHANNELS)
        if self.scale is not None:
            _check_numbers("scale", (self.scale,), self.scale)
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None:
                _check_numbers(name, values or None, values)
        if not (self.resize is None or _is_side(self.resize) or _is_size(self.resize)):
            raise UserError(f"resize is {self.resize!r}", hint="give (width, height) or the shorter side")
        if not (self.crop is None or _is_size(self.crop)):
            raise UserError(f"crop is {self.crop!r}", hint="give (width, height) in pixels")
        for name, sides in (("resize", self.resize), ("crop", self.crop)):
            largest = max(sides) if isinstance(sides, tuple) else sides or 0
            if largest > LARGEST:
                raise UserError(
                    f"{name} to {largest} pixels: a side has {LARGEST} at most",
                    hint="give the size that the model takes",
                )
        if self.letterbox and (self.crop is not None or _is_side(self.resize)):
            raise UserError(
                "letterbox keeps all of an image inside a width and a height: it goes with neither "
                "crop nor the resize of a shorter side",
                hint="leave one of them out",
            )

    def given(self) -> list[str]:
        """The names of those that are not None."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]

    def resolved(self, color: Color, width: Dim, height: Dim) -> ImageOptions:
        """These options, and the preset's where the user chose none.

        Args:
            color: order of the input's channels; a preset's mean and std follow it.
            width: the input's; not an int where dynamic.
            height: likewise.
        """
        if self.preset is None:
            return self
        preset = PRESETS[self.preset]
        order = slice(None, None, -1 if color == "bgr" else 1)
        values: dict[str, Any] = {"scale": preset.scale, "mean": preset.mean[order], "std": preset.std[order]}
        values |= self._sizes(preset, width, height)
        unset = {name: value for name, value in values.items() if getattr(self, name) is None}
        return dataclasses.replace(self, **unset)

    def _sizes(self, preset: Preset, width: Dim, height: Dim) -> dict[str, Any]:
        """What the preset says of sizes, where it does not exclude what the user chose."""
        if preset.letterbox and self.crop is None and not _is_side(self.resize):
            return {"letterbox": True}
        if preset.center and not self.letterbox:
            known = [side for side in (width, height) if isinstance(side, int)]
            other = max(known, default=224)
            own = tuple(side if isinstance(side, int) else other for side in (width, height))
            crop = self.crop or own
            return {"crop": crop, "resize": round(max(crop) * 256 / 224)}
        return {}


def image_options(given: ImageOptions | Mapping[str, Any] | None) -> ImageOptions | None:
    """Image options from a mapping of their names to values; lists become tuples.

    Raises:
        UserError: there is no such option, or its value makes no sense.
    """
    if given is None or isinstance(given, ImageOptions):
        return given
    known = [field.name for field in dataclasses.fields(ImageOptions)]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise unknown_name("image option", name, known)
        if name in ("mean", "std") and isinstance(value, int | float):
            value = (value,)
        values[name] = tuple(value) if isinstance(value, list) else value
    return ImageOptions(**values)


def _check_numbers(name: str, values: Any, given: Any) -> None:
    numbers = isinstance(values, tuple) and all(isinstance(v, int | float) for v in values)
    if not numbers or not all(abs(v) <= _GREATEST for v in values):
        raise UserError(
            f"{name} is {given!r}, not finite numbers in float32",
            hint="give what the model was trained with, one number for all channels or one each",
        )
    if name != "mean" and any(abs(v) < _LEAST for v in values):
        raise UserError(f"{name} is 0 in float32: {given!r}", hint="give what the model was trained with")
    if name == "std" and min(values) < 0:
        raise UserError(f"std is negative: {given!r}", hint="give what the model was trained with")


def _is_side(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_size(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_side, value))
