"""The user's labels: what is right for a sample: class folders, lists, COCO's JSON, YOLO's texts, masks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onnxq.base import door
from onnxq.base.errors import UserError
from onnxq.base.json_file import read_json
from onnxq.data.fed_sample import FedSample
from onnxq.data.images import upright_size
from onnxq.task.layout import Boxes, Classes, Layout, PixelClasses
from onnxq.task.precision import BoxesThere

IGNORED = 255
"""The value of a mask's pixels that are of no class."""

Label = int | BoxesThere | np.ndarray


class Labels(ABC):
    """What is right, by the file that a sample is of."""

    @abstractmethod
    def of(self, fed: FedSample) -> Label | None:
        """That of a sample; None: it has no label.

        Raises:
            UserError: its label cannot be read.
        """


def read_labels(path: str | os.PathLike[str], layout: Layout) -> Labels:
    """The labels of a task.

    Args:
        path: of classes the folder of a folder for each, or a list, `FILE CLASS` a line; of boxes COCO's
            JSON, or a folder of YOLO's texts; of masks a folder of PNG files.
        layout: how outputs are read, which tells the task.

    Raises:
        UserError: they cannot be read, or there are none for such a task.
    """
    place = Path(path)
    if not os.path.exists(place):
        raise UserError(f"--labels {str(place)!r}: there is no such file or folder", hint="check the path")
    match layout:
        case Classes():
            return _Folders(place) if os.path.isdir(place) else _List(place)
        case Boxes():
            return _YoloTexts(place) if os.path.isdir(place) else _Coco(place)
        case PixelClasses() if os.path.isdir(place):
            return _MaskFiles(place)
    raise UserError(
        f"--labels {str(place)!r}: there are labels of classes, boxes and masks, and of nothing else",
        hint="score the model by a function of your own: --eval FILE.py:FUNCTION",
    )


# -- classes -----------------------------------------------------------------------------------


class _Folders(Labels):
    """A folder a class: named by its number, else they are numbered in the order of their names."""

    def __init__(self, path: Path) -> None:
        names = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
        if not names:
            raise UserError(
                f"--labels {str(path)!r}: it has no folders of classes",
                hint="give the folder that holds them",
            )
        numbers = all(name.isdecimal() for name in names)
        self._path = path.resolve()
        self._classes = {name: int(name) if numbers else place for place, name in enumerate(names)}

    def of(self, fed: FedSample) -> int | None:
        file = Path(fed.where).resolve()
        if not file.is_relative_to(self._path):
            return None
        return self._classes.get(file.relative_to(self._path).parts[0])


class _List(Labels):
    """`FILE CLASS` a line, the class a number."""

    def __init__(self, path: Path) -> None:
        self._classes: dict[str, int] = {}
        for number, line in enumerate(_text(path).splitlines(), 1):
            name, _, label = line.replace(",", " ").strip().rpartition(" ")
            if not line.strip():
                continue
            if not name or not label.isdecimal():
                raise UserError(
                    f"{str(path)!r}, line {number}: {line.strip()[:60]!r} is no file and number of a class",
                    hint="write a line as in: images/0001.jpg 207",
                )
            _once(self._classes, Path(name.strip()).name, int(label), path)

    def of(self, fed: FedSample) -> int | None:
        return self._classes.get(Path(fed.where).name)


# -- boxes -------------------------------------------------------------------------------------


_COCO = 'it has "images", "annotations" with "bbox", and "categories"'


class _Coco(Labels):
    """COCO's JSON of instances: classes are the categories, in the order of their numbers."""

    def __init__(self, path: Path) -> None:
        document = read_json(path, "COCO JSON", _COCO)
        try:
            self._read(document, path)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{str(path)!r} is no COCO JSON: {type(error).__name__} {error}",
                hint=_COCO,
            ) from error

    def _read(self, document: Any, path: Path) -> None:
        numbers = sorted(one["id"] for one in document["categories"])
        places = {number: place for place, number in enumerate(numbers)}
        rows: dict[int, list[tuple[list[float], int, bool]]] = {one["id"]: [] for one in document["images"]}
        for one in document["annotations"]:
            x, y, width, height = map(float, one["bbox"])
            corners = [x, y, x + width, y + height]
            rows[one["image_id"]].append((corners, places[one["category_id"]], bool(one.get("iscrowd"))))
        self._truths: dict[str, BoxesThere] = {}
        for image in document["images"]:
            some = rows[image["id"]]
            truth = BoxesThere(
                np.array([corners for corners, _, _ in some], np.float64).reshape(-1, 4),
                np.array([label for _, label, _ in some], int),
                np.array([crowd for _, _, crowd in some], bool),
            )
            _once(self._truths, Path(image["file_name"]).name, truth, path)

    def of(self, fed: FedSample) -> BoxesThere | None:
        truth = self._truths.get(Path(fed.where).name)
        return None if truth is None else _placed(truth, fed, shares=False)


