"""A bundle of the sample model, and a machine that measures it: the stand-in for trtexec."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import onnxq
from onnxq.emit import measure
from onnxq.inspection.bundling import Bundle

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits"
MS = {"float16": 1.0, "int8": 0.8, "products": 0.82, "scales": 0.81, "without-1": 0.75, "without-2": 0.88}
MS |= {"without-3": 0.7, "without-4": 0.83, "combined-1": 0.64, "combined-2": 0.66}
MACHINE = ("device", "tensorrt", "date", "bundle")
Run = Callable[..., tuple[int, str, str]]


def bundled(folder: Path, **options: Any) -> Bundle:
    return onnxq.bundle(
        DIGITS / "digits.onnx", DIGITS / "calib", folder, repair="none", references=1, **options
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Measures on a machine where candidates take `MS`, but for what is given."""
    tool, world = tmp_path / "trtexec", tmp_path / "world.json"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {Path(__file__).with_name("trtexec.py")} "$@"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("ONNXQ_STANDIN", str(world))
    monkeypatch.setattr(measure, "ROUNDS", (3, 6))
    monkeypatch.setattr(measure, "TIMED", ("--warmUp=0", "--duration=0", "--iterations=5"))

    def measuring(
        folder: Path, *words: str, version: int = 110100, gpu: bool = True, slow: float = 0,
        layers: Mapping[str, tuple[float, float]] | None = None, **candidates: Mapping[str, Any],
    ) -> tuple[int, str, str]:  # fmt: skip
        told = {
            name: {"ms": ms, **candidates.get(name.replace("-", "_"), {})}
            for name, ms in {**MS, "their_int8": 0.5}.items()
        }
        machine = {"version": version, "gpu": gpu, "slow": slow, "noise": 0.003, "candidates": told}
        world.write_text(json.dumps(machine if layers is None else {**machine, "layers": layers}))
        code = measure.main([str(folder), "--tool", str(tool), *words])
        out, err = capsys.readouterr()
        return code, out, err

    return measuring


def results(folder: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return held
