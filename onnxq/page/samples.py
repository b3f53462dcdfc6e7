"""What the data looked like: pictures of samples as the model is fed them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.reports import OpenedReport, number, text
from onnxq.page.words import figure

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


def sheets_of(report: OpenedReport) -> tuple[SheetView, ...]:
    """The pictures of a report; what is no PNG file is left out."""
    found = tuple(map(_sheet, report.entries("pictures")))
    return tuple(sheet for sheet in found if sheet.pictures)


def _sheet(one: Mapping[str, Any]) -> SheetView:
    low, high = (figure(number(one.get(key))) for key in ("low", "high"))
    color = "channels as red, green and blue in the order in which they are fed"
    shown = f"{color}; " if number(one.get("channels")) == 3 else ""
    ends = f"{shown}black is {low}, white {high}"
    title = f"{text(one.get('input'))}, as it is fed ({text(one.get('layout'))}; {ends})"
    listed = one.get("pictures")
    entries = listed[:_MOST] if isinstance(listed, list) else []
    pictures = [_picture(entry) for entry in entries if isinstance(entry, Mapping)]
    return SheetView(title, tuple(picture for picture in pictures if picture is not None))


def _picture(one: Mapping[str, Any]) -> ShownPicture | None:
    png, width, height = one.get("png"), number(one.get("width")), number(one.get("height"))
    if not isinstance(png, str) or not _PNG.fullmatch(png) or not width or not height:
        return None
    where = text(one.get("where"))
    caption = f"sample {text(one.get('sample'))}" + (f", {where}" if where else "")
    return ShownPicture(caption, int(min(width, 256)), int(min(height, 256)), f"data:image/png;base64,{png}")
