"""The command, run as users run it: in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_models"

# A layer of 16 channels, so that there is something to quantize. `w` and `b` are added by `net`.
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 32, 8] x) => (float[N, 32, 16] y) {
        [product] a = MatMul (x, w)  [scale] s = Mul (a, b)  [relu] y = Relu (s) }"""


@dataclass(frozen=True)
class Ran:
    """A finished run."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def environment(folder: Path, columns: int | None = 80) -> dict[str, str]:
    own = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
    own |= {} if columns is None else {"COLUMNS": str(columns)}
    scratch = folder.parent / f"{folder.name}.tmp"
    scratch.mkdir(exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return inherited | own | {"TMPDIR": str(scratch)}


def run(folder: Path, *arguments: object, columns: int | None = 80) -> Ran:
    """Runs `onnxq ARGUMENTS` in a folder; columns: those that COLUMNS states, None for none."""
    done = subprocess.run(
        [sys.executable, "-m", "onnxq", *map(str, arguments)],
        cwd=folder,
        env=environment(folder, columns),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def net() -> onnx.ModelProto:
    model = onnx.parser.parse_model(NET)
    random = np.random.default_rng(0)
    for name, shape in (("w", (8, 16)), ("b", (16,))):
        values = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder with the hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
