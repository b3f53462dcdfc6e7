"""onnxruntime keeps no records of the user's models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

ROOT = Path(__file__).resolve().parents[2]
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 8] x) => (float[N, 16] y) { a = MatMul (x, w)  y = Relu (a) }"""
QUANTIZE = (
    "import onnxq\n"
    "onnxq.quantize('net.onnx', 'x.npy', compile=False, repair='none', layer_samples=0).save('made.onnx')"
)


def left(tmp_path: Path, code: str) -> list[str]:
    """The files that a program makes where the user named none: at home and among the temporary ones."""
    homes = {"HOME": tmp_path / "home", "TMPDIR": tmp_path / "temporary"}
    for folder in homes.values():
        folder.mkdir()
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith("XDG_") and k != "ORT_DISABLE_TELEMETRY"
    }
    given = {**inherited, **{k: str(v) for k, v in homes.items()}, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=given, check=True)
    return sorted(str(p.relative_to(tmp_path)) for f in homes.values() for p in f.rglob("*") if p.is_file())


def test_a_run_writes_nothing_but_what_the_user_named(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(NET)
    values = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32))
    assert left(tmp_path, QUANTIZE) == []
    made = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert made == ["made.onnx", "made.report.html", "made.report.json", "net.onnx", "x.npy"]


TOLD = """
import os
import onnxruntime
told = []
onnxruntime.disable_telemetry_events = lambda: told.append("off")
import onnxq.run
print(*told, os.environ["ORT_DISABLE_TELEMETRY"])
"""


@pytest.mark.parametrize(("given", "said"), [(None, "off 1"), ("0", "0"), ("1", "1")])
def test_where_onnxruntime_is_imported_already(given: str | None, said: str) -> None:
    """It is told, unless the user has decided; the processes that are started then inherit the variable."""
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    variables = {**inherited, **({} if given is None else {"ORT_DISABLE_TELEMETRY": given})}
    done = subprocess.run(
        [sys.executable, "-c", TOLD],
        env={**variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == said.split()
