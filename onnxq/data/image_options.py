"""How images are taken: what presets make of options that the user left open."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.base.errors import UserError
from onnxq.graph.types import Dim
from onnxq.options.grouped import image_options
from onnxq.options.settings import Color, ImageOptions, is_side


@dataclass(frozen=True, slots=True)
class Preset:
    """What a family of models does to images; options that the user gives win over it.

    Attributes:
        scale: factor of the values from 0 to 255.
        mean: subtracted after scaling, for all channels or for red, green and blue.
        std: as `mean`; each channel is divided by it.
        center: cut out the center of the input's size, 224x224 where that is dynamic, after the
            shorter side became 256/224 of it.
        letterbox: keep the aspect ratio inside the input's size.
    """

    scale: float
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    center: bool = False
    letterbox: bool = False

    @property
    def for_integers(self) -> bool:
        """Whether values stay pixels from 0 to 255."""
        return self.scale == 1 and not any(self.mean) and set(self.std) == {1.0}


IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Of the channels red, green and blue of ImageNet's training images, from 0 to 1 (torchvision)."""

IMAGENET_STD = (0.229, 0.224, 0.225)

PRESETS: Mapping[str, Preset] = {
    "imagenet": Preset(1 / 255, IMAGENET_MEAN, IMAGENET_STD, center=True),
    "yolo": Preset(1 / 255, letterbox=True),
    "tensorflow": Preset(1 / 127.5, (1.0,)),
    "raw": Preset(1.0),
}
"""By name. `imagenet` is torchvision's evaluation, `yolo` Ultralytics', `tensorflow` Keras' mode `tf`."""


__all__ = ["ImageOptions", "image_options", "refuse", "resolved"]


def resolved(options: ImageOptions, color: Color, width: Dim, height: Dim) -> ImageOptions:
    """The options, and the preset's where the user chose none.

    Args:
        options: the user's.
        color: order of the input's channels; a preset's mean and std follow it.
        width: the input's; not an int where dynamic.
        height: likewise.
    """
    if options.preset is None:
        return options
    preset = PRESETS[options.preset]
    order = slice(None, None, -1 if color == "bgr" else 1)
    values: dict[str, Any] = {"scale": preset.scale, "mean": preset.mean[order], "std": preset.std[order]}
    values |= _sizes(options, preset, width, height)
    unset = {name: value for name, value in values.items() if getattr(options, name) is None}
    return dataclasses.replace(options, **unset)


def _sizes(options: ImageOptions, preset: Preset, width: Dim, height: Dim) -> dict[str, Any]:
    """What the preset says of sizes, where it does not exclude what the user chose."""
    if preset.letterbox and options.crop is None and not is_side(options.resize):
        return {"letterbox": True}
    if preset.center and not options.letterbox:
        sides = [side for side in (width, height) if isinstance(side, int)]
        other = max(sides, default=224)
        own = tuple(side if isinstance(side, int) else other for side in (width, height))
        crop = options.crop or own
        return {"crop": crop, "resize": round(max(crop) * 256 / 224)}
    return {}


def refuse(options: ImageOptions, what: str) -> None:
    """Refuses image options for data that are no images.

    Raises:
        UserError: there are some.
    """
    if stated := options.given():
        raise UserError(
            f"{', '.join(stated)}: for images, but the data are arrays ({what}), which are fed as they are",
            hint="leave the image options out (a preset in onnxq.toml is one), and prepare the arrays as "
            "the model takes them",
        )
