"""What MediaPipe's package holds: its nets, and where in photographs these are fed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.packages import boxes, convert, detectors, fetch, photographs
from benchmarks.packages.running import Runner

PACKAGE, LICENCE = "mediapipe==0.10.14", "Apache-2.0"

_WHEEL = ("--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux_2_17_x86_64")
_PALM_SIDE = 192
_LEAST_SIDE = 48  # pixels of what is worth a look
_CERTAIN = 0.6


def model(name: str) -> Path:
    """A net by its path in the package's modules, as ONNX."""
    return convert.of_tflite(fetch.from_pypi(PACKAGE, f"mediapipe/modules/{name}.tflite", _WHEEL))


class Part(NamedTuple):
    """A square of a photograph: its middle and side in pixels, and by which angle it is turned, radians."""

    photograph: str
    x: float
    y: float
    side: float
    angle: float = 0

    def pixels(self, size: int) -> np.ndarray:
        """It, RGB from 0 to 1, float32 [1, size, size, 3]."""
        image = photographs.opened(Path(self.photograph))
        shown = photographs.part(image, self.x, self.y, self.side, self.angle, size)
        return (shown.astype(np.float32) / 255)[None]


def _remembered(find: Callable[[], Iterator[Part]]) -> Callable[[], list[Part]]:
    """What was found once is not looked for again."""

    @functools.cache
    def remembered() -> list[Part]:
        path = fetch.folder_of(PACKAGE) / f"{find.__name__}.json"
        if not path.is_file():
            path.write_text(json.dumps(list(find())), "utf-8")
        return [Part(*row) for row in json.loads(path.read_text("utf-8"))]

    return remembered


def _searched() -> tuple[Path, ...]:
    """The photographs in which faces and hands are looked for: with people, and some of the others."""
    return (*photographs.with_people(), *photographs.imagenet()[::6])


@_remembered
def faces() -> Iterator[Part]:
    """Faces that centerface finds, with half of their sides around them."""
    find = Runner(detectors.centerface_model())
    for path in _searched():
        image = photographs.opened(path)
        pixels, scale = photographs.letterboxed(image, 640, 480, 0)
        found = detectors.centered_faces(find({"input.1": photographs.planes(pixels)}), _CERTAIN)
        for left, top, right, bottom in found[:, :4] / scale:
            side = max(right - left, bottom - top)
            if side >= _LEAST_SIDE:
                yield Part(str(path), (left + right) / 2, (top + bottom) / 2, 1.5 * side)


@_remembered
def people() -> Iterator[Part]:
    """Persons that are labelled, a quarter of their longer sides around them."""
    for path in photographs.labelled():
        image = photographs.opened(path)
        sides = np.array([image.width, image.height] * 2)
        for number, *box in photographs.objects(path):
            x, y, width, height = box * sides
            if number == 0 and max(width, height) >= 2 * _LEAST_SIDE:
                yield Part(str(path), x, y, 1.25 * max(width, height))


@_remembered
def hands() -> Iterator[Part]:
    """Hands that the palm detector finds in photographs and around persons, their fingers upwards."""
    find, anchors = Runner(model("palm_detection/palm_detection_full")), _anchors()
    for path in _searched():
        image = photographs.opened(path)
        whole = Part(str(path), image.width / 2, image.height / 2, max(image.size))
        found = dict[tuple[int, int], Part]()
        for part in (whole, *(one for one in people() if one.photograph == str(path))):
            (rows, scores) = find({"input_1": part.pixels(_PALM_SIDE)}).values()
            for hand in _hands_in(part, rows[0], scores[0, :, 0], anchors):
                found.setdefault((round(hand.x / hand.side), round(hand.y / hand.side)), hand)
        yield from found.values()


def _anchors() -> np.ndarray:
    """The middles of the palm detector's anchors, as shares of its side, [anchors, 2]."""
    maps = []
    for count, each in ((24, 2), (12, 6)):
        down, along = np.divmod(np.arange(count * count), count)
        maps.append(np.repeat((np.column_stack([along, down]) + 0.5) / count, each, axis=0))
    return np.concatenate(maps)


def _hands_in(part: Part, rows: np.ndarray, scores: np.ndarray, anchors: np.ndarray) -> Iterator[Part]:
    """The hands of palms that are found in a part: rows are x, y, width, height and seven points."""
    certain = 1 / (1 + np.exp(-scores.astype(np.float64).clip(-50, 50)))
    points = rows.reshape(len(rows), 9, 2).astype(np.float64) / _PALM_SIDE
    points[:, [0, 2, 3, 4, 5, 6, 7, 8]] += anchors[:, None]
    box = boxes.cornered(points[:, :2].reshape(-1, 4))
    numbers = boxes.suppressed(box, certain, np.arange(len(rows)) * 0, _CERTAIN, 0.3)
    for row in numbers:
        place = int(np.flatnonzero((box[:, 0] == row[0]) & (certain == row[4]))[0])
        corner = np.array([part.x, part.y]) - part.side / 2
        middle, size = corner + points[place, 0] * part.side, points[place, 1].max() * part.side
        wrist, finger = points[place, 2], points[place, 4]
        angle = float(np.arctan2(finger[0] - wrist[0], wrist[1] - finger[1]))
        if 2.6 * size < _LEAST_SIDE:
            continue
        x, y = middle + 0.5 * size * np.array([np.sin(angle), -np.cos(angle)])
        yield Part(part.photograph, float(x), float(y), float(2.6 * size), angle)
