"""The sizes of the nets' inputs."""

from __future__ import annotations

_FULL = {
    "resnet18": 224, "mobilenet_v2": 224, "mobilenet_v3": 224, "efficientnet_b0": 224, "yolov8n": 640,
    "vit_s16": 224, "bert": 128,
}  # fmt: skip

# The last stage of a convolutional net still has 4 x 4 positions: int8 gains nothing with less.
_SMALL = {
    "resnet18": 128, "mobilenet_v2": 128, "mobilenet_v3": 128, "efficientnet_b0": 128, "yolov8n": 128,
    "vit_s16": 64, "bert": 32,
}  # fmt: skip


def size_of(net: str, *, small: bool) -> int:
    """Height and width of a net's images, or how many tokens it is given."""
    return (_SMALL if small else _FULL)[net]


def classes(*, small: bool) -> int:
    """How many classes the classifiers tell apart."""
    return 100 if small else 1000


def words(*, small: bool) -> int:
    """How many tokens the language model knows."""
    return 1_000 if small else 30_522
