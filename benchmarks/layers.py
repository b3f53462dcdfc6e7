"""Layers matched from float to quantized, over a corpus: `python -m benchmarks.layers --models 'yunet*'`.

The folder that ONNXQ_CORPUS names holds the models. Each is quantized without repair (with `--peers` by
Model-Optimizer and onnxruntime, whose Python ONNXQ_PEERS names). `onnxq analyze` compares the original
with it: how many of the original's float tensors are compared or gone by a rule, what is left and why, what
it finds suspicious in a model that nobody broke, and what it costs. The smallest models come first.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import corpus_data
from benchmarks.common import peers_python
from benchmarks.corpus import PEERS_SCRIPT, run, write_samples

_LARGEST = 2_500_000  # bytes of a model
_PEERS = ("modelopt", "onnxruntime")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers")
    parser.add_argument("--models", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--peers", action="store_true", help="other tools' files instead")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--largest", type=int, default=_LARGEST, metavar="BYTES")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    folder = os.environ.get("ONNXQ_CORPUS")
    if not folder:
        print("layers: skipped, ONNXQ_CORPUS names no folder of models")
        return 0
    corpus = Path(folder).resolve()
    rows = []
    entries = {
        corpus / "models" / f"{entry['name']}.onnx": entry
        for entry in json.loads((corpus / "manifest.json").read_text("utf-8"))
    }
    for path, entry in sorted(entries.items(), key=lambda item: item[0].exists() and item[0].stat().st_size):
        wanted = any(fnmatch.fnmatchcase(entry["name"], glob) for glob in asked.models)
        if not wanted or not path.exists() or path.stat().st_size > asked.largest:
            continue
        for tool in _PEERS if asked.peers else ("onnxq",):
            rows.append(
                {"model": entry["name"], "tool": tool, **_one(corpus, entry, path, tool, asked.samples)}
            )
            print(_line(rows[-1]), flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    _total(rows)
    return 0


def _one(corpus: Path, entry: dict[str, Any], path: Path, tool: str, samples: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="onnxq-layers-") as name:
        work = Path(name)
        try:
            _, calibration, held = corpus_data.samples(corpus, entry)
        except Exception as error:  # data that the corpus lacks
            return {"error": f"no samples: {error}"}
        write_samples(work / "calib", calibration[:8])
        write_samples(work / "held", held[:samples])
        output = work / "out.onnx"
        if tool == "onnxq":
            command = [sys.executable, "-m", "onnxq", "-q", "quantize", path, "--calib", work / "calib",
                       "-o", output, "--repair", "none", "--method", "minmax", "--no-engine"]  # fmt: skip
        else:
            command = [peers_python(), PEERS_SCRIPT, tool, path, work / "calib", output]
        code, _, said = run(command, work)
        if code != 0 or not output.is_file():
            return {"error": f"not quantized: {(said.strip().splitlines() or [''])[-1][:200]}"}
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "onnxq", "-q", "analyze", path, output, "--data", work / "held", "--json"],
            capture_output=True, text=True, cwd=work,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1):
            return {"error": f"not analyzed ({done.returncode}): {done.stderr.strip()[:300]}"}
        found = json.loads(done.stdout)
        return {
            "compared": found["match"]["compared"],
            "by": found["match"]["by"],
            "share": found["match"]["share"],
            "left": Counter(one["why"] for one in found["match"]["left_a"]),
            "left_b": Counter(one["why"] for one in found["match"]["left_b"]),
            "suspicious": [
                [row["op"], row["layer"], [cause["text"] for cause in row["causes"]]]
                for row in found["rows"]
                if row["causes"]
            ],
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "seconds": time.perf_counter() - start,
            "mb": found["peak_memory_mb"],
        }


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['model']:<36} {row['tool']:<12} {row['error']}"
    left = "; ".join(f"{count} {why}" for why, count in row["left"].items() if not why.startswith("gone"))
    return (
        f"{row['model']:<36} {row['tool']:<12} {row['compared']:>5} compared, {row['share']:7.1%}, "
        f"{len(row['suspicious'])} suspicious, {row['cpu_s']:.1f} s CPU, {row['mb']:.0f} MiB"
        + (f"; left: {left}" if left else "")
        + "".join(f"\n    {op} {layer}: {causes[0]}" for op, layer, causes in row["suspicious"][:3])
    )


def _total(rows: list[dict[str, Any]]) -> None:
    good = [row for row in rows if "error" not in row]
    left: Counter[str] = Counter()
    for row in good:
        left.update(row["left"])
    compared = sum(row["compared"] for row in good)
    gone = sum(count for why, count in left.items() if why.startswith("gone"))
    total = compared + sum(left.values())
    print(f"{len(good)} of {len(rows)} models: {compared} of {total} tensors compared, {gone} gone by rules,")
    suspicious = sum(len(row["suspicious"]) for row in good)
    print(f"{(compared + gone) / max(1, total):.2%}; {suspicious} rows are suspicious")
    for why, count in left.most_common():
        print(f"  {count:>5} {why}")


if __name__ == "__main__":
    sys.exit(main())
