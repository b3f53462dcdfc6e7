"""The constructs of `tests/constructs`, repaired by onnxq and by other tools: `python -m benchmarks.surgery`.

Of those that the compiler rejects: how many it takes after a tool, with outputs that are equal to the
original's (fixed), or are not (wrong); of those that it takes: how many it still takes, equal. A tool that
raises, dies or says itself that its result differs has crashed. Every tool is judged by the same measures
(`tests/constructs/judge.py`); onnxq follows the flags that its report names, the others have none. The Python
that ONNXQ_SURGEONS names (that of .venv-surgery by default, see `make bench-surgery`) has the other tools.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx

from tests.constructs import chosen, constructs
from tests.constructs.build import content
from tests.constructs.judge import adapted, difference, expected, outcome, refusal, run
from tests.constructs.pool import judged
from tests.constructs.verdicts import holds, stored

PEERS = ("polygraphy", "onnxslim", "onnxsim")
_SCRIPT = Path(__file__).with_name("peer_surgeons.py")

Row = dict[str, Any]


def main() -> int:
    arguments = _arguments()
    tools = ["onnxq", *_installed()]
    known = stored()
    wanted = [one for one in chosen(arguments.globs) if one.key in known]
    stale = [one.key for one in wanted if not holds(known[one.key], one)]
    if stale:
        print(
            f"{len(stale)} stored verdicts are of other models or another compiler: `make constructs`",
            file=sys.stderr,
        )
        return 2
    wanted = wanted[:: arguments.every]
    rows: list[Row] = []
    tasks = [(f"{tool} {one.key}", None) for one in wanted for tool in tools]
    for name, row in judged(tasks, repair, arguments.processes):
        tool, key = name.split(" ", 1)
        row = {"outcome": "crashed", "why": row["died"], "seconds": 0.0} if "died" in row else row
        rows.append({"tool": tool, "name": key, "verdict": known[key].verdict, **row})
        if arguments.rows:  # after each: an interrupted run has what it found
            with arguments.rows.open("a" if len(rows) > 1 else "w", encoding="utf-8") as log:
                log.write(json.dumps(rows[-1]) + "\n")
        if sys.stderr.isatty():
            print(f"\r\033[K{len(rows)} of {len(tasks)}: {name}", end="", file=sys.stderr, flush=True)
    show(rows, tools)
    return 0


def repair(name: str, _: None) -> Row:
    """What a tool makes of a construct, and the compiler of that."""
    tool, key = name.split(" ", 1)
    construct, verdict = constructs()[key], stored()[key]
    rejected = verdict.verdict == "rejected"
    if tool == "onnxq":
        row = outcome(construct, rejected)
        return row | {"outcome": "crashed"} if row["outcome"] == "raised" else row
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        onnx.save(construct.model, before)
        answer = _peer(tool).ask(before, after)
        row = {"seconds": answer["seconds"], "why": answer["error"], "outcome": "crashed"}
        if answer["error"]:
            return row
        model = onnx.load(after)
    well = "fixed" if rejected else "kept"
    if content(model) == content(construct.model):
        return row | {"outcome": "rejected" if rejected else "kept"}
    try:
        feeds = [adapted(one, model) for one in construct.feeds()]
        now = run(model, feeds)
    except Exception as error:  # a model that onnxruntime does not run is not what it was
        return row | {"outcome": "wrong", "why": str(error).splitlines()[0]}
    found = [difference(construct, a, b) for a, b in zip(expected(construct), now, strict=True)]
    why = refusal(model, feeds)
    if any(found):
        return row | {"outcome": "wrong", "why": next(filter(None, found))}
    return row | {"outcome": "rejected" if why else well, "why": why or ""}


def show(rows: Iterable[Row], tools: Iterable[str]) -> None:
    """Prints a line for each tool."""
    rows = list(rows)
    for verdict, well in (("rejected", "fixed"), ("accepted", "kept")):
        part = [row for row in rows if row["verdict"] == verdict]
        print(f"\n{len({row['name'] for row in part})} constructs that the compiler has {verdict}")
        other = "still rejected" if verdict == "rejected" else "rejected now"
        print(f"{'':<24}{well:>10}{'wrong':>10}{other:>16}{'crashed':>10}{'s':>10}")
        for tool in tools:
            own = [row for row in part if row["tool"] == tool]
            count = Counter(row["outcome"] for row in own)
            figures = f"{count[well]:>10}{count['wrong']:>10}{count['rejected']:>16}{count['crashed']:>10}"
            print(f"{_title(tool):<24}{figures}{sum(row['seconds'] for row in own):>10.1f}")


class Peer:
    """A process in which a tool repairs one model after another; another one where it dies."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.folder = tempfile.TemporaryDirectory()  # what it leaves behind, it leaves there
        self.process: subprocess.Popen[str] | None = None

    def ask(self, model: Path, output: Path) -> dict[str, Any]:
        """What it says: seconds and error."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [_python(), str(_SCRIPT.resolve()), self.tool],
                cwd=self.folder.name,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{model}\t{output}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            return {"seconds": 0.0, "error": f"it died with {self.process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer


@functools.cache
def _peer(tool: str) -> Peer:
    return Peer(tool)


def _python() -> str:
    return os.environ.get("ONNXQ_SURGEONS") or str(
        Path(__file__).resolve().parents[1] / ".venv-surgery/bin/python"
    )


def _installed() -> list[str]:
    found = []
    for tool in PEERS:
        try:
            found.append(tool) if _version(tool) else print(
                f"{tool} is not installed: `make bench-surgery` installs it"
            )
        except OSError:
            print(f"no other tools: {_python()} does not exist; `make bench-surgery` installs them")
            break
    return found


@functools.cache
def _version(tool: str) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({tool!r}))"
    done = subprocess.run([_python(), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _title(tool: str) -> str:
    return f"{tool} {importlib.metadata.version(tool) if tool == 'onnxq' else _version(tool)}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.surgery")
    parser.add_argument("globs", nargs="*", metavar="SUBJECT|GLOB", help="of subject/name")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th construct")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write what was found, a line each")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
