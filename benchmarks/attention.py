"""Whether attention is in int8 where the outputs are good: `python -m benchmarks.attention [--tokens N]`.

A decoder (4 layers of width 256, 8 heads of queries, 2 of keys and values, 1,000 words, random weights) is
quantized by default, with attention in int8 whatever that costs, and with it in float, judged on texts that
no tool saw, and compiled for sm 89: what its kernels move, beside plain float16.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from typing import Any
from unittest import mock

import numpy as np
import onnx

import onnxq
from benchmarks.nets import llama
from benchmarks.repair.printing import claim, table
from onnxq.analysis.reports import part_of
from onnxq.documents.plan import PlanPart
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.policies import JOINTS_FLOOR_DB
from onnxq.pipeline.searches import joints
from onnxq.run import ort
from onnxq.run.compare import compare_models

FITTING, JUDGING, WORDS, PRODUCTS = 64, 32, 1000, 8
_ROWS: Mapping[str, tuple[float, Mapping[str, Any]]] = {
    "int8": (-math.inf, {}),
    "float": (JOINTS_FLOOR_DB, {"skip": ["int8_attention"]}),
    "default": (JOINTS_FLOOR_DB, {}),
}
"""The floor, and options, of each row."""


def texts(seed: int, count: int, tokens: int) -> list[dict[str, np.ndarray]]:
    """Texts of words that are as frequent as Zipf's law says, int64 [1, tokens]."""
    random, chance = np.random.default_rng(seed), 1 / np.arange(3, WORDS + 3)
    return [{"input_ids": random.choice(WORDS, (1, tokens), p=chance / chance.sum())} for _ in range(count)]


def _row(model: onnx.ModelProto, tokens: int, **options: Any) -> tuple[float, int, str]:
    """The SQNR of the worst part, dB; how many products of attention are in int8; MB moved, and float16's."""
    made = onnxq.quantize(model, texts(0, FITTING, tokens), prove="never", layer_samples=0, **options)
    floats = ort.load(model)
    meter = AboutMeanMeter(floats.outputs)
    compare_models(floats, ort.load(made.model), texts(1, JUDGING, tokens), meters=[meter])
    report, plan = made.report, part_of(PlanPart, made.report.plan)
    products = [layer for layer in plan.layers if not layer.eligible]
    compared = report.verdict.compared if report.verdict is not None else None
    moved = ""
    if compared is not None:
        moved = " / ".join(f"{one.moved_mb + one.weights_mb:.2f}" for one in (compared.int8, compared.fp16))
    level = meter.result().worst_output_db
    return level or 0.0, sum(layer.format != "float" for layer in products), moved


def main() -> None:
    """A line for each length, and what has to be so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", nargs="+", type=int, default=[32, 512])
    lines, claims = [], []
    for tokens in parser.parse_args().tokens:
        model = llama(tokens)
        levels: dict[str, float] = {}
        for name, (floor, options) in _ROWS.items():
            with mock.patch.object(joints, "JOINTS_FLOOR_DB", floor):
                levels[name], products, moved = _row(model, tokens, **options)
            lines.append([str(tokens), name, f"{levels[name]:.1f}", str(products), moved])
            print(lines[-1], file=sys.stderr, flush=True)
        holds = levels["int8"] < JOINTS_FLOOR_DB or products == PRODUCTS
        what = f"{tokens} tokens: attention in int8 where that has {JOINTS_FLOOR_DB:g} dB"
        claims.append((what, holds, f"{products} of {PRODUCTS} products, {levels['int8']:.1f} dB in int8"))
    table(["tokens", "attention", "worst part, dB", "products in int8", "MB moved / float16"], lines)
    for one in claims:
        claim(*one)


if __name__ == "__main__":
    main()
