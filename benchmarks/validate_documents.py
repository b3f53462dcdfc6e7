"""Every document of every verb over a corpus, against its schema: `python -m benchmarks.validate_documents`.

The folder that ONNXQ_CORPUS names holds the models. Each verb runs with --json in a process of its model,
and what it prints, and the documents that it writes, are validated against `onnxq.schema(kind)`. A verb that
ends in an error prints a document too.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx

import onnxq
from benchmarks import corpus_data
from onnxq.cli.app import app
from onnxq.options.settings import STEPS
from tests.as_measured import as_measured

SAMPLES = 6
_SEARCHES, _SEARCHED = ("goal", "sensitivity", "diff"), 300_000
"""What measures every layer by itself, and how large a model may be for it, bytes."""

_VARIED = 30_000  # smaller ones are quantized in many ways

_WRITTEN = ("*.report.json", "*.split.json")


@cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    """What checks the documents of a kind."""
    return jsonschema.Draft202012Validator(onnxq.schema(kind))


def mistakes(document: Mapping[str, Any]) -> list[str]:
    """What of a document is not as its schema says, with the place."""
    kind = document.get("kind")
    if not isinstance(kind, str):
        return [f"it says no kind: {list(document)[:5]}"]
    found = islice(validator(kind).iter_errors(document), 5)
    return [f"{error.json_path}: {error.message[:300]}" for error in found]


def commands(
    model: Path, data: Path, folder: Path, *, engine: bool = True, fast: Sequence[str] = ()
) -> Iterator[tuple[str, list[object]]]:
    """The arguments of every verb that looks at a model, by what is run; later ones read what earlier wrote.

    Args:
        model: a model.
        data: samples for it.
        folder: where all is written.
        engine: whether the verbs that compile do.
        fast: flags that make quantizing cheap.
    """
    no_engine = [] if engine else ["--no-engine"]
    calib = ["--calib", data]
    done, other = folder / "q.onnx", folder / "g.onnx"
    reports = [folder / "q.report.json", folder / "g.report.json"]
    yield "sanitize", ["sanitize", model, "-o", folder / "s.onnx"]
    yield "quantize", ["quantize", model, *calib, *fast, "-o", done, *no_engine]
    yield "goal", [
        "quantize", model, *calib, *fast, "-o", other, "--no-engine", "--min-sqnr", "25",
    ]  # fmt: skip
    yield "advised", ["quantize", model, *calib, *fast, "-o", folder / "a.onnx", "--no-engine", "--budget", 2]
    yield "plan", ["plan", model, *calib, *fast, "-o", folder / "p.toml", "--force"]
    yield "plan-without-data", ["plan", model, "-o", folder / "p0.toml", "--force"]
    yield "bundle", ["bundle", model, *calib, *fast, "-o", folder / "bundle"]
    if (folder / "bundle" / "manifest.json").is_file():
        yield "decision", ["decide", as_measured(folder / "bundle")]
    yield "sensitivity", ["sensitivity", model, *calib, *fast]
    yield "calibrate", ["calibrate", model, *calib, "-o", folder / "x.stats.npz"]
    yield "check", ["check", model, *no_engine]
    yield "check-pairs", ["check", done, "--no-engine"]
    yield "check-data", ["check", model, *calib, "--no-engine"]
    yield "inspect", ["inspect", model]
    yield "nodes", ["inspect", model, "--nodes"]
    for number, tensor in enumerate(_tensors(model)):
        yield f"tensor-{number}", ["inspect", done if number == 0 else model, "--tensor", tensor]
    yield "data", ["data", model, *calib, "--sheet", folder / "sheet.png"]
    yield "data-alone", ["data", model, *calib]  # of images it writes a sheet into the working folder
    yield "statistics", ["statistics", "activations", model, *calib]
    yield "weights", ["statistics", "weights", model]
    yield "weights-against", ["statistics", "weights", model, "--against", done]
    yield "memory", ["statistics", "memory", model]
    yield "compare", ["compare", model, done, "--data", data]
    yield "compare-goal", ["compare", model, done, "--data", data, "--min-sqnr", "10"]
    yield "analyze", ["analyze", model, done, "--data", data]
    yield "diff", ["report", *reports]
    yield "report", ["report", reports[0], "--force"]
    if engine:
        yield "engine", ["engine", done, "--against-fp16"]
    cut = _tensors(model)[-1:]
    yield "extract", ["pieces", "extract", model, "--to", *cut, "-o", folder / "e.onnx"]
    yield "split", ["pieces", "split", model, "--at", *cut, "-o", folder / "cut"]
    yield "run", ["pieces", "run", folder / "cut.split.json", "--data", data]
    yield "init", ["init", model, *calib, "-o", folder / "onnxq.toml"]
    yield "error", ["inspect", folder / "missing.onnx"]


_SCORE = """
def score(model, samples):
    return 1.0 if samples == "verify" else 0.5
