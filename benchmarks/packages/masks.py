"""Masks: MediaPipe's of people, and DeepLab's of 20 classes, which the corpus holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.packages import mediapipe, photographs
from benchmarks.packages.net import Figure, Net, Pool, Sample
from benchmarks.packages.running import Outputs

_SIDE = 257
_OF_COCO = (0, 5, 2, 16, 9, 44, 6, 3, 17, 62, 21, 67, 18, 19, 4, 1, 64, 20, 63, 7, 72)
"""The number that each of DeepLab's classes has in labels; the first is the background."""


def nets() -> Iterator[Net]:
    """Nets of masks."""
    for name, path, size in (("selfie", "selfie_segmentation", (256, 256)),
                             ("selfie_landscape", "selfie_segmentation_landscape", (256, 144))):  # fmt: skip
        yield _selfie(name, f"selfie_segmentation/{path}", size)
    yield Net(
        "deeplab", "deeplabv3_mnv2_pascal of ONNXQ_CORPUS", "Apache-2.0", "20 classes", _deeplab_model,
        _deeplab_pool, _deeplab, _deeplab_score, judges=96,
    )  # fmt: skip


def _selfie(name: str, path: str, size: tuple[int, int]) -> Net:
    def make(photograph: Path) -> Sample:
        shown = np.asarray(photographs.opened(photograph).resize(size, Image.Resampling.BILINEAR), np.float32)
        return Sample({"input_1": shown[None] / 255})

    def pool() -> Pool:
        return Pool.of(photographs.with_people(), make, str)

    return Net(
        name, mediapipe.PACKAGE, mediapipe.LICENCE, "masks of people", lambda: mediapipe.model(path), pool,
        _person, _person_score, judges=96,
    )  # fmt: skip


def _person(outputs: Outputs, _: Sample) -> np.ndarray:
    (mask,) = outputs.values()
    return np.asarray(mask[0, ..., 0] >= 0.5)


def _person_score(exact: Sequence[np.ndarray], given: Sequence[np.ndarray], _: Sequence[Any]) -> Figure:
    """The mean over photographs in which the float net shows anybody of what both masks share."""
    pairs = [(one, other) for one, other in zip(exact, given, strict=True) if one.mean() > 0.002]
    shared = [100 * (one & other).sum() / (one | other).sum() for one, other in pairs]
    flat = np.mean([(one != other).mean() for one, other in zip(exact, given, strict=True)])
    return {
        "mIoU to float %": float(np.mean(shared)),
        "of": len(shared),
        "worst %": float(np.min(shared)),
        "pixels changed %": 100 * float(flat),
    }


def _deeplab_model() -> Path:
    return photographs.folder("ONNXQ_CORPUS") / "models" / "deeplabv3_mnv2_pascal.onnx"


def _deeplab_pool() -> Pool:
    masks = photographs.folder("ONNXQ_COCO") / "semantic_segmentation" / "masks"

    def make(path: Path) -> Sample:
        labels = np.asarray(Image.open(path).resize((_SIDE, _SIDE), Image.Resampling.NEAREST))
        truth = np.zeros((_SIDE, _SIDE), np.uint8)
        for number, label in enumerate(_OF_COCO[1:], 1):
            truth[labels == label] = number
        image = masks.parents[1] / "images" / path.parent.name / f"{path.stem}.jpg"
        shown = photographs.opened(image).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
        return Sample({"sub_7": (np.asarray(shown, np.float32)[None] - 127.5) / 127.5}, truth)

    return Pool.of(sorted(masks.rglob("*.png")), make, str)


def _deeplab(outputs: Outputs, _: Sample) -> np.ndarray:
    (scores,) = outputs.values()
    return np.asarray(scores[0].argmax(-1), np.uint8)


def _deeplab_score(exact: Sequence[np.ndarray], given: Sequence[np.ndarray], truths: Sequence[Any]) -> Figure:
    same = np.mean([(one == other).mean() for one, other in zip(exact, given, strict=True)])
    return {
        "mIoU %": _mean_iou(truths, given),
        "of": len(given),
        "mIoU to float %": _mean_iou(exact, given),
        "pixels the same %": 100 * float(same),
    }


def _mean_iou(wanted: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> float:
    """The mean over classes that are there of what all masks share, percent."""
    one, other = np.stack(wanted), np.stack(given)
    there = [number for number in range(len(_OF_COCO)) if (one == number).any()]
    shared = [((one == n) & (other == n)).sum() / ((one == n) | (other == n)).sum() for n in there]
    return 100 * float(np.mean(shared))
