"""Clean jobs on real models: no error, and each warning is what plain numpy says of the same data.

Three of the eight run; all of them where ONNXQ_ALL_JOBS is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnxq
from onnxq.checks.finding import Finding
from onnxq.data.warnings import ENOUGH
from onnxq.run import ort

if not os.environ.get("ONNXQ_CORPUS"):
    pytest.skip("ONNXQ_CORPUS names no folder of models", allow_module_level=True)

CORPUS = Path(os.environ["ONNXQ_CORPUS"])
DATA = CORPUS / "data"


@dataclass(frozen=True)
class Job:
    data: Callable[[str], Any]
    images: Mapping[str, Any] | None = None


def _mnist(name: str) -> list[dict[str, np.ndarray]]:
    digits = np.load(DATA / "mnist_5000.npz")["images"][:64, None, None].astype(np.float32)
    return [{name: digit} for digit in digits]


def _cifar(name: str) -> list[dict[str, np.ndarray]]:
    pictures = np.load(DATA / "cifar10_2500.npz")["images"][:64].transpose(0, 3, 1, 2)
    return [{name: picture[None].astype(np.float32) / 127.5 - 1} for picture in pictures]


def _files(name: str) -> list[dict[str, np.ndarray]]:
    """The first and last kilobyte of files of known types, as Magika reads them."""
    found = []
    for path in sorted(path for path in (DATA / "magika_files").rglob("*") if path.is_file()):
        content = path.read_bytes()
        head, tail = content.lstrip()[:1024], content.rstrip()[-1024:]
        codes = np.full(2048, 256, np.int32)
        codes[: len(head)], codes[2048 - len(tail) :] = list(head), list(tail)
        found.append({name: codes[None]})
    return found


def _faces(name: str) -> Path:
    return DATA / "faces"


SIGNED = {"scale": 1 / 127.5, "mean": (1.0,) * 3, "std": (1.0,) * 3}
JOBS: Mapping[str, Job] = {
    "mnist_cntk_ortie": Job(_mnist),
    "cifar10_pytorch_winml": Job(_cifar),
    "ultraface_rfb320": Job(_faces, {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}),
    "magika_v3_3": Job(_files),
    "yunet_120x160": Job(_faces, {"scale": 1.0, "color": "bgr"}),
    "person_reid_0248": Job(_faces, {"scale": 1.0, "color": "bgr"}),
    "mobilenetv2_0.35_128_flowers_st": Job(_faces, SIGNED),
    "ppocr_det_v2": Job(_faces, {"preset": "imagenet"}),
}
RUN = list(JOBS) if os.environ.get("ONNXQ_ALL_JOBS") else list(JOBS)[:3]


def is_so(one: Finding, job: Job, name: str) -> bool:
    """Whether plain numpy says the same as a warning; of one that nobody foresaw it does not."""
    if one.check == "few-samples":
        data = job.data(name)
        count = len(list(data.iterdir())) if isinstance(data, Path) else len(data)
        return count < ENOUGH and one.reason.startswith(f"{count} samples")
    return False


@pytest.mark.parametrize("model", RUN)
def test_a_clean_job_has_no_error_and_no_false_alarm(model: str) -> None:
    job, path = JOBS[model], CORPUS / "models" / f"{model}.onnx"
    name = next(iter(ort.load(path).inputs))
    found = onnxq.check(path, job.data(name), images=job.images, samples=24, prove="never", compile=False)
    assert found.measured is not None
    assert found.measured.samples > 0
    assert not [one for one in found.findings if one.severity == "error"]
    warnings = [one for one in found.findings if one.severity == "warning"]
    assert [one for one in warnings if not is_so(one, job, name)] == []
