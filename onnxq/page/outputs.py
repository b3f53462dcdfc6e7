"""Outputs that are pictures: the float model's, the result's and their difference, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number
from onnxq.page.samples import ShownPicture, shown
from onnxq.page.words import counted, figure, file_name, level, percent
from onnxq.task.output_pictures import OUTPUTS, SAMPLES, OutputPictures, PictureBeside

_DRAWN = {
    "map": "a number a pixel",
    "heat": "the greatest of {} channels",
    "classes": "a color a class",
    "mask": "white where it is",
}


@dataclass(frozen=True, slots=True)
class PicturesRow:
    """A sample.

    Attributes:
        where: the sample, a file without its folder.
        off: how far the result is off in it.
        pictures: float, result, difference.
    """

    where: str
    off: str
    pictures: tuple[ShownPicture, ShownPicture, ShownPicture]


@dataclass(frozen=True, slots=True)
class PicturesView:
    """An output.

    Attributes:
        output: its name.
        title: what is drawn, and how values became colors.
        rows: the samples, the worst first.
    """

    output: str
    title: str
    rows: tuple[PicturesRow, ...]


def pictures_of(outputs: Sequence[OutputPictures]) -> tuple[PicturesView, ...]:
    """The outputs of a report that are pictures; what is no PNG file is left out."""
    views = (
        PicturesView(one.output, _title(one), tuple(filter(None, map(_row, one.pictures[:SAMPLES]))))
        for one in outputs[:OUTPUTS]
    )
    return tuple(view for view in views if view.rows)


def _title(one: OutputPictures) -> str:
    low, high, most = (number(value) for value in (one.low, one.high, one.most))
    color = (
        "red, green and blue" if one.channels == 3 else f"{one.channels} channels, a part of the picture each"
    )
    parts = [_DRAWN.get(one.kind, color).format(one.channels)]
    if low is not None and high is not None:
        parts.append(f"black is {figure(low)}, white {figure(high)}")
    if most is not None:
        parts.append(f"of the difference black is 0, white {figure(most)}")
    elif one.kind in ("classes", "mask"):
        parts.append("the difference is white where the class is another one")
    return f"{'; '.join(parts)}. The worst of {counted(one.samples, 'sample')} first; drawn as {one.why}"


def _row(one: PictureBeside) -> PicturesRow | None:
    kinds = (("float", one.reference), ("result", one.result), ("difference", one.difference))
    drawn = [shown(f"{kind}, {one.where}", one.width, one.height, png) for kind, png in kinds]
    if None in drawn:
        return None
    changed = number(one.changed)
    off = level(number(one.sqnr_db)) if changed is None else f"{percent(changed, 2)} of the pixels change"
    first, second, third = (picture for picture in drawn if picture is not None)
    return PicturesRow(file_name(one.where), off, (first, second, third))
