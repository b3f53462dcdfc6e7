"""Presets: how well-known families of models take their images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
