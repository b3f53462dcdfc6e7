"""What is written for a machine with a GPU, and what is read of what it answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks import on_gpu


def answered(own: Path, kind: str, wanted: np.ndarray) -> None:
    """As trtexec writes runs and outputs."""
    runs = [{"computeMs": 0.5, "latencyMs": 0.75}, {"computeMs": 0.25, "latencyMs": 0.75}]
    (own / f"{kind}.runs.json").write_text(json.dumps(runs))
    for i, values in enumerate(wanted):
        entry = {"name": "logits", "dimensions": "1x10", "values": values.ravel().tolist()}
        (own / f"{kind}.{i}.json").write_text(json.dumps([entry]))


def test_the_sample_model(tmp_path: Path) -> None:
    on_gpu.make(tmp_path, "tensorrt-8.6", ["digits"])
    own = tmp_path / "digits"
    script = (tmp_path / "run.sh").read_text().splitlines()
    (line,) = (one for one in script if "--saveEngine=int8" in one)
    assert "--onnx=int8.onnx --saveEngine=int8.engine --int8 --fp16" in line
    (line,) = (one for one in script if "--saveEngine=fp16" in one)
    assert "--onnx=float.onnx" in line
    assert "--fp16" in line
    assert "--int8" not in line
    assert sum("--loadInputs=" in one for one in script) == on_gpu.SAMPLES * len(on_gpu.KINDS)
    assert (own / "15.image.bin").stat().st_size == 64 * 4

    wanted, said = (np.load(own / f"{kind}.expected.npz")["logits"] for kind in ("float", "int8"))
    assert len(wanted) == on_gpu.SAMPLES
    answered(own, "int8", said)
    lines = on_gpu.read(tmp_path)
    assert lines[:3] == ["digits float: no engine", "digits fp16: no engine", "digits int8: 375.0 us"]
    near = 10 * np.log10((wanted**2).sum() / ((wanted - said) ** 2).sum())
    assert lines[3:] == [f"  logits: {near:.1f} dB; onnxruntime says {near:.1f} dB, between them inf dB"]
