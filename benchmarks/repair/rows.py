"""Rows, each measured once and kept in a file: what one tool makes of one split of a net."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from benchmarks.corpus import write_samples
from benchmarks.repair import tools
from benchmarks.repair.nets import Net
from benchmarks.repair.scoring import Judge, engine_of
from onnxq.base.errors import OnnxqError

REPORTED = ("repair", "about_mean")
"""What is kept of onnxq's report."""

LEAST_IR = 8
"""Model-Optimizer takes no file of an older version whose weights are inputs, or no inputs."""

Row = dict[str, Any]


class Rows:
    """The rows of a folder: `NET/SAMPLES/SEED.TOOL.json`."""

    def __init__(self, folder: Path, trees: Mapping[str, Path] | None = None) -> None:
        """Those of a folder; `trees`: the checkouts of tools that are not of this one."""
        self._folder, self._trees = folder, trees or {}

    def path(self, net: Net, seed: int, tool: str) -> Path:
        """Where a row is kept."""
        name = net.name.replace(" ", "-").replace(":", "-")
        return self._folder / name / str(net.fitting) / f"{seed}.{tool}.json"

    def of(self, net: Net, tool: str) -> list[Row]:
        """The rows of a net and a tool, of all splits that have been measured."""
        found = [self.path(net, seed, tool) for seed in range(net.splits)]
        return [json.loads(path.read_text()) for path in found if path.is_file()]

    def forget(self, given: Iterable[Net], names: Iterable[str]) -> None:
        """Throws rows away."""
        for net in given:
            for tool in names:
                for seed in range(net.splits):
                    self.path(net, seed, tool).unlink(missing_ok=True)

    def measure(self, given: Iterable[Net], names: Sequence[str], splits: int | None = None) -> None:
        """Measures what is missing; of so many splits of a net at most."""
        for net in given:
            for seed in range(min(net.splits, splits or net.splits)):
                missing = [tool for tool in names if not self.path(net, seed, tool).is_file()]
                if missing:
                    self._measure(net, seed, missing)

    def _measure(self, net: Net, seed: int, names: Sequence[str]) -> None:
        """Measures a split with some tools; the same samples for all."""
        split = net.split(seed)
        with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
            folder = Path(name)
            source = folder / "float.onnx"
            given = net.model(seed)
            model = onnx.load(given) if isinstance(given, Path) else given
            model.ir_version = max(model.ir_version, LEAST_IR)
            onnx.save(model, source)
            write_samples(folder / "samples", split.fitting)
            judge = Judge.of(net, split, source)
            for tool in names:
                work = folder / tool
                work.mkdir()
                tree = self._trees.get(tool, tools.ROOT)
                done = tools.made(tool, source, folder / "samples", work / "int8.onnx", tree=tree)
                row: Row = {"cpu": done.cpu, "seconds": done.seconds, "mib": done.mib}
                if done.error:
                    row["error"] = done.error
                else:
                    row |= _scored(
                        judge, source, work / "int8.onnx", compiles=seed == 0 and tool not in tools.SETS
                    )
                    row["groups"] = split.groups.tolist()
                    row |= {key: done.report[key] for key in REPORTED if key in done.report}
                path = self.path(net, seed, tool)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(row), encoding="utf-8")
                said = row.get("error", f"{row['cpu']:.1f} s CPU, {row.get('engine')}")
                print(f"{net.title}, split {seed}, {tool}: {said}", file=sys.stderr, flush=True)


def _scored(judge: Judge, source: Path, made: Path, *, compiles: bool) -> Row:
    """What is measured of a file; which layers are int8 is compiled of one split, and of no set of steps."""
    try:
        engine = engine_of(source, made, judge.split.judging[0]) if compiles else {}
        return judge.scored(made) | engine
    except (OnnxqError, ValueError, KeyError) as error:
        return {"error": f"its model is not scored: {error}"}
