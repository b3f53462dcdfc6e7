"""Other usual ways to prepare pictures: pixels of other values, channels in the other order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.base.catalogue import Fact
from onnxq.data.image_options import IMAGENET_MEAN, IMAGENET_STD, Preset
from onnxq.data.survey import InputSurvey
from onnxq.graph.channels import along
from onnxq.options.settings import CHANNELS

_CAFFE_MEAN = (123.68, 116.779, 103.939)  # of red, green and blue, VGG's (arXiv 1409.1556)

USUAL: Mapping[str, Preset] = {
    "pixel / 255": Preset(1 / 255),
    "pixel / 127.5 - 1": Preset(1 / 127.5, (1.0,)),
    "(pixel / 255 - mean) / std of ImageNet": Preset(1 / 255, IMAGENET_MEAN, IMAGENET_STD),
    "pixel, from 0 to 255": Preset(1.0),
    "pixel - mean of Caffe's models": Preset(1.0, _CAFFE_MEAN),
}
"""What models usually take, in words."""

_TWICE = Preset(1 / 255**2)  # nobody means this one

_SCALES = {1 / 255: "1/255", 1 / 127.5: "1/127.5", 1.0: "1"}
_NEAR = 0.1  # of the values: a preparation that differs by less is the same one
_SPANS = 0.4  # of what pixels can become, at least: photographs have black and white in them


@dataclass(frozen=True, slots=True, eq=False)
class PicturesAs:
    """What pictures would be fed as, made of what is fed: `x * factor + shift`.

    Attributes:
        what: the preparation in words, `pixel / 127.5 - 1`; "" where it is what is fed.
        hint: what the user does to have it.
        flags: flags, with their values, that do it; empty of arrays.
        factor: float32, one or one a channel, in the order that is fed.
        shift: likewise.
        reverses: whether the order of the channels is turned around then.
        swaps: whether height and width are swapped.
    """

    what: str = ""
    hint: str = ""
    flags: tuple[str, ...] = ()
    factor: np.ndarray | None = None
    shift: np.ndarray | None = None
    reverses: bool = False
    swaps: bool = False

    def of(self, fed: np.ndarray, layout: str) -> np.ndarray:
        """Pictures so prepared.

        Args:
            fed: as they are fed, in a layout.
            layout: NCHW, NHWC, CHW or HWC.

        Returns:
            An array of the same dtype; the axes of height and width swapped where it says so.
        """
        made, axis = fed, layout.index("C")
        if self.factor is not None and self.shift is not None:
            factor, shift = (along(one, axis, fed.ndim) for one in (self.factor, self.shift))
            made = (fed.astype(np.float32) * factor + shift).astype(fed.dtype)
        if self.reverses:
            made = np.flip(made, axis)
        if self.swaps:
            made = made.swapaxes(layout.index("H"), layout.index("W"))
        return np.ascontiguousarray(made)


AS_FED = PicturesAs()
"""What is fed."""


def otherwise(seen: InputSurvey) -> list[PicturesAs]:
    """The other usual preparations of an input that is fed pictures; none of what looks like none.

    Arrays are taken for pixels by the range of their values, channels for red, green and blue. Those whose
    range tells nothing are only turned around.
    """
    layout, shapes = seen.layout, list(seen.shapes)
    if layout is None or not shapes or len(shapes[0]) != len(layout):
        return []
    channels = shapes[0][layout.index("C")]
    reversed_order = channels == 3
    if channels not in CHANNELS.values():
        return []
    now = _fed_as(seen, channels)
    made = [] if now is None or seen.spec.dtype.kind in "iub" else list(_of_values(now, seen, channels))
    found = [
        PicturesAs(_words(what, order), *_done(seen, what, preset, order), *affine, reverses=order)
        for what, preset, affine in made
        for order in (False, True)[: 1 + reversed_order]
    ]
    if reversed_order:
        found.append(PicturesAs(_words("", True), *_done(seen, "", None, True), reverses=True))
    if channels == 1 and now is not None:
        found.append(_inverted(seen, now))
    sides = {(shape[layout.index("H")], shape[layout.index("W")]) for shape in shapes}
    if seen.preparation is None and all(high == wide for high, wide in sides):
        found.append(PicturesAs(*_of_pictures("pictures-as.swapped", axes=_axes(layout)), swaps=True))
    return found


def _fed_as(seen: InputSurvey, channels: int) -> Preset | None:
    """What pixels became before they were fed, in the order that is fed; None where that is not known."""
    made = seen.preparation
    if made is not None:
        return Preset(made.scale, made.mean, made.std)
    if seen.min is None or seen.max is None or (seen.whole and seen.max <= 1):
        return None
    for preset in (_TWICE, *USUAL.values()):
        if len(preset.mean) not in (1, channels):
            continue
        low, high = _range(preset)
        slack = 0.005 * (high - low)
        inside = seen.min >= low - slack and seen.max <= high + slack
        if inside and seen.max - seen.min >= _SPANS * (high - low):
            return preset
    return None


def _range(preset: Preset) -> tuple[float, float]:
    """The least and the greatest value that comes of pixels."""
    ends = [(end * preset.scale - np.array(preset.mean)) / np.array(preset.std) for end in (0, 255)]
    return float(np.min(ends)), float(np.max(ends))


def _of_values(
    now: Preset, seen: InputSurvey, channels: int
) -> Iterator[tuple[str, Preset, tuple[np.ndarray, np.ndarray]]]:
    """Each usual preparation that makes other values: its name, itself, what makes it of what is fed."""
    turned = seen.preparation is not None and seen.preparation.color == "bgr"
    mean, std = (np.array(one) for one in (now.mean, now.std))
    low, high = _range(now)
    for what, preset in USUAL.items():
        if len(preset.mean) not in (1, channels):
            continue
        order = slice(None, None, -1 if turned else 1)
        other_mean, other_std = (np.array(one)[order] for one in (preset.mean, preset.std))
        factor = preset.scale / now.scale * std / other_std
        shift = (mean * preset.scale / now.scale - other_mean) / other_std
        changed = np.abs([end * factor + shift - end for end in (low, high)])
        if changed.max() > _NEAR * (high - low):
            yield what, preset, (factor.astype(np.float32), shift.astype(np.float32))


def _inverted(seen: InputSurvey, now: Preset) -> PicturesAs:
    """Black as white: digits and letters are black on white, or white on black."""
    sums = np.array([sum(_range(now))], np.float32)
    code = "pictures-as.inverted" if seen.preparation is not None else "pictures-as.inverted-arrays"
    return PicturesAs(*_of_pictures(code, sums=sums[0]), factor=np.array([-1], np.float32), shift=sums)


# -- words -------------------------------------------------------------------------------------------


def _of_pictures(code: str, /, **values: object) -> tuple[str, str]:
    """A preparation in words, and what the user does to have it."""
    fact = Fact(code, values=values)
    return fact.text("notes"), fact.text("notes", "do")


def _words(what: str, reverses: bool) -> str:
    return ", ".join([what] * bool(what) + [_of_pictures("pictures-as.turned")[0]] * reverses)


def _done(seen: InputSurvey, what: str, preset: Preset | None, reverses: bool) -> tuple[str, tuple[str, ...]]:
    """What the user does to have it, and the flags that do it."""
    made = seen.preparation
    if made is None:
        axis = "x[..., ::-1]" if (seen.layout or "").endswith("C") else "x[:, ::-1]"
        raw = what == "pixel, from 0 to 255"
        values = "pixels from 0 to 255" if raw else f"{what}, of pixels from 0 to 255"
        do = [f"give the arrays as {values}"] * bool(what)
        do += [f"reverse their channels, {axis}"] * reverses
        return _of_pictures("pictures-as.arrays", how=" and ".join(do))[1], ()
    other = {"rgb": "bgr", "bgr": "rgb"}.get(made.color, made.color)
    color = other if reverses else made.color
    mean, std = (preset.mean, preset.std) if preset is not None else (made.mean, made.std)
    turned = color == "bgr" if preset is not None else reverses
    flags = ["--color", color] * reverses
    order = slice(None, None, -1 if turned else 1)
    if preset is not None:
        flags += ["--scale", _SCALES.get(preset.scale, f"{preset.scale:.8g}")]
    for name, some, fed, none in (("mean", mean, made.mean, (0.0,)), ("std", std, made.std, (1.0,))):
        if tuple(some[order]) != none or tuple(fed) != none:
            flags += [f"--{name}", _listed(some[order])]
    return _of_pictures("pictures-as.flags", flags=" ".join(flags))[1], tuple(flags)


def _axes(layout: str) -> tuple[int, int]:
    return layout.index("H"), layout.index("W")


def _listed(values: Sequence[float]) -> str:
    return ",".join(f"{value:.8g}" for value in values)