class _YoloTexts(Labels):
    """A text an image, of its name: a box a line, `CLASS CX CY WIDTH HEIGHT`, in shares of the image."""

    def __init__(self, path: Path) -> None:
        self._texts: dict[str, Path] = {}
        for file in sorted(path.rglob("*.txt")):
            if file.name != "classes.txt":  # which tools that draw boxes write beside them
                _once(self._texts, file.stem, file, path)
        if not self._texts:
            raise UserError(
                f"--labels {str(path)!r}: it has no .txt files", hint="give the folder of YOLO's labels"
            )

    def of(self, fed: FedSample) -> BoxesThere | None:
        file = self._texts.get(Path(fed.where).stem)
        if file is None:
            return None
        boxes, classes = [], []
        for number, line in enumerate(_text(file).splitlines(), 1):
            parts = line.split()
            if not parts:
                continue
            try:
                label, (x, y, width, height) = int(parts[0]), map(float, parts[1:])
            except ValueError as error:
                raise UserError(
                    f"{str(file)!r}, line {number}: {line.strip()[:60]!r} is no class and box",
                    hint="write a line as in: 3 0.5 0.5 0.2 0.1",
                ) from error
            boxes.append([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
            classes.append(label)
        corners = np.array(boxes, np.float64).reshape(-1, 4)
        truth = BoxesThere(corners, np.array(classes, int), np.zeros(len(classes), bool))
        return _placed(truth, fed, shares=True)


def _placed(truth: BoxesThere, fed: FedSample, *, shares: bool) -> BoxesThere | None:
    """Boxes of an image in pixels of the input; without what is not in it. None where images are not ours.

    `shares`: whether they are in shares of the image.
    """
    if len(fed.images) != 1:
        return None
    (image,) = fed.images
    size = upright_size(Path(fed.where))
    points = truth.boxes.reshape(-1, 2, 2) * (size if shares else 1)
    high, wide = (
        fed[image.input].shape[-2:] if image.layout.endswith("CHW") else fed[image.input].shape[-3:-1]
    )
    boxes = np.clip(image.place(points, size), 0, (wide, high)).reshape(-1, 4)
    there = (boxes[:, 2:] > boxes[:, :2]).all(1)
    return BoxesThere(boxes[there], truth.classes[there], truth.crowd[there])


# -- masks -------------------------------------------------------------------------------------


class _MaskFiles(Labels):
    """A PNG an image, of its name: a class a pixel, 255 of none."""

    def __init__(self, path: Path) -> None:
        self._files: dict[str, Path] = {}
        for file in sorted(path.rglob("*.png")):
            _once(self._files, file.stem, file, path)
        if not self._files:
            raise UserError(
                f"--labels {str(path)!r}: it has no .png files", hint="give the folder of the masks"
            )

    def of(self, fed: FedSample) -> np.ndarray | None:
        file = self._files.get(Path(fed.where).stem)
        if file is None or len(fed.images) != 1:
            return None
        return fed.images[0].labels(file, IGNORED)


T = TypeVar("T")


def _once(known: dict[str, T], name: str, value: T, path: Path) -> None:
    """Keeps what a name stands for.

    Raises:
        UserError: it stands for two things.
    """
    if name in known:
        raise UserError(
            f"--labels {str(path)!r}: {name!r} is there twice, and labels are found by the names of files",
            hint="give files names of their own",
        )
    known[name] = value


def _text(path: Path) -> str:
    hint = "give labels as text, a line a file: images/0001.jpg 207; or, for boxes, as COCO's JSON"
    try:
        return door.text(path)
    except OSError as error:
        raise UserError(f"cannot read {str(path)!r}: {error.strerror}", hint=hint) from error
    except UnicodeError as error:
        raise UserError(
            f"--labels {str(path)!r}: it is no text, and labels are a text or JSON file", hint=hint
        ) from error
