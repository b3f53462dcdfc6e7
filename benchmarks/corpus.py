"""`onnxq quantize` over a corpus of real models, with other tools beside it: `python -m benchmarks.corpus`.

The folder that ONNXQ_CORPUS names holds the models; the Python that ONNXQ_PEERS names (that of
.venv-peers by default, see `make bench-peers`) has Model-Optimizer, NNCF and onnxruntime's quantizer. Each
tool works in a fresh process on a copy of the model, with the same calibration samples; what it made
is scored by the same measures (`benchmarks.corpus_score`) on samples that none of them saw.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import corpus_data, corpus_score
from benchmarks.common import peers_python
from onnxq.run import trt

TIMEOUT = 600  # s, for each tool and each model
PEERS = {
    "modelopt": "nvidia-modelopt",
    "onnxruntime": "onnxruntime-gpu",
    "nncf": "nncf",
    "ppq": "esp-ppq",
    "aimet": "aimet-onnx",
}
GOAL = 0.95

_ONNXQ = (sys.executable, "-m", "onnxq")
PEERS_SCRIPT = Path(__file__).with_name("peers.py")
_VERDICTS = ("exact", "close", "unproven")

Row = dict[str, Any]
"""What one tool did to one model; `error` where it made no model."""


def main() -> int:
    arguments = _arguments()
    folder = os.environ.get("ONNXQ_CORPUS")
    if not folder:
        print("corpus: skipped, ONNXQ_CORPUS names no folder of models")
        return 0
    corpus = Path(folder).resolve()
    entries = json.loads((corpus / "manifest.json").read_text("utf-8"))
    entries = [
        entry
        for entry in entries
        if any(fnmatch.fnmatchcase(entry["name"], glob) for glob in arguments.models)
    ]
    peers = {} if arguments.no_peers else installed_peers()
    rows = []
    for number, entry in enumerate(entries, 1):
        print(f"\r\033[K{number} of {len(entries)}: {entry['name']}", end="", file=sys.stderr, flush=True)
        rows += _bench(corpus, entry, peers)
        if arguments.json:  # after each model: an interrupted run has what it measured
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\r\033[K", end="", file=sys.stderr)
    _print(rows, peers)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus")
    parser.add_argument(
        "--models", nargs="+", default=["*"], metavar="GLOB", help="only models of these names"
    )
    parser.add_argument("--no-peers", action="store_true", help="onnxq only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")
    return parser.parse_args()


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


# --- running --------------------------------------------------------------------------------------


def installed_peers() -> dict[str, str]:
    """The version of each peer that is installed."""
    found = {}
    for tool, package in PEERS.items():
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        try:
            done = subprocess.run([peers_python(tool), "-c", code], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0:
            found[tool] = done.stdout.strip()
    return found


def _bench(corpus: Path, entry: dict[str, Any], peers: Iterable[str]) -> list[Row]:
    """What each tool does to a model."""
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        folder = Path(name)
        kind, calibration, held_out = corpus_data.samples(corpus, entry)
        write_samples(folder / "calib", calibration)
        write_samples(folder / "held", held_out)
        model = corpus / "models" / f"{entry['name']}.onnx"
        rows = []
        for tool in ("onnxq", *peers):
            work = folder / tool
            work.mkdir()
            shutil.copy(model, work / "model.onnx")
            row = _quantize(tool, work, folder / "calib")
            if "error" not in row:
                row |= _score(tool, work, model, folder / "held")
            taken = entry["onnxruntime"] == "ok" and entry["tensorrt_rtx"]["builds"]
            rows.append({"model": entry["name"], "data": kind, "taken": taken, "tool": tool, **row})
    return rows


def write_samples(folder: Path, samples: Sequence[corpus_data.Sample]) -> None:
    """Samples as the files that other tools read, in a new folder."""
    folder.mkdir()
    for index, sample in enumerate(samples):
        np.savez(folder / f"{index:04}.npz", **sample)


def run(command: Sequence[str | Path], cwd: Path | None = None) -> tuple[int | None, str, str]:
    """Exit code (None: stopped at the time limit), stdout, stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None, "", f"it did not end within {TIMEOUT} s"
    return done.returncode, done.stdout, done.stderr


