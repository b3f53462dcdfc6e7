"""The tools, each in a process of its own: `onnxq quantize --repair ...`, and those it is compared with.

    python -m benchmarks.repair.tools ARGUMENTS OF onnxq

runs the command and prints the CPU seconds, its children's among them, the seconds and the peak memory in
MiB, all without imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import peers_python
from benchmarks.corpus import PEERS_SCRIPT, installed_peers
from onnxq.options.settings import STEPS
from onnxq.options.step import steps

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 900  # s
_DIGITS = ROOT / "sample_models/digits"

NEEDS = {name: step.goes_with for name, step in steps().items()}
"""Those that are only had with others: alone means with these."""

OURS = ("none", "auto")
PEERS = {
    "modelopt-default": "Model-Optimizer", "modelopt-max": "Model-Optimizer's max",
    "onnxruntime": "onnxruntime", "nncf": "NNCF", "ppq": "PPQ", "aimet": "AIMET",
}  # fmt: skip

ALL = ",".join(STEPS)
ALONE = {step: ",".join((*NEEDS[step], step)) for step in STEPS}
LEFT_OUT = {step: ",".join(one for one in STEPS if one != step and step not in NEEDS[one]) for step in STEPS}
"""What is left where a step is missing, and with it those that need it."""

SETS = tuple(dict.fromkeys([ALL, *ALONE.values(), *LEFT_OUT.values()]))


@dataclass(frozen=True, slots=True)
class Made:
    """What a tool did.

    Attributes:
        cpu, seconds: what it took, without imports.
        mib: the peak of its memory.
        error: why there is no model; "" where there is one.
        report: onnxq's.
    """

    cpu: float = 0.0
    seconds: float = 0.0
    mib: float = 0.0
    error: str = ""
    report: dict[str, Any] = field(default_factory=dict)


def peers() -> dict[str, str]:
    """The other tools, by the name of their row, and the versions of those that are installed."""
    found = installed_peers()
    return {row: found[row.split("-")[0]] for row in PEERS if row.split("-")[0] in found}


def prepared(tree: Path) -> Path:
    """A checkout that `made` can run; it has run once, as to compile the code costs CPU seconds.

    Raises:
        SystemExit: it is none, the code of another one would be run, or it does not run.
    """
    if not (tree / "benchmarks/repair/tools.py").is_file():
        raise SystemExit(f"--tree {tree}: no checkout of onnxq")
    done = subprocess.run([sys.executable, "-c", "import onnxq; print(onnxq.__file__)"], cwd=tree,
                          env=_environment(), capture_output=True, text=True, check=True)  # fmt: skip
    if not Path(done.stdout.strip()).is_relative_to(tree):
        raise SystemExit(f"the code of {done.stdout.strip()} would be run, not that of {tree}")
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        ran = made("auto", _DIGITS / "digits.onnx", _DIGITS / "calib", Path(name, "int8.onnx"), tree=tree)
    if ran.error:
        raise SystemExit(f"--tree {tree}: {ran.error}")
    return tree


def made(
    tool: str,
    model: Path,
    samples: Path,
    output: Path,
    *options: str,
    tree: Path = ROOT,
    compiled: bool = False,
) -> Made:
    """Quantizes a model.

    Args:
        tool: a row of `peers`, or what `--repair` is given; what is behind an `@` names the checkout.
        model: the float model.
        samples: a folder of .npz files.
        output: what to write.
        options: more flags of onnxq.
        tree: the checkout whose onnxq it is, this one by default.
        compiled: whether the result is compiled, too.
    """
    if tool in PEERS:
        return _run([peers_python(tool), PEERS_SCRIPT, tool, model, samples, output], output, output.parent)
    repair = tool.partition("@")[0]
    given = ["-q", "quantize", model, "--calib", samples, "-o", output, "--repair", repair]
    more = [*options, *([] if compiled else ["--no-engine"])]
    command = [sys.executable, "-m", "benchmarks.repair.tools", *given, *more]
    done = _run(command, output, tree, _environment())
    report = output.with_suffix(".report.json")
    if done.error or not report.is_file():
        return done
    return Made(done.cpu, done.seconds, done.mib, "", json.loads(report.read_text("utf-8")))


def _environment() -> dict[str, str]:
    """Compiled code is kept, and not in the checkout that it is of."""
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / "out/repair/compiled")}
    return {**os.environ, **kept}


def _run(
    command: list[Any], output: Path, folder: Path, environment: Mapping[str, str] | None = None
) -> Made:
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=TIMEOUT, cwd=folder, env=environment)  # fmt: skip
    except subprocess.TimeoutExpired:
        return Made(error=f"it did not end within {TIMEOUT} s")
    if done.returncode not in (0, 1) or not output.is_file():  # 1: it is made, and not to be shipped
        said = [line for line in done.stderr.strip().splitlines() if line.strip()]
        return Made(error=said[-1] if said else f"no model, exit code {done.returncode}")
    cpu, seconds, mib = map(float, done.stdout.split()[-3:])
    return Made(cpu, seconds, mib)


def main() -> None:
    from onnxq.cli.app import main as onnxq

    start, spent = time.perf_counter(), sum(os.times()[:4])
    code: Any = 0
    try:
        onnxq()
    except SystemExit as end:
        code = end.code
    spent, seconds = sum(os.times()[:4]) - spent, time.perf_counter() - start
    status = Path("/proc/self/status").read_text()  # getrusage counts what the parent had before exec
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    print(f"\n{spent:.3f} {seconds:.3f} {int(peak) / 1024:.1f}")
    sys.exit(code)


if __name__ == "__main__":
    main()
