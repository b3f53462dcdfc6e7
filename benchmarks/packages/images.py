"""Super-resolution: a photograph of a third of the size, made whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.packages import photographs
from benchmarks.packages.net import Figure, Net, Pool, Sample
from benchmarks.packages.running import Outputs

_SIDE, _TIMES = 224, 3
_BORDER = 8  # pixels, which are not judged


def nets() -> Iterator[Net]:
    """The net that the corpus holds."""
    yield Net(
        "superres", "ortext_superres of ONNXQ_CORPUS", "MIT", "three times the size", _model, _pool, _answer,
        _score, judges=96,
    )  # fmt: skip


def _model() -> Path:
    return photographs.folder("ONNXQ_CORPUS") / "models" / "ortext_superres.onnx"


def _pool() -> Pool:
    """Middles of photographs, their short sides 672 pixels, gray from 0 to 1."""

    def make(path: Path) -> Sample:
        image = photographs.opened(path).convert("L")
        side = _SIDE * _TIMES
        factor = side / min(image.size)
        whole = image.resize(
            (round(image.width * factor), round(image.height * factor)), Image.Resampling.BICUBIC
        )
        left, top = (whole.width - side) // 2, (whole.height - side) // 2
        whole = whole.crop((left, top, left + side, top + side))
        small = np.asarray(whole.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC), np.float32) / 255
        return Sample({"input": small[None, None]}, np.asarray(whole, np.float64) / 255)

    large = [path for path in photographs.everything() if min(Image.open(path).size) >= 480]
    return Pool.of(large, make, str)


def _answer(outputs: Outputs, sample: Sample) -> tuple[float, np.ndarray]:
    """The mean square of its error against the photograph; and it, in steps of 1/255."""
    (image,) = outputs.values()
    inner = np.s_[_BORDER:-_BORDER, _BORDER:-_BORDER]
    shown = image[0, 0].clip(0, 1)
    error = float(np.square(shown[inner] - sample.truth[inner]).mean())
    return error, (shown * 255).round().astype(np.uint8)


def _score(exact: Sequence[Any], given: Sequence[Any], _: Sequence[Any]) -> Figure:
    to_float = [
        float(np.square(a[1] / 255.0 - b[1] / 255.0).mean()) for a, b in zip(exact, given, strict=True)
    ]
    return {
        "PSNR dB": float(np.mean([_decibels(error) for error, _ in given])),
        "of": len(given),
        "PSNR to float dB": _decibels(float(np.mean(to_float))),
    }


def _decibels(error: float) -> float:
    return -10 * float(np.log10(error)) if error else float("inf")
