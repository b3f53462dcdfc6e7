"""The tools, each in a process of its own: onnxq of a checkout, and Model-Optimizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peers_python
from benchmarks.packages.running import Feeds

ROOT = Path(__file__).resolve().parents[2]
PEERS = {"modelopt-max": "MO max", "modelopt": "MO entropy"}
"""Rows of `benchmarks.peers`, and their names here."""

_PEERS = ROOT / "benchmarks" / "peers.py"
_QUANTIZING = Path(__file__).with_name("quantizing.py")
_TIMEOUT = 3600  # s


def written(samples: Sequence[Feeds], folder: Path) -> Path:
    """A folder with a file for each sample."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, feeds in enumerate(samples):
        np.savez(folder / f"{place:03}.npz", **feeds)  # type: ignore[arg-type]
    return folder


def by_onnxq(
    tree: Path, model: Path, samples: Path, output: Path, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What onnxq of a checkout makes of a model, and says of it.

    Returns:
        answer, because, cpu, steps; or error.
    """
    command = [sys.executable, "-P", _QUANTIZING, model.resolve(), samples, output, json.dumps(options)]
    return _run(command, tree, output)


def by_peer(tool: str, model: Path, samples: Path, output: Path) -> dict[str, Any]:
    """What Model-Optimizer makes of a model.

    Returns:
        cpu; or error.
    """
    return _run([peers_python(), _PEERS, tool, model.resolve(), samples, output], ROOT, output)


def _run(command: Sequence[Any], tree: Path, output: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tree,
                              timeout=_TIMEOUT, env=environment)  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"it did not end within {_TIMEOUT} s"}
    if done.returncode or not output.is_file():
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": said[-1] if said else f"no model, exit code {done.returncode}"}
    last = done.stdout.strip().splitlines()[-1]
    found: dict[str, Any] = json.loads(last) if last.startswith("{") else {"cpu": float(last.split()[0])}
    return found
