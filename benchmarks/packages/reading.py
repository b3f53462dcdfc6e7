"""Text in pictures: PP-OCRv6 finds and reads it, a net reads captchas."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import scipy.ndimage  # type: ignore[import-untyped]
from PIL import Image, ImageDraw, ImageFont

from benchmarks.packages import boxes, fetch, photographs, rendering
from benchmarks.packages.net import Figure, Net, Pool, Sample, fixed, share
from benchmarks.packages.running import Outputs

_RAPIDOCR, _CAPTCHA = "rapidocr==3.10.0", "captcha-whisperer==0.1.0"
_SIGNS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def nets() -> Iterator[Net]:
    """Nets that read."""
    yield Net(
        "ocr_rec", _RAPIDOCR, "Apache-2.0", "reads lines", _reader, _lines, _read, _texts_score, judges=160
    )
    yield Net(
        "ocr_det", _RAPIDOCR, "Apache-2.0", "finds lines", _finder, _pages, _found, _found_score, judges=48
    )
    yield Net("captcha", _CAPTCHA, "MIT", "reads captchas", _captcha_model, _captchas, _captcha, _texts_score)


def _texts_score(exact: Sequence[str], given: Sequence[str], truths: Sequence[str]) -> Figure:
    """Lines as the float net reads them; and characters and lines that are right."""
    same = sum(one == other for one, other in zip(exact, given, strict=True))
    letters = sum(map(len, truths))
    wrong = sum(min(_edits(one, other), len(one)) for one, other in zip(truths, given, strict=True))
    right = sum(one == other for one, other in zip(truths, given, strict=True))
    return {
        "lines as float %": share(same, len(exact)),
        "of": len(exact),
        "characters right %": share(letters - wrong, letters),
        "lines right %": share(right, len(truths)),
    }


def _edits(one: str, other: str) -> int:
    """How many letters have to be changed, added or left out to make one text of another."""
    row = list(range(len(other) + 1))
    for above, letter in enumerate(one, 1):
        corner, row[0] = row[0], above
        for place, sign in enumerate(other, 1):
            corner, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, corner + (letter != sign)),
            )
    return row[-1]


# --- a line of text ---------------------------------------------------------------------------------

_HEIGHT, _WIDTH = 48, 480


def _model_of(name: str) -> Path:
    return fetch.from_pypi(_RAPIDOCR, f"rapidocr/models/{name}.onnx")


def _reader() -> Path:
    target = fetch.folder_of(_RAPIDOCR) / "rec_fixed.onnx"
    return fixed(_model_of("PP-OCRv6_rec_small"), target, {"x": (1, 3, _HEIGHT, _WIDTH)})


@functools.cache
def _alphabet() -> tuple[str, ...]:
    """The letters of classes: the first is none, the last a blank."""
    properties = onnx.load(_model_of("PP-OCRv6_rec_small")).metadata_props
    (text,) = [one.value for one in properties if one.key == "character"]
    return ("", *text.split("\n"), " ")


def _lines() -> Pool:
    def make(number: int) -> Sample:
        text = rendering.line(number)
        image = rendering.drawn(text, np.random.default_rng(number), int(32 + number % 4 * 8))
        width = min(_WIDTH, max(1, round(image.width * _HEIGHT / image.height)))
        shown = np.asarray(image.resize((width, _HEIGHT), Image.Resampling.BILINEAR))[..., ::-1]
        filled = np.zeros((1, 3, _HEIGHT, _WIDTH), np.float32)
        filled[..., :width] = photographs.planes(shown, 127.5, 127.5)
        return Sample({"x": filled}, text)

    return Pool.of(range(400), make, str)


def _read(outputs: Outputs, _: Sample) -> str:
    (scores,) = outputs.values()
    best = scores[0].argmax(-1)
    first = np.flatnonzero(np.r_[True, best[1:] != best[:-1]])
    return "".join(_alphabet()[place] for place in best[first]).strip()


# --- text in photographs ----------------------------------------------------------------------------

_PAGE = 640, 480


def _finder() -> Path:
    target = fetch.folder_of(_RAPIDOCR) / "det_fixed.onnx"
    return fixed(_model_of("PP-OCRv6_det_small"), target, {"x": (1, 3, _PAGE[1], _PAGE[0])})


def _pages() -> Pool:
    """Photographs on which lines of text are pasted."""

    def make(path: Path) -> Sample:
        random = np.random.default_rng(int(path.stem))
        page = photographs.opened(path).resize(_PAGE)
        for place in range(int(random.integers(3, 8))):
            line = rendering.drawn(
                rendering.line(int(random.integers(10**6))), random, int(random.integers(18, 48))
            )
            left = int(random.integers(max(1, _PAGE[0] - line.width)))
            page.paste(line, (left, place * 60 + int(random.integers(60 - line.height + 1))))
        return Sample({"x": photographs.planes(np.asarray(page)[..., ::-1], 127.5, 127.5)})

    return Pool.of(photographs.labelled(), make, str)


def _found(outputs: Outputs, _: Sample) -> np.ndarray:
    (sure,) = outputs.values()
    return np.asarray(sure[0, 0] >= 0.3)


def _found_score(exact: Sequence[np.ndarray], given: Sequence[np.ndarray], _: Sequence[Any]) -> Figure:
    pairs = list(zip(exact, given, strict=True))
    same, either = (sum(int(each(*pair).sum()) for pair in pairs) for each in (np.logical_and, np.logical_or))
    lines = boxes.kept([_regions(one) for one in exact], [_regions(one) for one in given], 0)
    return {**lines, "IoU to float %": share(same, either)}


def _regions(mask: np.ndarray) -> boxes.Found:
    """The boxes of what hangs together in a mask."""
    found = scipy.ndimage.find_objects(scipy.ndimage.label(mask)[0])
    corners = [(x.start, y.start, x.stop, y.stop, 1.0, 0.0) for y, x in found]
    return np.array([row for row in corners if min(row[2] - row[0], row[3] - row[1]) >= 3], float).reshape(
        -1, 6
    )


# --- captchas ---------------------------------------------------------------------------------------


def _captcha_model() -> Path:
    source = fetch.from_pypi(_CAPTCHA, "captcha_whisperer/models/captcha_crnn.onnx")
    return fixed(source, fetch.folder_of(_CAPTCHA) / "captcha_fixed.onnx", {"image": (1, 3, 60, 160)})


def _captchas() -> Pool:
    """Four or five turned signs with lines and points over them."""

    def make(number: int) -> Sample:
        random = np.random.default_rng(number)
        text = "".join(random.choice(list(_SIGNS), int(random.integers(4, 6))))
        image = Image.new("RGB", (160, 60), tuple(map(int, random.integers(200, 256, 3))))
        ink = tuple(map(int, random.integers(10, 160, 3)))
        for place, sign in enumerate(text):
            letter = Image.new("L", (44, 56))
            font = ImageFont.load_default(size=int(random.integers(34, 46)))
            ImageDraw.Draw(letter).text((8, 2), sign, 255, font=font)
            letter = letter.rotate(random.uniform(-25, 25), Image.Resampling.BILINEAR)
            image.paste(ink, (2 + place * 150 // len(text), int(random.integers(0, 5))), letter)
        draw = ImageDraw.Draw(image)
        draw.line([(0, int(random.integers(60))), (160, int(random.integers(60)))], ink, 2)
        draw.point([(int(x), int(y)) for x, y in random.integers(0, (160, 60), (60, 2))], ink)
        return Sample({"image": photographs.planes(np.asarray(image)[..., ::-1])}, text)

    return Pool.of(range(400), make, str)


def _captcha(outputs: Outputs, _: Sample) -> str:
    """Of each of 20 steps the best sign, the last is none; the one of the class 0 is never meant."""
    best = outputs["logits"][:, 0, 1:].argmax(-1)
    first = np.flatnonzero(np.r_[True, best[1:] != best[:-1]])
    return "".join(_SIGNS[place] for place in best[first] if place < len(_SIGNS))
