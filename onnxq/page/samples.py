"""What the data looked like: pictures of samples as the model is fed them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.analysis.reports import number
from onnxq.data.pictures import Picture, PictureSheet
from onnxq.page.words import figure, say

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
_MOST = 16


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """A picture.

    Attributes:
        caption: which sample it is.
        width: pixels.
        height: pixels.
        source: the picture, as a `data:` address of a PNG file.
    """

    caption: str
    width: int
    height: int
    source: str


@dataclass(frozen=True, slots=True)
class SheetView:
    """Pictures of an input.

    Attributes:
        title: of what they are, and how values became colors.
        pictures: the samples.
    """

    title: str
    pictures: tuple[ShownPicture, ...]


def sheets_of(sheets: Sequence[PictureSheet]) -> tuple[SheetView, ...]:
    """The pictures of a report; what is no PNG file is left out."""
    shown = tuple(map(_sheet, sheets))
    return tuple(sheet for sheet in shown if sheet.pictures)


def _sheet(one: PictureSheet) -> SheetView:
    low, high = figure(number(one.low)), figure(number(one.high))
    code = "as-fed.colors" if one.channels == 3 else "as-fed"
    title = say(code, input=one.input, layout=one.layout, low=low, high=high)
    pictures = map(_picture, one.pictures[:_MOST])
    return SheetView(title, tuple(picture for picture in pictures if picture is not None))


def _picture(one: Picture) -> ShownPicture | None:
    caption = f"sample {one.sample}" + (f", {one.where}" if one.where else "")
    return shown(caption, one.width, one.height, one.png)


def shown(caption: str, width: int, height: int, png: str) -> ShownPicture | None:
    """A PNG file, base64, as a picture; None of what is none."""
    if not _PNG.fullmatch(png) or not width or not height:
        return None
    return ShownPicture(caption, min(width, 256), min(height, 256), f"data:image/png;base64,{png}")