def _quantize(tool: str, work: Path, calib: Path) -> Row:
    model, output = work / "model.onnx", work / "out.onnx"
    if tool == "onnxq":
        code, out, said = run([*_ONNXQ, "-q", "quantize", model, "--calib", calib, "-o", output])
        return _of_report(work / "out.report.json") if code == 0 else {"exit": code, "error": said.strip()}
    code, out, said = run([peers_python(tool), PEERS_SCRIPT, tool, model, calib, output], work)
    if code != 0:
        return {"exit": code, "error": (said.strip().splitlines() or [f"it ended with exit code {code}"])[-1]}
    if not output.is_file():
        return {"exit": code, "error": "it wrote no model, with exit code 0"}
    seconds, megabytes = map(float, out.split()[-2:])
    return {"seconds": seconds, "mb": megabytes}


def _of_report(path: Path) -> Row:
    """What the report of `onnxq quantize` says; the seconds are without the compiler's."""
    report = json.loads(path.read_text("utf-8"))
    kept = Counter((change["rule"], change["proof"]["verdict"]) for change in report["changes"])
    rejected = Counter((change["rule"], "rejected") for change in report["rejected"])
    return {
        "rules": [[rule, verdict, count] for (rule, verdict), count in (kept + rejected).items()],
        "seconds": report["seconds"] - report["phases"].get("compile", 0.0),
        "mb": report["peak_memory_mb"],
        "planned": report["plan"]["int8_share_of_eligible_macs"],
        "kept_float": report["plan"]["kept_float"],
        "unsupported": report["unsupported"],
        "not_run": report["calibration"]["not_run"],
    }


def _score(tool: str, work: Path, model: Path, held_out: Path) -> Row:
    report = [work / "out.report.json"] if tool == "onnxq" else []
    score = (sys.executable, "-m", "benchmarks.corpus_score")
    code, out, said = run([*score, model, work / "out.onnx", held_out, *report])
    if code != 0:
        return {"error": f"its model is not scored: {(said.strip().splitlines() or [''])[-1]}"}
    scored: Row = json.loads(out.splitlines()[-1])
    return scored


# --- printing -------------------------------------------------------------------------------------


