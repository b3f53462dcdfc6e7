"""What other tools' calibrators cost: CPU time over the plain forward passes, and memory.

Onnxruntime's are those of this environment; Model-Optimizer has one of its own (see `make bench-peers`).
Each measurement has a fresh process, with a limit of memory: calibrators that keep all activations
of all samples would take whatever there is.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import nets
from benchmarks.common import peers_python
from benchmarks.nets.feeds import feeds as feeds_of

CALIBRATORS = (
    "onnxruntime MinMax", "onnxruntime Entropy", "onnxruntime Percentile", "modelopt max", "modelopt entropy"
)  # fmt: skip
"""Tools and methods."""

TIMED, IN_MEMORY = 16, (8, 32)
"""Samples."""

LIMIT = 4096
"""MiB for a calibrator."""

TIMEOUT = 300
"""Seconds for a calibrator."""

_SCRIPT = Path(__file__).with_name("peer_calibrators.py")


@dataclass(frozen=True, slots=True)
class PeerRow:
    """What a calibrator costs.

    Attributes:
        name: the tool and the method.
        ratio: the CPU time of the calibrator over that of the plain forward passes, one thread each,
            thresholds not included; None where there is no figure.
        plain_ms: the CPU time of a plain forward pass beside it.
        peak_mib: the peak memory of a process that calibrates, for each number of samples that it
            reached.
        reason: why a figure is missing.
    """

    name: str
    ratio: float | None
    plain_ms: float | None
    peak_mib: Mapping[int, float]
    reason: str | None


def main() -> None:
    print(f"other calibrators: CPU time over plain forward passes, {TIMED} samples, one thread; peak memory")
    for net in ("resnet18", "mobilenet_v2"):
        print(f"  {net}")
        samples = list(feeds_of(net, 0, max(IN_MEMORY)))
        for row in peer_rows(nets.NETS[net](), samples):
            print_peer(row)


def print_peer(row: PeerRow) -> None:
    """Prints a row."""
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f} x {row.plain_ms:.1f} ms"
    peaks = ", ".join(f"{peak:.0f} MiB with {count}" for count, peak in row.peak_mib.items())
    details = "; ".join(filter(None, (peaks, row.reason)))
    print(f"    {row.name:<24} {ratio:>18}   {details}", flush=True)


def peer_rows(
    model: onnx.ModelProto,
    feeds: Sequence[Mapping[str, np.ndarray]],
    names: Iterable[str] = CALIBRATORS,
) -> list[PeerRow]:
    """What calibrators cost for a model.

    Args:
        model: the float model.
        feeds: samples, given again from the first where there are too few.
        names: some of `CALIBRATORS`.
    """
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder)
        for index, sample in enumerate(feeds):
            np.savez(samples / f"{index:04}.npz", **dict(sample))
        return [_row(name, model, samples) for name in names]


def _row(name: str, model: onnx.ModelProto, samples: Path) -> PeerRow:
    try:
        timed = _measure(name, model, samples, "time", TIMED)
    except FileNotFoundError:
        return PeerRow(name, None, None, {}, "not installed (make bench-peers)")
    in_memory = {count: _measure(name, model, samples, "memory", count) for count in IN_MEMORY}
    peaks = {count: found["peak_mib"] for count, found in in_memory.items() if "peak_mib" in found}
    reasons: dict[str, list[str]] = {}
    for count, found in ((TIMED, timed), *in_memory.items()):
        if "reason" in found:
            reasons.setdefault(found["reason"], []).append(str(count))
    reason = "; ".join(f"{why} (with {', '.join(counts)} samples)" for why, counts in reasons.items())
    return PeerRow(name, timed.get("ratio"), timed.get("plain_ms"), peaks, reason or None)


def _measure(name: str, model: onnx.ModelProto, samples: Path, what: str, count: int) -> dict[str, Any]:
    """What the script found, or `reason`: why it found nothing.

    Raises:
        FileNotFoundError: there is no environment of the tool.
    """
    tool, method = name.split()
    python = peers_python() if tool == "modelopt" else sys.executable
    with tempfile.TemporaryDirectory() as folder:  # one for each run: a tool may rewrite the model
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        command: list[str | Path] = [
            python,
            _SCRIPT,
            tool,
            method,
            path,
            samples,
            str(count),
            what,
            str(LIMIT),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return {"reason": f"stopped after {TIMEOUT} s"}
    if done.returncode < 0:
        return {"reason": f"ended by {signal.Signals(-done.returncode).name}"}
    if done.returncode:
        return {"reason": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "stopped" in found:
        return {"reason": f"stopped, it wants more than {LIMIT} MiB"}
    return {"reason": found["failed"]} if "failed" in found else found


if __name__ == "__main__":
    main()
