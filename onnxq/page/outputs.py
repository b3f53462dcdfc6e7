"""Outputs that are pictures: the float model's, the result's and their difference, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number
from onnxq.page.samples import ShownPicture, shown
from onnxq.page.words import counted, figure, file_name, level, percent, say
from onnxq.task.output_pictures import OUTPUTS, SAMPLES, OutputPictures, PictureBeside

_KINDS = ("map", "heat", "classes", "mask")


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
    form = one.kind if one.kind in _KINDS else "colors" if one.channels == 3 else "channels"
    parts = [say(f"drawn.{form}", channels=one.channels)]
    if low is not None and high is not None:
        parts.append(say("drawn.ends", low=figure(low), high=figure(high)))
    if most is not None:
        parts.append(say("drawn.most", most=figure(most)))
    elif one.kind in ("classes", "mask"):
        parts.append(say("drawn.other"))
    return say("drawn", parts="; ".join(parts), samples=counted(one.samples, "sample"), why=one.why)


def _row(one: PictureBeside) -> PicturesRow | None:
    kinds = (("float", one.reference), ("result", one.result), ("difference", one.difference))
    drawn = [shown(f"{kind}, {one.where}", one.width, one.height, png) for kind, png in kinds]
    if None in drawn:
        return None
    changed = number(one.changed)
    level_of = level(number(one.sqnr_db))
    off = level_of if changed is None else say("drawn.changed", percent=percent(changed, 2))
    first, second, third = (picture for picture in drawn if picture is not None)
    return PicturesRow(file_name(one.where), off, (first, second, third))
