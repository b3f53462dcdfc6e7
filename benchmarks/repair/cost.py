"""What repair costs: CPU seconds and peak memory with it, without, and of Model-Optimizer, in turns."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx

from benchmarks.common import ratio_of
from benchmarks.corpus import write_samples
from benchmarks.nets import resnet18
from benchmarks.repair import nets, tools
from benchmarks.repair.printing import claim, table
from benchmarks.repair.rows import Row, Rows
from benchmarks.repair.tools import Made

SAMPLES, ROUNDS = 128, 3
TOOLS = ("none", "auto", "modelopt-default")
OVER_NONE, OVER_PEER, MEMORY, MINUTE = 2.0, 2.0, 1 / 3, 60.0
WHOLE, HALF = 1.5, 0.5
"""What repair may cost: the run over that without it, and what it adds over what it added before."""

_MOBILE = "CONV_mobilenetv1_0.25_224_keras"


def printed(rounds: int = ROUNDS) -> None:
    """The nets, each in so many rounds."""
    lines, claims = [], []
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        for net, model, samples in _nets():
            folder = Path(name, net)
            folder.mkdir()
            onnx.save(model, folder / "float.onnx")
            write_samples(folder / "samples", samples)
            found = _measured(folder, rounds)
            for tool, done in found.items():
                said = done[-1].error or _repairs(done[-1])
                lines.append([net, tool, *(_median(done, key) for key in ("cpu", "seconds", "mib")), said])
            claims.append((net, found))
    print(f"\n{SAMPLES} samples, median of {rounds} rounds in turns, without the compiler\n")
    table(["net", "tool", "CPU s", "s", "MiB", "steps kept"], lines)
    print()
    for net, found in claims:
        _claims(net, found)


def spent(given: Sequence[nets.Net], rows: Rows, before: str) -> None:
    """What the rows say: CPU seconds of each tool. They differ from split to split, so those are compared."""
    names = ("none", before, "auto", *tools.PEERS)
    medians = {net.title: [_spent(rows.of(net, tool)) for tool in names] for net in given}
    print("\nCPU seconds, the median over splits, without imports and without the compiler\n")
    lines = [
        [title, *("" if cpu is None else f"{cpu:.1f}" for cpu in each)] for title, each in medians.items()
    ]
    table(
        ["net", "none", "before", "repair", *tools.PEERS.values()], [line for line in lines if any(line[1:])]
    )
    print()
    for net in given:
        none, then, now = ([row["cpu"] for row in rows.of(net, tool)] for tool in names[:3])
        if now and len(none) == len(now):
            whole, spread = ratio_of(now, none)
            claim(f"{net.title}: at most {WHOLE:g} times no repair", whole <= WHOLE, f"{whole:.2f}, {spread}")
        if now and len(none) == len(now) == len(then):
            added = [[one - plain for one, plain in zip(cpu, none, strict=True)] for cpu in (now, then)]
            share = float(np.median(added[0]) / max(np.median(added[1]), 1e-3))  # s
            claim(f"{net.title}: repair at most {HALF:g} of before's", share <= HALF, f"{share:.2f}")


def _spent(rows: Sequence[Row]) -> float | None:
    spent = [row["cpu"] for row in rows if "error" not in row]
    return float(np.median(spent)) if spent else None


def _nets() -> Iterator[tuple[str, onnx.ModelProto, Sequence[nets.Feeds]]]:
    random = np.random.default_rng(0)
    shape = (1, 3, 224, 224)
    given = resnet18()
    first = given.graph.input[0].name
    yield "resnet18", given, [{first: random.standard_normal(shape, np.float32)} for _ in range(SAMPLES)]
    for net in nets.nets([_MOBILE]) if os.environ.get("ONNXQ_CORPUS") else ():
        yield net.name, onnx.load(net.model(0)), net.split(0).fitting


def _measured(folder: Path, rounds: int) -> dict[str, list[Made]]:
    found: dict[str, list[Made]] = {tool: [] for tool in TOOLS if tool in tools.OURS or tool in tools.peers()}
    for _ in range(rounds):
        for tool, done in found.items():
            work = Path(tempfile.mkdtemp(dir=folder))
            done.append(tools.made(tool, folder / "float.onnx", folder / "samples", work / "int8.onnx"))
            print(json.dumps({"net": folder.name, "tool": tool, "cpu": done[-1].cpu, "mib": done[-1].mib}))
    return found


def _median(done: Sequence[Made], key: str) -> str:
    return f"{np.median([getattr(one, key) for one in done]):.1f}"


def _repairs(done: Made) -> str:
    """The steps of the ledger that were kept."""
    steps = (done.report.get("repair") or {}).get("steps", ())
    return ", ".join(entry["step"] for entry in steps if entry.get("verdict") == "kept")


def _claims(net: str, found: dict[str, list[Made]]) -> None:
    none, auto, peer = (found.get(tool, []) for tool in TOOLS)
    if any(done.error for done in auto):
        return
    ratio, spread = ratio_of([one.cpu for one in auto], [one.cpu for one in none])
    claim(
        f"{net}: at most {OVER_NONE:g} times the CPU of no repair",
        ratio <= OVER_NONE,
        f"{ratio:.2f}, {spread}",
    )
    if net == _MOBILE:
        cpu = float(np.median([one.cpu for one in auto]))
        claim(f"{net}: under a minute of CPU", cpu < MINUTE, f"{cpu:.0f} s")
    if peer and not any(done.error for done in peer):
        ratio, spread = ratio_of([one.cpu for one in auto], [one.cpu for one in peer])
        what = f"{net}: at most {OVER_PEER:g} times the CPU of Model-Optimizer"
        claim(what, ratio <= OVER_PEER, f"{ratio:.2f}, {spread}")
        memory, spread = ratio_of([one.mib for one in auto], [one.mib for one in peer])
        claim(f"{net}: a third of its memory", memory <= MEMORY, f"{memory:.2f}, {spread}")
