"""Contact sheets: the first samples in one picture, as the model sees them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from onnxq.base.reason import noted
from onnxq.data.samples import Sample
from onnxq.data.survey import InputSurvey

TILES = 24
"""How many images of an input are shown at most."""

_COLUMNS, _SIDE, _GAP, _LINE = 6, 160, 8, 14
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_PAPER = "#e0e0e0"
_MARK = ("Software", "onnxq")


@dataclass(slots=True)
class _Strip:
    """The images of an input.

    Attributes:
        survey: of the input; its range is known when all samples were read.
        tiles: float32 `[height, width, channels]` of at most a tile's size, and their captions.
    """

    survey: InputSurvey
    tiles: list[tuple[np.ndarray, str]] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Adds the images of a sample."""
        array, layout = sample.feeds[self.survey.spec.name], self.survey.layout or ""
        rows = array if layout.startswith("N") else array[None]
        for row, image in enumerate(rows[: TILES - len(self.tiles)]):
            lone = len(rows) == 1
            caption = Path(sample.where).name if lone else f"sample {sample.index}, row {row}"
            self.tiles.append((_thumbnail(self._pixels(image)), caption))

    def _pixels(self, image: np.ndarray) -> np.ndarray:
        if self.survey.preparation is not None:
            return self.survey.preparation.pixels(image)
        layout = self.survey.layout or ""
        return (image.transpose(1, 2, 0) if layout.endswith("CHW") else image).astype(np.float32)

    @property
    def ends(self) -> tuple[float, float]:
        """The values that are shown as 0 and as 255."""
        survey = self.survey
        if survey.preparation is not None or survey.spec.dtype == np.uint8:
            return 0.0, 255.0
        return survey.min or 0.0, survey.max or 0.0

    @property
    def caption(self) -> str:
        """What is shown, and how values became colors."""
        survey, (low, high) = self.survey, self.ends
        if survey.preparation is not None:
            is_bgr = survey.preparation.color == "bgr"
            return noted("shown-as.bgr" if is_bgr else "shown-as.pixels", input=survey.spec.name)
        three = (survey.layout or "")[-3:] and survey.channels is not None and len(survey.channels.mean) == 3
        return noted(
            "shown-as.colors" if three else "shown-as.ends", input=survey.spec.name, low=low, high=high
        )


class ContactSheet:
    """Tiles of the inputs that are images; of each sample only those tiles are kept.

    Args:
        surveys: the inputs; those without a layout are left out.
    """

    def __init__(self, surveys: Sequence[InputSurvey]) -> None:
        self._strips = [_Strip(survey) for survey in surveys if survey.layout is not None]

    def __bool__(self) -> bool:
        return bool(self._strips)

    def add(self, sample: Sample) -> None:
        """Adds a sample, as long as there is room."""
        for strip in self._strips:
            strip.add(sample)

    @property
    def captions(self) -> list[str]:
        """What is shown of each input, and how its values became colors."""
        return [strip.caption for strip in self._strips]

    @property
    def tiles(self) -> int:
        """How many images of an input are shown."""
        return max((len(strip.tiles) for strip in self._strips), default=0)

    def png(self) -> bytes:
        """The picture, as a PNG file that `is_sheet` recognizes."""
        step = _SIDE + _GAP
        heights = [_LINE + _GAP + -(-len(s.tiles) // _COLUMNS) * (step + _LINE) for s in self._strips]
        sheet = Image.new("RGB", (_GAP + _COLUMNS * step, _GAP + sum(heights)), _PAPER)
        draw, font, top = ImageDraw.Draw(sheet), ImageFont.load_default(), _GAP
        for strip, height in zip(self._strips, heights, strict=True):
            draw.text((_GAP, top), _fitting(draw, font, strip.caption, sheet.width - 2 * _GAP), "black", font)
            for number, (tile, caption) in enumerate(strip.tiles):
                left = _GAP + number % _COLUMNS * step
                above = top + _LINE + _GAP + number // _COLUMNS * (step + _LINE)
                _paste(sheet, _shown(tile, *strip.ends), left, above)
                draw.text((left, above + _SIDE), _fitting(draw, font, caption, _SIDE), "black", font)
            top += height
        file, info = io.BytesIO(), PngImagePlugin.PngInfo()
        info.add_text(*_MARK)
        sheet.save(file, "png", pnginfo=info)
        return file.getvalue()


def is_sheet(path: Path) -> bool:
    """Whether a file is a contact sheet that onnxq wrote."""
    key, value = _MARK
    try:
        with Image.open(path, formats=["PNG"]) as image:
            return bool(image.info.get(key) == value)
    except Exception:  # a damaged file raises anything; it is not ours then
        return False


def _thumbnail(pixels: np.ndarray) -> np.ndarray:
    """`[height, width, channels]` in a tile's size: enlarged pixel by pixel, or averaged."""
    height, width = pixels.shape[:2]
    zoom = _SIDE / max(height, width)
    size = max(1, round(width * zoom)), max(1, round(height * zoom))
    how = Image.Resampling.NEAREST if zoom > 1 else Image.Resampling.BILINEAR
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)
    return np.stack([np.asarray(Image.fromarray(plane).resize(size, how)) for plane in planes], -1)


def _shown(tile: np.ndarray, low: float, high: float) -> Image.Image:
    """Values from `low` to `high` as colors."""
    span = high - low or 1.0
    pixels = np.clip(np.rint((tile - low) / span * 255), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def _paste(sheet: Image.Image, tile: Image.Image, left: int, top: int) -> None:
    """Puts a tile in the middle of its place."""
    sheet.paste(tile, (left + (_SIDE - tile.width) // 2, top + (_SIDE - tile.height) // 2))


def _fitting(draw: ImageDraw.ImageDraw, font: Font, text: str, width: int) -> str:
    """The text, as much of it as fits; what is not ASCII may not be in the font."""
    text = text.encode("ascii", "replace").decode()
    while text and draw.textlength(text, font) > width:
        text = text[:-1]
    return text
