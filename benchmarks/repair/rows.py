"""Rows, each measured once and kept in a file: what one tool makes of one split of a net."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import onnx

from benchmarks.corpus import write_samples
from benchmarks.repair import tools
from benchmarks.repair.nets import Net
from benchmarks.repair.scoring import Judge, engine_of
from onnxq.base.errors import OnnxqError

COMPILED = (*tools.OURS, *tools.PEERS)
"""Whose engines are looked at, of the first split; sets of steps are measured for their accuracy alone."""

LEAST_IR = 8
"""Model-Optimizer takes no file of an older version whose weights are inputs, or no inputs."""

Row = dict[str, Any]


class Rows:
    """The rows of a folder: `NET/SEED.TOOL.json`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, net: str, seed: int, tool: str) -> Path:
        """Where a row is kept."""
        return self._folder / net.replace(" ", "-").replace(":", "-") / f"{seed}.{tool}.json"

    def of(self, net: Net, tool: str) -> list[Row]:
        """The rows of a net and a tool, of all splits that have been measured."""
        found = [self.path(net.name, seed, tool) for seed in range(net.splits)]
        return [json.loads(path.read_text()) for path in found if path.is_file()]

    def forget(self, given: Iterable[Net], names: Iterable[str]) -> None:
        """Throws rows away."""
        for net in given:
            for tool in names:
                for seed in range(net.splits):
                    self.path(net.name, seed, tool).unlink(missing_ok=True)

    def measure(self, given: Iterable[Net], names: Sequence[str], splits: int | None = None) -> None:
        """Measures what is missing; of so many splits of a net at most."""
        for net in given:
            for seed in range(min(net.splits, splits or net.splits)):
                missing = [tool for tool in names if not self.path(net.name, seed, tool).is_file()]
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
                done = tools.made(tool, source, folder / "samples", work / "int8.onnx")
                row: Row = {"cpu": done.cpu, "seconds": done.seconds, "mib": done.mib}
                if done.error:
                    row["error"] = done.error
                else:
                    row |= _scored(judge, source, work / "int8.onnx", compiles=seed == 0 and tool in COMPILED)
                    row["groups"] = split.groups.tolist()
                    row |= {key: done.report[key] for key in ("repair",) if key in done.report}
                path = self.path(net.name, seed, tool)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(row), encoding="utf-8")
                said = row.get("error", f"{row['cpu']:.1f} s CPU, {row.get('engine')}")
                print(f"{net.name}, split {seed}, {tool}: {said}", file=sys.stderr, flush=True)


def _scored(judge: Judge, source: Path, made: Path, *, compiles: bool) -> Row:
    """What is measured of a file; which layers are int8 is compiled of one split."""
    try:
        engine = engine_of(source, made, judge.split.judging[0]) if compiles else {}
        return judge.scored(made) | engine
    except (OnnxqError, ValueError, KeyError) as error:
        return {"error": f"its model is not scored: {error}"}
