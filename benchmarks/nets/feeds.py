"""What the nets are fed: images and texts with the statistics of real ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from benchmarks.nets.sizes import size_of, words

Feeds = dict[str, np.ndarray]

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, RGB
_OBJECTS = 24
_PIXELS = 2**18
_FIRST, _LAST = 1, 2  # the tokens around a text; 0 fills it up


def feeds(net: str, seed: int, count: int, *, small: bool = False) -> Iterator[Feeds]:
    """Samples for a net, one by one.

    Args:
        net: its name in `benchmarks.nets.NETS`.
        seed: what they are drawn from.
        count: how many; the first ones of a seed are the same for each number.
        small: whether they are for the small net.

    Yields:
        `x`, float32 [1, 3, size, size]: an image, normalized as ImageNet's are, from 0 to 1 for
        YOLO; or `input_ids` and `attention_mask`, int64 [1, tokens].
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield _sample(net, random, size_of(net, small=small), small)


def batch(net: str, size: int, *, small: bool) -> Feeds:
    """Samples of any size along the first axis, none of which `feeds` yields: the more, the smaller."""
    random = np.random.default_rng([0, 1])
    count = min(max(2, _PIXELS // size**2), 16)
    rows = [_sample(net, random, size, small) for _ in range(count)]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def _sample(net: str, random: np.random.Generator, size: int, small: bool) -> Feeds:
    if net == "bert":
        return text(random, size, words(small=small))
    pixels = image(random, size)
    if net != "yolov8n":
        pixels = (pixels - np.reshape(_MEAN, (3, 1, 1))) / np.reshape(_STD, (3, 1, 1))
    return {"x": pixels.astype(np.float32)[None]}


def image(random: np.random.Generator, size: int) -> np.ndarray:
    """Objects in front of one another, with shades and texture, as a camera exposes them.

    The amplitudes of the spectrum fall as 1/f, those of the edges and those of the fields inside
    them (Ruderman 1997, Lee et al. 2001); the colors of a pixel are alike.

    Returns:
        float64 [3, size, size], multiples of 1/255 from 0 to 1.
    """
    texture = _texture(random, size)
    pixels = _color(random) + texture
    for _ in range(_OBJECTS):
        rows, columns, inside = _object(random, size)
        shade = texture[:, (rows + random.integers(size)) % size, (columns + random.integers(size)) % size]
        window = pixels[:, rows[0, 0] : rows[-1, 0] + 1, columns[0, 0] : columns[0, -1] + 1]
        np.copyto(window, _color(random) + 0.3 * shade, where=inside)
    exposed = random.uniform(0.6, 1.4) * pixels + 0.02 * random.standard_normal(pixels.shape)
    return np.asarray(np.clip(np.round(255 * exposed), 0, 255) / 255)


def _object(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A disc or a turned rectangle: the rows [R, 1] and columns [1, C] around it, and where it is, [R, C]."""
    radius = min(0.04 * random.uniform(0.1, 1.0) ** -0.8, 0.5) * size  # many are small, few are large
    long, angle = random.uniform(0.3, 2) * radius, random.uniform(0, np.pi)
    middle, reach = random.integers(size, size=2), math.ceil(math.hypot(radius, long))
    (top, left), (bottom, right) = np.maximum(middle - reach, 0), np.minimum(middle + reach + 1, size)
    rows, columns = np.arange(top, bottom)[:, None], np.arange(left, right)[None]
    dy, dx = rows - middle[0], columns - middle[1]
    if random.uniform() < 0.5:
        return rows, columns, dy**2 + dx**2 < radius**2
    across, along = np.sin(angle) * dy + np.cos(angle) * dx, np.cos(angle) * dy - np.sin(angle) * dx
    return rows, columns, (np.abs(across) < radius) & (np.abs(along) < long)


def _color(random: np.random.Generator) -> np.ndarray:
    """A color, [3, 1, 1]: mostly gray."""
    return np.asarray(random.uniform(0.1, 0.9) + 0.1 * random.standard_normal((3, 1, 1)))


def _texture(random: np.random.Generator, size: int) -> np.ndarray:
    """A smooth random field for each color, [3, size, size], of standard deviation 0.15."""
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size))
    frequency[0, 0] = np.inf  # no mean
    noise = np.fft.rfft2(random.standard_normal((4, size, size))) / frequency
    fields = np.fft.irfft2(noise, (size, size))
    fields = fields[0] + 0.3 * fields[1:]
    return np.asarray(0.15 * fields / fields.std())


def text(random: np.random.Generator, tokens: int, words: int) -> Feeds:
    """A text of some length, filled up; its words are as frequent as Zipf's law says (Mandelbrot 1953).

    Returns:
        `input_ids` and `attention_mask`, 0 where it is filled up: int64 [1, tokens].
    """
    length = int(random.integers(tokens // 4, tokens + 1))
    ranks = np.arange(words - 3)
    chance = 1 / (ranks + 2.7)
    ids = np.zeros((1, tokens), np.int64)
    ids[0, 0], ids[0, length - 1] = _FIRST, _LAST
    ids[0, 1 : length - 1] = 3 + random.choice(ranks, length - 2, p=chance / chance.sum())
    return {"input_ids": ids, "attention_mask": (np.arange(tokens) < length).astype(np.int64)[None]}
