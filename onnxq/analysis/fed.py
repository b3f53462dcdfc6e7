"""How images become inputs, in words: what was stated, then what was assumed, and what flags state it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxq.base.grouped import grouped
from onnxq.data.presets import PRESETS
from onnxq.data.understood import ImagesRead
from onnxq.documents.data import DataPlaced

_SIZE = ("resize", "crop", "letterbox")
_VALUES = ("preset", "scale", "mean", "std")


def fed_lines(
    images: Sequence[ImagesRead], place: DataPlaced | None = None, *, full: bool = True
) -> list[str]:
    """What the inputs are fed, those that are fed alike in one line.

    Args:
        images: how images become each input.
        place: knows which options were given; without it nothing is told to be assumed.
        full: whether the type and what is done to each pixel are said.
    """
    given = None if place is None else place.images
    lines = grouped((_words(image, given, full=full), image.input) for image in images)
    return [
        f"{', '.join(inputs)} {'is' if len(inputs) == 1 else 'are'} fed {words}"
        for words, inputs in lines.items()
    ]


def _words(image: ImagesRead, given: Mapping[str, object] | None, *, full: bool) -> str:
    flags = {} if given is None else _flags(image, given)
    low, high = image.range
    values = f"{low:.4g} to {high:.4g}"
    parts = {
        "color": f"{image.layout} {image.color}", "size": image.size,
        "values": f"{image.dtype} from {values}: {_made(image)}" if full else values,
    }  # fmt: skip
    stated = ", ".join(text for what, text in parts.items() if what not in flags)
    assumed = ", ".join(text for what, text in parts.items() if what in flags)
    if flags:
        assumed += f" (assumed: {', '.join(flags.values())} state{'s' * (len(flags) == 1)} it)"
    return "; ".join(filter(None, (stated, assumed)))


def _flags(image: ImagesRead, given: Mapping[str, object]) -> dict[str, str]:
    """What states that which no option does; one channel has no order, and integers are the pixels."""
    preset = PRESETS.get(image.preset or "")
    flags = {}
    if image.color != "gray" and "color" not in given:
        flags["color"] = "--color"
    if given.keys().isdisjoint(_SIZE) and not (preset and (preset.center or preset.letterbox)):
        flags["size"] = "--resize or --letterbox"
    if "int" not in image.dtype and given.keys().isdisjoint(_VALUES):
        flags["values"] = "--preset or --scale"
    return flags


def _made(image: ImagesRead) -> str:
    """What becomes of a pixel: `(pixel / 255 - 0.5) / 0.25 (preset x)`."""
    value = "pixel" if image.scale == 1 else f"pixel {_factor(image.scale)}"
    if any(image.mean):
        value = f"{value} - {_each(image.mean)}"
    if any(entry != 1 for entry in image.std):
        value = f"({value}) / {_each(image.std)}" if any(image.mean) else f"{value} / {_each(image.std)}"
    return value + (f" (preset {image.preset})" if image.preset else "")


def _factor(scale: float) -> str:
    divisor = f"{1 / scale:g}"
    return f"/ {divisor}" if abs(scale) < 1 and abs(float(divisor) * scale - 1) < 1e-9 else f"* {scale:g}"


def _each(values: Sequence[float]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"[{', '.join(f'{value:g}' for value in values)}]"