"""


def variants(model: Path, data: Path, folder: Path) -> Iterator[tuple[str, list[object]]]:
    """Further runs of the verbs, for the parts of documents that few runs have; behind `commands`."""
    script, calib = folder / "score.py", ["--calib", data]
    script.write_text(_SCORE, encoding="utf-8")
    settings = folder / "settings.toml"
    settings.write_text("[calibration]\nseed = 3\nexact = true\n", encoding="utf-8")
    loud = folder / "loud.toml"
    loud.write_text('[format]\nloud = "auto"\n', encoding="utf-8")
    partial = folder / "partial.toml"
    partial.write_text("[calibration]\npartial = true\n", encoding="utf-8")
    quantize = ["quantize", model, "--no-engine", "-o", folder / "v.onnx"]
    stats = folder / "x.stats.npz"
    shards = [folder / f"{number}.stats.npz" for number in (1, 2)]
    yield "implicit", [*quantize, *calib, "--target", "tensorrt-8.6"]
    yield "stats", [*quantize, "--stats", stats]
    yield "stats-and-data", [*quantize, "--stats", stats, *calib]
    yield "obeyed", [*quantize, "--plan", folder / "p.toml", *calib]
    yield "loud", [*quantize, *calib, "--config", loud, "--repair", "none"]
    yield (
        "all-steps",
        [*quantize, *calib, "--repair", ",".join(STEPS)],
    )
    yield "body", [*quantize, *calib, "--body", "fp32", "--config", settings]
    yield "bf16", [*quantize, *calib, "--body", "bf16", "--repair", "none"]
    yield "score", [*quantize, *calib, "--eval", f"{script}:score", "--max-drop", "0.5", "--repair", "none"]
    yield "agreement", [*quantize, *calib, "--min-agreement", "99", "--repair", "none"]
    yield "out-of-reach", [*quantize, *calib, "--min-sqnr", "150", "--max-float", "0.01"]
    yield "sensitivity-score", ["sensitivity", model, *calib, "--eval", f"{script}:score"]
    yield "sanitize-body", ["sanitize", model, *calib, "--body", "fp16", "-o", folder / "b.onnx"]
    yield "unproved", ["sanitize", model, "--prove", "never", "-o", folder / "b.onnx"]
    yield "plan-stats", ["plan", model, "--stats", stats, "-o", folder / "p1.toml"]
    for number, shard in enumerate(shards, 1):
        yield "shard", ["calibrate", model, *calib, "--shard", f"{number}/2", "-o", shard]
    yield "partial", [*quantize, "--stats", shards[0], "--config", partial]
    yield "merged", ["calibrate", "--merge", *shards, "-o", folder / "all.stats.npz"]
    yield "check-settings", ["check", model, "--no-engine", "--config", settings, "--stats", stats]
    yield "check-implicit", ["check", model, "--no-engine", "--target", "tensorrt-8.6"]
    yield "statistics-stats", ["statistics", "activations", model, "--stats", stats]
    yield "memory-against", ["statistics", "memory", model, "--against", folder / "q.onnx"]
    yield "compare-score", [
        "compare", model, folder / "q.onnx", "--data", data, "--eval", f"{script}:score", "--max-drop", "1",
    ]  # fmt: skip
    yield "run-tolerance", [
        "pieces", "run", folder / "cut.split.json", "--data", data, "--tolerance", "40",
        "--save", folder / "saved",
    ]  # fmt: skip
    node = onnx.load(model).graph.node[0].name
    yield "node", ["pieces", "extract", model, "--node", node, "-o", folder / "n.onnx"]
    yield "analyze-report", ["analyze", folder / "q.onnx", "--data", data]
    yield "engine-two", ["engine", model, "--compare", folder / "q.onnx"]


def _tensors(model: Path) -> list[str]:
    """A constant, an input and a tensor in the middle."""
    graph = onnx.load(model, load_external_data=False).graph
    middle = [name for node in graph.node for name in node.output if name]
    first = [entry.name for entry in (*graph.initializer[:1], *graph.input[:1])]
    return [*first, *middle[len(middle) // 2 :][:1]]


def printed(arguments: Sequence[object]) -> tuple[str, str]:
    """What a command prints with --json, on standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        app([*map(str, arguments), "--json", "--quiet"], prog_name="onnxq", standalone_mode=False)
    return out.getvalue(), err.getvalue()


@dataclass
class Counts:
    """What was found.

    Attributes:
        documents: how many were valid or not, by kind.
        failures: those that were not: what was run, and what is wrong.
        seconds: how long each command took.
    """

    documents: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, what: str, text: str) -> None:
        """Validates a document."""
        try:
            document = json.loads(text)
        except ValueError:
            self.failures.append(f"{what}: no JSON: {text[:200]!r}")
            return
        self.documents[str(document.get("kind"))] += 1
        self.failures += [f"{what}: {mistake}" for mistake in mistakes(document)]
        if document.get("kind") == "error" and document["error"]["exit_code"] == 3:
            self.failures.append(f"{what}: a fault: {document['error']['message'][:300]}")


