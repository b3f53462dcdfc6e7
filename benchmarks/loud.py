"""Whether what is loud is found by default: `python -m benchmarks.loud [NET ...]`.

Each split of a net is quantized three times: with `loud = "int8"`, with the layers in float that are known to
be the cause (of planted nets), and by default. They are judged on samples that no tool saw. Beside nets with
a planted cause stand real ones, which are not to be worse. CPU is that of the search over that of all else.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx

import onnxq
from benchmarks.repair import nets
from benchmarks.repair.printing import claim, table
from benchmarks.repair.scoring import Judge
from benchmarks.sensitivity import loud_nets, planted_nets
from onnxq.documents.plan import PlanPart
from onnxq.judge.sqnr import limited_db
from onnxq.pipeline import quantizing
from onnxq.pipeline.run import Run
from onnxq.pipeline.searches import PLANNED
from onnxq.pipeline.searches.loud import LOUD

SPLITS = 2
REAL = (
    "ultraface_rfb320", "yunet_120x160", "nanodet_m_416_mot", "CONV_mobilenetv1*", "CONV_squeezenet*",
    "mobilenetv2*", "mnist*", "cifar10*", "digits",
)  # fmt: skip
LEAST_OF_GAIN, LEAST_INT8, MAY_LOSE_DB, MOST_CPU = 0.8, 0.99, 0.3, 0.15


@dataclass(frozen=True, slots=True)
class Row:
    """A file: how near it is, its int8 share, what is named, the share of CPU that the search took."""

    db: float
    int8: float
    named: tuple[str, ...]
    cpu: float


def _planted() -> Iterator[tuple[nets.Net, Sequence[frozenset[str]]]]:
    for make in loud_nets.MAKERS:
        made = [make(seed) for seed in range(SPLITS)]

        def model(seed: int, made: Sequence[planted_nets.Planted] = made) -> onnx.ModelProto:
            return made[seed].model

        def split(seed: int, fitting: int) -> nets.Split:
            fit, judge = (planted_nets.samples(seed + start, fitting) for start in (1000, 2000))
            return nets.Split(fit, judge, np.arange(fitting))

        net = nets.Net(made[0].name, "planted", model, split, SPLITS, fitting=128)
        yield net, [one.layers for one in made]


def _quantized(judge: Judge, model: Path, fitting: Sequence[nets.Feeds], options: Mapping[str, Any]) -> Row:
    spent = [0.0]

    def timed(run: Run) -> Run:
        start = sum(os.times()[:4])
        try:
            return LOUD.run(run)
        finally:
            spent[0] = sum(os.times()[:4]) - start

    search = replace(LOUD, run=timed)
    start = sum(os.times()[:4])
    with mock.patch.object(quantizing, "PLANNED", (*PLANNED[:-1], search)):
        result = onnxq.quantize(model, fitting, compile=False, **options)
    whole = sum(os.times()[:4]) - start
    path = model.with_name("int8.onnx")
    onnx.save(result.model, path)
    scored = judge.scored(path)
    noise, signal = np.sum(scored["noise"], 0), np.sum(scored["signal"], 0)
    plan = result.report.plan
    assert isinstance(plan, PlanPart)
    heads = plan.heads
    named = () if heads is None else tuple(name for one in heads.loud for name in one.nodes)
    share = plan.int8_share_of_eligible_macs
    return Row(float(limited_db(np.mean(noise / signal))), share or 0.0, named, spent[0] / (whole - spent[0]))


def _rows(net: nets.Net, seed: int, causes: frozenset[str] | None) -> tuple[Row, Row | None, Row]:
    """In int8, with the cause in float, by default."""
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        path, given, split = Path(name, "float.onnx"), net.model(seed), net.split(seed)
        model = onnx.load(given) if isinstance(given, Path) else given
        model.ir_version = max(model.ir_version, 8)
        onnx.save(model, path)
        judge = Judge.of(net, split, path)
        plain: dict[str, Any] = {"loud": "int8"}
        int8 = _quantized(judge, path, split.fitting, plain)
        by_hand = None
        if causes is not None:
            by_hand = _quantized(judge, path, split.fitting, {**plain, "keep_float": sorted(causes)})
        return int8, by_hand, _quantized(judge, path, split.fitting, {})


def main(globs: Sequence[str]) -> None:
    """The planted nets and the real ones, or those of the names given."""
    real = [(net, None) for net in nets.nets(globs or REAL)]
    planted = [entry for entry in _planted() if not globs or "planted" in globs]
    lines, claims = [], []
    for net, causes in [*planted, *real]:
        for seed in range(SPLITS if causes is not None else 1):
            cause = None if causes is None else causes[seed]
            int8, by_hand, default = _rows(net, seed, cause)
            named = ", ".join(default.named) or "-"
            levels = [f"{row.db:.1f}" if row is not None else "" for row in (int8, by_hand, default)]
            lines.append([net.name, str(seed), *levels, f"{default.int8:.2%}", f"{default.cpu:.1%}", named])
            print(lines[-1], file=sys.stderr, flush=True)
            what = f"{net.name}, split {seed}"
            if by_hand is not None and cause is not None:
                part = (default.db - int8.db) / (by_hand.db - int8.db)
                holds = part >= LEAST_OF_GAIN and default.int8 >= LEAST_INT8 and cause <= {*default.named}
                claims.append((f"{what}: named, 80 % of the gain, 99 % int8", holds, f"{part:.0%}, {named}"))
            else:
                gain = default.db - int8.db
                claims.append(
                    (f"{what}: not worse by {MAY_LOSE_DB:g} dB", gain > -MAY_LOSE_DB, f"{gain:+.2f} dB")
                )
                claims.append(
                    (f"{what}: {MOST_CPU:.0%} more CPU", default.cpu <= MOST_CPU, f"{default.cpu:.1%}")
                )
    print("\nSQNR about the mean on samples that nobody saw, dB; CPU of the search over that of the rest\n")
    table(["net", "split", "int8", "by hand", "default", "int8 share", "CPU", "named"], lines)
    print()
    for one in claims:
        claim(*one)


if __name__ == "__main__":
    main(sys.argv[1:])
