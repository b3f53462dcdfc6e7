from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import Ran, net, run


@pytest.fixture
def onnxq(tmp_path: Path) -> Callable[..., Ran]:
    """Runs `onnxq ARGUMENTS` in the test's folder."""
    return partial(run, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The test's folder with `net.onnx` and calibration data for it, `data.npz`."""
    onnx.save(net(), tmp_path / "net.onnx")
    x = np.random.default_rng(1).standard_normal((24, 32, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x)
    return tmp_path
