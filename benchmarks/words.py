"""How many words are read alike in int8: `python -m benchmarks.words MODEL [--splits 3] [--judges 200]`.

MODEL is a recognizer of PP-OCR that holds its characters: `models/PP-OCRv6_rec_small.onnx` in the wheel of
`rapidocr` (PyPI). Lines are rendered of made-up words and numbers, tilted, blurred and noisy; each split
calibrates on 64 of them and judges on others. A line is read greedily, as CTC does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFilter, ImageFont

import onnxq
from benchmarks.repair.printing import table
from onnxq.run import ort

CALIBRATING = 64
HEIGHT, WIDTH = 48, 320
FONTS = ("DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf", "DejaVuSans-Bold.ttf")
SYLLABLES = (
    "ba", "ce", "di", "fo", "gu", "hel", "in", "jor", "ka", "lem", "mon", "nu", "or", "pra", "qui", "res",
    "sta", "ti", "un", "ver", "wo", "xe", "yl", "zan", "the", "ing", "ion", "er",
)  # fmt: skip

Line = tuple[str, np.ndarray]


def main() -> int:
    given = _arguments()
    session = ort.load(given.model)
    characters = _characters(given.model)
    rows = []
    for split in range(given.splits):
        drawn = list(lines(split, CALIBRATING + given.judges))
        fed = [{session.inputs[0]: image} for _, image in drawn]
        options = {} if given.repair is None else {"repair": given.repair}
        made = onnxq.quantize(given.model, fed[:CALIBRATING], compile=False, layer_samples=0, **options)
        int8 = ort.load(made.model)
        read = [
            [_read(one.run(feeds)[0], characters) for feeds in fed[CALIBRATING:]] for one in (session, int8)
        ]
        truth = [text for text, _ in drawn[CALIBRATING:]]
        alike = sum(a == b for a, b in zip(*read, strict=True))
        right = [f"{100 * _words_right(truth, one):.1f}" for one in read]
        rows.append((str(split), str(len(truth)), *right, f"{100 * alike / len(truth):.1f}"))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    table(("split", "lines", "words right, float %", "int8 %", "lines read alike %"), rows)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.words")
    parser.add_argument("model", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--judges", type=int, default=200, help="lines that judge a split")
    parser.add_argument("--repair", default=None, help="as of onnxq quantize")
    return parser.parse_args()


def lines(seed: int, count: int) -> Iterator[Line]:
    """Texts, and their pictures: float32 [1, 3, 48, 320], -1 to 1."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        text = " ".join(_word(random) for _ in range(random.integers(1, 4)))
        yield text, _picture(text, random)


def _word(random: np.random.Generator) -> str:
    if random.random() < 0.25:
        return str(random.integers(10, 99999))
    word = "".join(random.choice(SYLLABLES, random.integers(1, 4)))
    return word.capitalize() if random.random() < 0.4 else word


def _picture(text: str, random: np.random.Generator) -> np.ndarray:
    font = _font(str(random.choice(FONTS)), int(random.integers(24, 34)))
    left, top, right, bottom = font.getbbox(text)
    dark, light = int(random.integers(0, 90)), int(random.integers(170, 256))
    ink, paper = (dark, light) if random.random() < 0.8 else (light, dark)
    size = int(right - left) + 16, int(bottom - top) + 14
    image = Image.new("L", size, paper)
    ImageDraw.Draw(image).text((8 - left, 7 - top), text, fill=ink, font=font)
    image = image.rotate(random.uniform(-2, 2), resample=Image.Resampling.BICUBIC, fillcolor=paper)
    image = image.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.2)))
    width = min(WIDTH, max(16, round(image.width * HEIGHT / image.height)))
    values = np.asarray(image.resize((width, HEIGHT)), np.float32)
    values = np.clip(values + random.normal(0, random.uniform(0, 12), values.shape), 0, 255) / 127.5 - 1
    fed = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)  # PP-OCR pads with zeros
    fed[..., :width] = values
    return fed


def _font(name: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    try:
        return ImageFont.truetype(name, size)
    except OSError:  # the one that comes with Pillow
        return ImageFont.load_default(size)


def _characters(path: Path) -> list[str]:
    """Of each class: none first, and the space last."""
    held = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    return ["", *held["character"].splitlines(), " "]


def _read(scores: np.ndarray, characters: Sequence[str]) -> str:
    best = scores[0].argmax(-1)
    kept = best[np.insert(best[1:] != best[:-1], 0, True)]
    return "".join(characters[place] for place in kept if place < len(characters))


def _words_right(truth: Sequence[str], read: Sequence[str]) -> float:
    words = [(wanted.split(), given.split()) for wanted, given in zip(truth, read, strict=True)]
    right = sum(sum(a == b for a, b in zip(*pair, strict=False)) for pair in words)
    return right / sum(len(wanted) for wanted, _ in words)


if __name__ == "__main__":
    sys.exit(main())
