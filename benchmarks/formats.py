"""What a number format does to the models of a corpus: `python -m benchmarks.formats [--format fp8]`.

Each model of ONNXQ_CORPUS is quantized to the format as a user would, without repair, and compiled for sm 89
by NVIDIA's compiler. A line a model: how many layers are planned and run in the format, the SQNR of the
worst output, what the merged engine moves of plain float16's bytes. What compiles as it is has to compile
quantized, and what is planned has to run.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import corpus_data
from benchmarks.corpus import run, write_samples
from benchmarks.repair.printing import claim, table

_FLAGS = (
    "--repair",
    "none",
    "--method",
    "minmax",
)


def _row(corpus: Path, entry: Mapping[str, Any], format: str) -> dict[str, Any]:
    """What became of a model; `error` where there is no report."""
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        folder = Path(name)
        kind, calibration, _ = corpus_data.samples(corpus, entry)
        write_samples(folder / "calib", calibration)
        model, output = corpus / "models" / f"{entry['name']}.onnx", folder / "out.onnx"
        settings = folder / "onnxq.toml"
        settings.write_text(
            '[format]\nloud = "int8"\n[repair]\nprove = "never"\n[report]\nlayer_samples = 0\n'
        )
        command = [sys.executable, "-m", "onnxq", "-q", "quantize", model, "--calib", folder / "calib"]
        command += ["--config", settings]
        code, _, said = run([*command, "--format", format, *_FLAGS, "-o", output])
        if not output.is_file():
            return {"data": kind, "error": f"exit code {code}: {(said.strip().splitlines() or [''])[0]}"}
        report = json.loads((folder / "out.report.json").read_text("utf-8"))
    engine, verdict = report["engine"], report["verdict"] or {}
    both = verdict.get(verdict.get("form", ""))
    return {
        "data": kind,
        "engine": engine["status"],
        "regressed": engine["regressed"],
        "left": (engine["regression"] or {}).get("node", ""),
        "planned": engine["planned"],
        "run": engine["int8"],
        "missed": engine["not_int8"],
        "db": (report["about_mean"] or {}).get("worst_output_db"),
        "bytes": both and _bytes(both["int8"]) / _bytes(both["fp16"]),
        "reason": engine["reason"] or verdict.get("reason", ""),
    }


def _bytes(engine: Mapping[str, float]) -> float:
    return engine["moved_mb"] + engine["weights_mb"]


def _values(entry: Mapping[str, Any]) -> int:
    """How many values the inputs of a model have."""
    return sum(math.prod(shape) for shape in entry["run_shapes"].values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.formats")
    parser.add_argument("--models", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--format", default="fp8")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write what was found; it goes on from there"
    )
    asked = parser.parse_args()
    if not os.environ.get("ONNXQ_CORPUS"):
        print("formats: skipped, ONNXQ_CORPUS names no folder of models")
        return 0
    corpus = Path(os.environ["ONNXQ_CORPUS"]).resolve()
    rows: dict[str, Any] = json.loads(asked.json.read_text()) if asked.json and asked.json.is_file() else {}
    entries = json.loads((corpus / "manifest.json").read_text("utf-8"))
    for entry in sorted(entries, key=lambda entry: entry["nodes"] * _values(entry)):  # the quick ones first
        name = entry["name"]
        if name not in rows and any(fnmatch.fnmatchcase(name, glob) for glob in asked.models):
            rows[name] = _row(corpus, entry, asked.format)
            print(name, rows[name], file=sys.stderr, flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1), "utf-8")
    titles = ["model", "data", "engine", "planned", "run", "worst output, dB", "bytes / float16"]
    table(titles, [_line(name, row) for name, row in rows.items()])
    made = {name: row for name, row in rows.items() if "error" not in row}
    lost = [name for name, row in made.items() if row["regressed"] or row["left"]]
    claim("what compiles as it is compiles quantized", not lost, ", ".join(lost) or f"{len(made)} models")
    missed = {
        name: row["missed"] for name, row in made.items() if row["engine"] == "compiled" and row["missed"]
    }
    planned, done = (
        sum(row[key] for row in made.values() if row["engine"] == "compiled") for key in ("planned", "run")
    )
    claim("every planned layer runs in the format", not missed, f"{done} of {planned}; {missed or ''}")
    return 0


def _line(name: str, row: Mapping[str, Any]) -> list[str]:
    if "error" in row:
        return [name, row["data"], row["error"], "", "", "", ""]
    figures = (f"{value:.2f}" if value is not None else "" for value in (row["db"], row["bytes"]))
    return [name, row["data"], row["engine"], str(row["planned"]), str(row["run"]), *figures]


if __name__ == "__main__":
    sys.exit(main())
