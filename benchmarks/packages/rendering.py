"""Texts, and pictures of them: drawn with the font that Pillow has in itself, so that all see the same."""

from __future__ import annotations

import functools
import importlib
import inspect
import re

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_MODULES = (
    "argparse", "asyncio", "collections", "csv", "datetime", "decimal", "difflib", "email", "fractions",
    "functools", "gettext", "heapq", "html", "http.client", "inspect", "itertools", "json", "logging",
    "math", "multiprocessing", "optparse", "os", "pathlib", "pickle", "random", "re", "shutil",
    "socket", "sqlite3", "statistics", "string", "subprocess", "tarfile", "textwrap", "threading",
    "time", "typing", "unittest", "urllib.parse", "urllib.request", "uuid", "zipfile",
)  # fmt: skip


@functools.cache
def sentences() -> tuple[str, ...]:
    """Sentences of the documentation of Python's own modules, their order random."""
    found = dict[str, None]()
    for name in _MODULES:
        module = importlib.import_module(name)
        for member in (module, *(getattr(module, one) for one in sorted(vars(module)))):
            text = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
            for sentence in re.split(r"(?<=[.!?])\s+", text):
                if 5 <= len(sentence.split()) <= 24 and sentence.isascii():
                    found[sentence] = None
    order = np.random.default_rng(0).permutation(len(found))
    return tuple(np.array(list(found))[order].tolist())


def line(number: int) -> str:
    """A few words of a sentence, or a number."""
    random = np.random.default_rng(number)
    if random.random() < 0.2:
        return f"{random.integers(10, 99999)}-{random.integers(100, 9999)}.{random.integers(10, 99)}"
    words = sentences()[number % len(sentences())].split()
    start = int(random.integers(max(1, len(words) - 3)))
    return " ".join(words[start : start + int(random.integers(1, 5))])[:32]


def drawn(text: str, random: np.random.Generator, height: int) -> Image.Image:
    """A line of text on a plain ground, RGB: of a random size, colours, slant, sharpness and noise."""
    font = ImageFont.load_default(size=int(height * random.uniform(0.55, 0.8)))
    box = font.getbbox(text)
    width = int(box[2] - box[0]) + height // 2
    ground, ink = _colours(random)
    image = Image.new("RGB", (width, height), ground)
    place = (height // 4 - box[0], (height - (box[3] - box[1])) // 2 - box[1])
    ImageDraw.Draw(image).text(place, text, ink, font=font)
    image = image.rotate(random.uniform(-1.5, 1.5), Image.Resampling.BILINEAR, fillcolor=ground)
    image = image.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.2)))
    pixels = np.asarray(image, np.float64) + random.normal(0, random.uniform(0, 14), (height, width, 1))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _colours(random: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the ground and of the ink: one of them is lighter by at least 60."""
    dark = random.integers(0, 120, 3)
    light = dark + random.integers(60, 135, 3)
    pair = tuple(map(int, light)), tuple(map(int, dark))
    return pair if random.random() < 0.7 else pair[::-1]
