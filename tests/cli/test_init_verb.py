"""`onnxq init`: what it writes is what `onnxq quantize` reads, as it is."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import net, run

FAST = ("--no-engine", "--repair", "none", "--method", "minmax", "-q", "--json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    onnx.save(net(), place / "net.onnx")
    x = np.random.default_rng(0).standard_normal((8, 32, 8)).astype(np.float32)
    np.save(place / "data.npy", x)
    return place


def command(text: str) -> list[str]:
    """The command that is to come next, as it is shown."""
    (line,) = (line for line in text.splitlines() if line.strip().startswith("onnxq quantize"))
    return shlex.split(line)[1:]


def test_settings_are_obeyed_as_they_are(folder: Path) -> None:
    """In the folder itself, and those that are named, which are elsewhere."""
    ran = run(folder, "init", "net.onnx", "--calib", "data.npy")
    assert ran.code == 0, ran.err
    assert "calibration.data" in ran.out
    quantized = run(folder, *command(ran.out), "-o", "a.onnx", *FAST)
    assert quantized.code == 0, quantized.err
    assert quantized.json()["config"] == "onnxq.toml"
    assert quantized.json()["plan"]["int8_share_of_eligible_macs"] == 1.0


def test_without_data_the_next_command_asks_for_them(folder: Path) -> None:
    ran = run(folder, "init", "net.onnx", "-o", "mine.toml")
    assert ran.code == 0, ran.err
    words = command(ran.out)
    assert words[2:] == ["--calib", "DATA", "--config", "mine.toml"]
    quantized = run(folder, *(word.replace("DATA", "data.npy") for word in words), "-o", "a.onnx", *FAST)
    assert quantized.code == 0, quantized.err
