"""How images become inputs, in words: what was stated, then what was assumed, and what flags state it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxq.base.grouped import grouped
from onnxq.base.shown import assumed
from onnxq.data.image_options import PRESETS
from onnxq.data.understood import ImagesRead

_SIZE = ("resize", "crop", "letterbox")
_VALUES = ("preset", "scale", "mean", "std")


def fed_lines(
    images: Sequence[ImagesRead], given: Mapping[str, object] | None = None, *, full: bool = True
) -> list[str]:
    """What the inputs are fed, those that are fed alike in one line.

    Args:
        images: how images become each input.
        given: the options that were given; None: that is not known, and nothing is told to be assumed.
        full: whether the type and what is done to each pixel are said.
    """
    lines = grouped((_words(image, given, full=full), image.input) for image in images)
    return [
        f"{', '.join(inputs)} {'is' if len(inputs) == 1 else 'are'} fed {words}"
        for words, inputs in lines.items()
    ]


def assumed_lines(images: Sequence[ImagesRead], given: Mapping[str, object]) -> list[str]:
    """What nobody stated of them, for those who do not see the options: readers of statistics, say."""
    each = [(image.input, _assumed(image, given, full=False)) for image in images]
    return [f"{input}: {said}" for input, said in each if said]


def _words(image: ImagesRead, given: Mapping[str, object] | None, *, full: bool) -> str:
    flags = {} if given is None else _flags(image, given)
    stated = ", ".join(text for what, text in _parts(image, full=full).items() if what not in flags)
    return "; ".join(filter(None, (stated, _assumed(image, given or {}, full=full) if flags else "")))


def _parts(image: ImagesRead, *, full: bool) -> dict[str, str]:
    low, high = image.range
    values = f"{low:.4g} to {high:.4g}"
    return {
        "color": f"{image.layout} {image.color}", "size": image.size,
        "values": f"{image.dtype} from {values}: {_made(image)}" if full else values,
    }  # fmt: skip


def _assumed(image: ImagesRead, given: Mapping[str, object], *, full: bool) -> str:
    """What no option states, with what does; "" where all is stated."""
    flags = _flags(image, given)
    parts = ", ".join(text for what, text in _parts(image, full=full).items() if what in flags)
    return f"{parts} {assumed(', '.join(flags.values()))}" if flags else ""


def _flags(image: ImagesRead, given: Mapping[str, object]) -> dict[str, str]:
    """What states that which no option does; one channel has no order, and integers are the pixels."""
    preset = PRESETS.get(image.preset or "")
    flags = {}
    if image.color != "gray" and "color" not in given:
        flags["color"] = "--color"
    if given.keys().isdisjoint(_SIZE) and not (preset and (preset.center or preset.letterbox)):
        flags["size"] = "resize or letterbox"
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
