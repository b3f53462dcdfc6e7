"""Whether a plan file says all of a run: `python -m benchmarks.plan_roundtrip [--models 'yunet*']`.

Each sample model, and each of ONNXQ_CORPUS, goes through each mode (`MODES`): a model is quantized, its plan
is written, and `quantize --plan` without data has to write the same bytes. The plan is that of `onnxq plan`
with the same options; with a goal, and for speed, of which that verb knows nothing, it is the file of the
draft that the run ended with.

Each run is a process of its own, which ends after `--limit` seconds; a model that does not end in one mode
is left. What is done is written down, and not run again by the same code.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast
from unittest import mock

import onnxq
from benchmarks.same_bytes import ROOT, SAMPLES, code_hash, opened, place, write
from onnxq.base.errors import OnnxqError
from onnxq.options.step import steps
from onnxq.pipeline import quantizing
from onnxq.pipeline.planning import planned
from onnxq.pipeline.result import Result
from onnxq.pipeline.run import ModelSearch, Run, searched
from onnxq.quant.plan_file import PlanFile

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "steps": {"repair": tuple(step.name for step in steps().values())},
    "loud": {"loud": "auto"},
    "goal": {},
}
_GOAL = 2.0  # dB beyond what the default reaches


def main() -> int:
    """Runs what is missing, and prints the table; 1 where a file differs or a step fails."""
    given = _arguments()
    if given.run is not None:
        print(json.dumps(_judged(*given.run, samples=given.samples)))
        return 0
    out = given.out or ROOT / "out/plan_roundtrip.json"
    known = opened(out, {"code": code_hash(ROOT), "samples": given.samples})
    for name in _names(given.models):
        results = known["runs"].setdefault(name, {})
        for mode in given.modes:
            if mode not in results and "no end" not in {result["verdict"] for result in results.values()}:
                results[mode] = _alone(name, mode, given)
                write(out, known)
        told = "  ".join(f"{mode}: {_told(results[mode])}" for mode in given.modes if mode in results)
        print(f"{name:34} {told}", flush=True)
    verdicts = [result["verdict"] for runs in known["runs"].values() for result in runs.values()]
    print(", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in sorted(set(verdicts))))
    return 1 if {"OTHER", "FAILED"} & set(verdicts) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan_roundtrip")
    parser.add_argument("--models", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--modes", nargs="+", default=[*MODES], choices=[*MODES], metavar="MODE",
                        help=f"only these: {', '.join(MODES)}")  # fmt: skip
    parser.add_argument("--samples", type=int, default=512, metavar="N", help="that calibrate, at most")
    parser.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="for a model in a mode")
    parser.add_argument("--out", type=Path, metavar="FILE", help="what was run; out/plan_roundtrip.json")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def _names(globs: list[str]) -> list[str]:
    """The models, small ones first."""
    models = Path(os.environ["ONNXQ_CORPUS"], "models") if "ONNXQ_CORPUS" in os.environ else None
    files = sorted(models.glob("*.onnx"), key=lambda path: path.stat().st_size) if models else []
    names = [*SAMPLES, *(path.stem for path in files)]
    return [name for name in names if any(fnmatchcase(name, glob) for glob in globs)]


def _alone(name: str, mode: str, given: argparse.Namespace) -> dict[str, Any]:
    """What `_judged` gives, of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.plan_roundtrip", "--run", name, mode]
    began = time.monotonic()
    try:
        done = subprocess.run([*command, "--samples", str(given.samples)], cwd=ROOT, capture_output=True,
                              text=True, timeout=given.limit)  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"verdict": "no end", "why": f"{given.limit} s"}
    if done.returncode:
        return {"verdict": "FAILED", "why": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | {"seconds": round(time.monotonic() - began, 1)}


def _told(result: dict[str, Any]) -> str:
    return f"{result['verdict']} ({result['why']})" if result["why"] else str(result["verdict"])


def _judged(name: str, mode: str, samples: int) -> dict[str, Any]:
    """Whether a model and the one of its plan are the same bytes: `verdict`, and `why` or what was kept."""
    with tempfile.TemporaryDirectory(prefix="onnxq-roundtrip-") as path:
        folder = Path(path).resolve()
        given = folder / "model.onnx", folder / place(name, folder)
        options = {"samples": samples, "prove": "never", **MODES[mode]}
        try:
            if mode == "goal":
                reached = _quantized(*given, **options).report.about_mean
                level = None if reached is None else reached.sqnr_about_mean_db
                if level is None:
                    return {"verdict": "no run", "why": "no SQNR"}
                options["min_sqnr"] = round(level + _GOAL, 1)
            if mode == "goal":
                before, plan = _ended(*given, **options)
            else:
                before, plan = _quantized(*given, **options), onnxq.plan(*given, **options).file
        except OnnxqError as error:
            return {"verdict": "no run", "why": str(error)[:80]}
        for file, content in plan.files("plan.toml").items():
            (folder / file).write_bytes(content)
        after = _quantized(given[0], None, plan=folder / "plan.toml", prove="never")
        same = contents(before, folder) == contents(after, folder)
        return {"verdict": "same" if same else "OTHER", "why": _stated(plan)}


def _quantized(*given: Any, **options: Any) -> Result:
    return onnxq.quantize(*given, **{"compile": False, **options})


def _ended(*given: Any, **options: Any) -> tuple[Result, PlanFile]:
    """A run, and the plan of the draft that it ended with."""
    plans: list[PlanFile] = []

    def kept(searches: Sequence[ModelSearch], run: Run) -> Run:
        run = searched(searches, run)
        last, report = run.built, cast(Any, None)  # the file is what counts
        deployments = run.sampling.deployments
        scaled = last.written.post_scaled
        made = planned(last.job, last.draft, last.floats.model, deployments, "", report, scaled)
        plans.append(made.file)
        return run

    with mock.patch.object(quantizing, "searched", kept):
        return _quantized(*given, **options), plans[-1]


def _stated(plan: PlanFile) -> str:
    """What a plan states beside layers and ranges."""
    repair, body = plan.repair, plan.body
    kinds = [str(edit["kind"]) for edit in repair.edits]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    counts |= {kind: len(named) for kind, _, named in repair.named}
    counts["float"] = sum(layer.format == "float" for layer in plan.layers)
    said = [f"{count} {kind}" for kind, count in counts.items() if count]
    return ", ".join([*said, *([] if body is None else [f"{body.type} body"])])


def contents(result: Result, folder: Path) -> bytes:
    """A model as it is written into a folder, and its weights where they are in a file of their own."""
    result.save(folder / "made.onnx", force=True, page=False)
    return b"".join(file.read_bytes() for file in sorted(folder.glob("made.onnx*")))


if __name__ == "__main__":
    sys.exit(main())