def validate(runs: Iterator[tuple[str, list[object]]], folder: Path, counts: Counts | None = None) -> Counts:
    """Runs commands, and validates what they print, and what they have written into a folder."""
    counts = Counts() if counts is None else counts
    for name, arguments in runs:
        start = time.process_time()
        out, err = printed(arguments)
        counts.seconds[name] = round(time.process_time() - start, 2)
        counts.add(name, out)
        if "not as its schema says" in err:
            counts.failures.append(f"{name}: {err[-500:]}")
    for path in sorted(path for glob in _WRITTEN for path in folder.glob(glob)):
        counts.add(path.name, path.read_text("utf-8"))
    return counts


def of_rules() -> Iterator[tuple[str, list[object]]]:
    """The verbs that look at no model."""
    yield "rules", ["rules", "list"]
    yield "rule", ["rules", "explain", "unfuse_gelu"]
    yield "message", ["rules", "explain", "--message", "Unsupported ONNX data type: DOUBLE"]
    yield "schemas", ["help", "schema"]
    yield "words", ["help"]
    yield "symptoms", ["help", "symptoms"]
    yield "error", ["help", "schema", "nothing"]


def main() -> int:
    """All models, each in a process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validate_documents")
    parser.add_argument("--models", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--largest", type=float, default=30, metavar="MB", help="larger models are left out")
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="for each model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was found")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    corpus = os.environ.get("ONNXQ_CORPUS")
    if not corpus:
        print("validate_documents: skipped, ONNXQ_CORPUS names no folder of models")
        return 0
    entries = json.loads(Path(corpus, "manifest.json").read_text("utf-8"))
    if arguments.one:
        (entry,) = [entry for entry in entries if entry["name"] == arguments.one[0]]
        return _one(Path(corpus).resolve(), entry, Path(arguments.one[1]))
    chosen = [
        entry
        for entry in sorted(entries, key=lambda entry: entry["bytes"])
        if entry["bytes"] < arguments.largest * 1e6
        and any(fnmatch.fnmatchcase(entry["name"], glob) for glob in arguments.models)
    ]
    total: Counter[str] = Counter()
    failed: dict[str, list[str]] = {}
    for number, entry in enumerate(chosen, 1):
        found = _in_process(entry["name"], arguments.limit)
        total.update(found["documents"])
        failed |= {entry["name"]: found["failures"]} if found["failures"] else {}
        took = sum(found["seconds"].values())
        print(
            f"{number}/{len(chosen)} {entry['name']}: {sum(found['documents'].values())} documents, "
            f"{len(found['failures'])} failures, {took:.0f} s",
            flush=True,
        )
        for failure in found["failures"]:
            print(f"    {failure}", flush=True)
        if arguments.json:
            said = {"documents": dict(total), "failures": failed}
            arguments.json.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(total.values())} documents of {len(total)} kinds, {sum(map(len, failed.values()))} failures")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(total.items())))
    return 1 if failed else 0


def _in_process(name: str, limit: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="onnxq-documents-") as folder:
        result = Path(folder, "found.json")
        command = [sys.executable, "-m", "benchmarks.validate_documents", "--one", name, str(result)]
        why = ""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
            why = "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-500:]}"
        except subprocess.TimeoutExpired:
            why = f"not done in {limit:g} s"
        found = {"documents": {}, "failures": [], "seconds": {}}
        if result.is_file():
            found = json.loads(result.read_text("utf-8"))
        found["failures"] += [f"the process: {why}"] if why else []
        return found


def _one(corpus: Path, entry: Mapping[str, Any], result: Path) -> int:
    """A model, in this process; what is known so far is written after each command."""
    model = corpus / "models" / f"{entry['name']}.onnx"
    folder = result.parent
    os.chdir(folder)
    _, calibration, _ = corpus_data.samples(corpus, entry)
    (folder / "data").mkdir()
    for number, sample in enumerate(calibration[:SAMPLES]):
        np.savez(folder / "data" / f"{number}.npz", **sample)
    fast = [] if entry["bytes"] < 30_000 else ["--repair", "none", "--method", "minmax"]
    runs = commands(model, folder / "data", folder, fast=fast)
    if entry["bytes"] < _VARIED:
        runs = itertools.chain(runs, variants(model, folder / "data", folder))
    if entry["bytes"] > _SEARCHED:
        runs = ((name, arguments) for name, arguments in runs if name not in _SEARCHES)
    found = Counts()
    validate(_kept(runs, found, result), folder, found)
    _keep(found, result)
    return 0


def _kept(
    runs: Iterator[tuple[str, list[object]]], found: Counts, result: Path
) -> Iterator[tuple[str, list[object]]]:
    """The runs; what is known is written before each, in case that it does not end."""
    for run in runs:
        _keep(found, result)
        yield run


def _keep(found: Counts, result: Path) -> None:
    known = {"documents": found.documents, "failures": found.failures, "seconds": found.seconds}
    result.write_text(json.dumps(known), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