def _print(rows: Sequence[Row], peers: dict[str, str]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    tools = [f"{tool} {peers.get(tool, 'is not installed')}" for tool in PEERS]
    console.print(f"corpus: {trt.installed() or 'no compiler'}, sm 89; {'; '.join(tools)}")
    console.print(
        f"{corpus_data.CALIBRATION} calibration samples, SQNR (dB) on {corpus_data.HELD_OUT} others; int8: "
        "share of the eligible MACs that the engine runs in int8; s and MiB without the compiler",
        soft_wrap=True,
    )
    console.print(_table(rows))
    _print_findings(console, rows)
    _print_rules(console, [row for row in rows if row["tool"] == "onnxq"])
    _print_totals(console, rows)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("model", "data", "tool"):
        table.add_column(title, no_wrap=True)
    for title in ("rules", "proved", "unproved", "rejected", "Q/DQ", "int8 %", "SQNR"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for title in ("s", "MiB"):
        table.add_column(title, justify="right")
    for row in rows:
        first = row["tool"] == "onnxq"
        table.add_row(*([row["model"], row["data"]] if first else ["", ""]), row["tool"], *_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    count = _verdicts([row])
    changes = [str(len({rule for rule, _, _ in row.get("rules", ())})), str(count["exact"] + count["close"])]
    changes += [str(count["unproven"]), str(count["rejected"])]
    return [
        *(changes if "rules" in row else [""] * 4),
        str(row.get("qdq", "")),
        _number(row.get("int8"), 100.0),
        _decibels(row.get("sqnr")),
        row.get("engine", "-" if row["tool"] == "onnxq" else "no model")
        if "error" not in row
        else "no model",
        _number(row.get("seconds")),
        _number(row.get("mb"), digits=0),
    ]


def _number(value: float | None, factor: float = 1.0, digits: int = 1) -> str:
    return "" if value is None else f"{factor * value:.{digits}f}"


def _decibels(value: float | None) -> str:
    if value is None or abs(value) < corpus_score.LIMIT:
        return _number(value)
    return "equal" if value > 0 else "not finite"


def _verdicts(rows: Iterable[Row]) -> Counter[str]:
    count: Counter[str] = Counter()
    for row in rows:
        for _, verdict, number in row.get("rules", ()):
            count[verdict] += number
    return count


def _print_findings(console: Console, rows: Sequence[Row]) -> None:
    """Why there is no model, no engine, no SQNR, or less int8 than the goal; what onnxq advises."""
    for row in rows:
        lines = [_short(row[key]) for key in ("error", "reason", "why_not") if row.get(key)]
        lines += _advice(row.get("unsupported", ()))
        share = row.get("int8")
        if row["tool"] == "onnxq" and share is not None and share < GOAL:
            lines += [f"float: {entry['node']}: {entry['because']}" for entry in row["kept_float"]]
        if lines:
            console.print(f"\n{escape(row['model'])}, {row['tool']}", highlight=False)
            for line in lines:
                console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)


def _short(message: str) -> str:
    """The first line of a message and its hint, and how many lines it has besides."""
    first, *rest = message.split("\n")
    hints = [line for line in rest if line.startswith("hint: ")]
    more = len(rest) - len(hints)
    return "; ".join([first, *hints]) + (f" (and {more} more)" if more else "")


def _advice(unsupported: Iterable[dict[str, str]]) -> list[str]:
    """What the report says of nodes that the target does not take, each reason once."""
    nodes: dict[str, list[str]] = {}
    for entry in unsupported:
        nodes.setdefault(f"{entry['reason']}; advice: {entry['advice']}", []).append(entry["node"])
    return [
        f"node {names[0]!r}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {why}"
        for why, names in nodes.items()
    ]


def _print_rules(console: Console, rows: Sequence[Row]) -> None:
    table = Table(box=None, pad_edge=False, header_style="")
    table.add_column("rule")
    titles = (*_VERDICTS, "rejected", "proved %")
    for title in titles:
        table.add_column(title, justify="right")
    count: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for rule, verdict, number in row.get("rules", ()):
            count[rule, verdict] += number
            count["all rules", verdict] += number
    for rule in sorted({rule for rule, _ in count}, key=lambda rule: (rule == "all rules", rule)):
        exact, close, unproven, rejected = (count[rule, verdict] for verdict in titles[:4])
        kept = exact + close + unproven
        share = f"{100 * (exact + close) / kept:.1f}" if kept else ""
        table.add_row(rule, *map(str, (exact, close, unproven, rejected)), share)
    console.print()
    console.print(table)


def _print_totals(console: Console, rows: Sequence[Row]) -> None:
    console.print()
    for tool in dict.fromkeys(row["tool"] for row in rows):
        mine = [row for row in rows if row["tool"] == tool]
        taken = [row for row in mine if row["taken"]]
        made = [row for row in taken if row.get("engine") == "compiled"]
        finite = [row for row in made if (row.get("sqnr") or -corpus_score.LIMIT) > -corpus_score.LIMIT]
        int8 = [row for row in finite if row.get("int8") is None or row["int8"] >= GOAL]
        compiled = sum(row.get("engine") == "compiled" for row in mine)
        console.print(
            f"{tool:<12} {compiled} of {len(mine)} compile; of the {len(taken)} that onnxruntime and the "
            f"compiler take as they are {len(made)} compile, {len(finite)} of them run with finite outputs, "
            f"{len(int8)} of them with at least {GOAL:.0%} int8 or nothing eligible",
            highlight=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    sys.exit(main())
