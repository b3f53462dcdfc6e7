"""What the benchmarks share: CPU time side by side, and the rows of the table."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

_ALONE = {"ppq": ".venv-ppq", "aimet": ".venv-aimet"}
"""Tools with environments of their own: each needs another onnx."""

_PACKAGES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime")


def print_header() -> None:
    """Prints what the figures depend on: the machine, the packages, and the table's heading."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}")
    print(
        "Ratios of CPU time (user and system, all threads) or of peak memory; goals in brackets.\n",
        flush=True,
    )


def print_row(what: str, ratio: float, goal: float | None = None, detail: str = "") -> None:
    """Prints a row of the table.

    Args:
        what: what is compared with what.
        ratio: the measured ratio.
        goal: what it must not exceed, None where it is shown for comparison only.
        detail: the absolute figures, and how much they vary.
    """
    aim = "" if goal is None else f"(<= {goal:.2f}) {'ok' if ratio <= goal else 'MISSED'}"
    print(f"{what:<58} {ratio:6.2f} {aim:<18} {detail}", flush=True)


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of a call, all threads of this process, s."""
    gc.collect()  # of what ran before
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turns(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The CPU seconds of each call in each round, one after another, so that a noise meets them all."""
    spent: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, call in work.items():
            spent[name].append(cpu_seconds(call))
    return spent


def ratio_of(one: Sequence[float], other: Sequence[float]) -> tuple[float, str]:
    """The median over the rounds of one / other, and its spread in words."""
    ratios = [a / b for a, b in zip(one, other, strict=True)]
    return median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"


def peers_python(tool: str = "") -> str:
    """The Python of the tools that onnxq is compared with, or of one of them; its path may lead nowhere."""
    root = Path(__file__).parents[1]
    if tool in _ALONE:
        return str(root / _ALONE[tool] / "bin/python")
    return os.environ.get("ONNXQ_PEERS") or str(root / ".venv-peers/bin/python")
