"""What a mix of int8 and FP8 gains: `python -m benchmarks.mixed [NET ...]`.

Each net is quantized by default, repair and all: in int8, in FP8, each layer in the better of both. It is
judged on samples that no tool saw, and compiled for sm 89: what its merged engine moves of plain float16's
bytes. Trained: digits and MobileNetV1 of the corpus, a ViT and a text
encoder (`benchmarks.repair.encoders`). Random weights: a decoder like Llama of 4 layers, and what `--model`
names, with normal values or words.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onnxq
from benchmarks.attention import texts
from benchmarks.nets import llama
from benchmarks.repair.nets import nets
from benchmarks.repair.printing import claim, table
from onnxq.graph.model import Model
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.run import ort
from onnxq.run.compare import compare_models

FORMATS = "int8", "fp8", "int8,fp8"
_FITTING, _JUDGING, _MANY = 64, 32, 200
_TRAINED = "digits", "CONV_mobilenetv1_0.25_224_keras", "vit", "text"
_NEAR_DB = 0.5  # by less two runs of other samples differ as well

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    model: Path | onnx.ModelProto
    fitting: Sequence[Feeds]
    judging: Sequence[Feeds]
    classes: bool = False


def _cases(wanted: Sequence[str], models: Sequence[Path]) -> Iterator[_Case]:
    for net in nets([name for name in _TRAINED if not wanted or name in wanted]):
        split = net.drawn(0, _FITTING)
        yield _Case(net.name, net.model(0), split.fitting, split.judging[:_MANY], net.classes)
    for tokens in (32, 512):
        if not wanted or f"llama {tokens}" in wanted:
            yield _Case(
                f"llama {tokens}", llama(tokens), texts(0, _FITTING, tokens), texts(1, _JUDGING, tokens)
            )
    for path in models:
        yield _Case(path.name, path, _made_up(path, 0, _FITTING), _made_up(path, 1, _JUDGING))


def _made_up(path: Path, seed: int, count: int) -> list[Feeds]:
    """Normal values, and whole numbers from 0 to 999; masks are 1."""
    random, inputs = np.random.default_rng(seed), Model.open(path).inputs

    def values(dtype: np.dtype, shape: Sequence[Any]) -> np.ndarray:
        size = [dim if isinstance(dim, int) else 1 for dim in shape]
        if dtype.kind == "f":
            return random.standard_normal(size).astype(dtype)
        return random.integers(0, 1000, size).astype(dtype)

    def made(name: str, dtype: np.dtype, shape: Sequence[Any]) -> np.ndarray:
        found = values(dtype, shape)
        return np.ones_like(found) if "mask" in name else found * ("type" not in name)

    return [{one.name: made(one.name, one.dtype, one.shape or ()) for one in inputs} for _ in range(count)]


def _row(case: _Case, format: str) -> dict[str, Any]:
    """What a format makes of a net."""
    began = time.perf_counter()
    made = onnxq.quantize(
        case.model, list(case.fitting), number_format=format, prove="never", layer_samples=0
    )
    took = time.perf_counter() - began
    floats, quantized = ort.load(case.model), ort.load(made.model)
    meter = AboutMeanMeter(floats.outputs)
    compare_models(floats, quantized, case.judging, meters=[meter])
    kept = None
    if case.classes:
        pairs = ([one.run(feeds)[0].argmax() for one in (floats, quantized)] for feeds in case.judging)
        kept = sum(int(a == b) for a, b in pairs)
    report = made.report
    both = None if report.verdict is None else report.verdict.merged
    sizes = [] if both is None else [one.moved_mb + one.weights_mb for one in (both.int8, both.fp16)]
    layers = {name: sum(x.format == name for x in report.plan.layers) for name in ("int8", "fp8", "float")}
    return {
        "layers": layers, "run": report.engine.int8, "planned": report.engine.planned,
        "not_run": report.engine.not_int8, "db": meter.result().worst_output_db, "kept": kept,
        "judged": len(case.judging), "bytes": sizes[0] / sizes[1] if sizes else None, "seconds": took,
        "tried": None if report.plan.formats is None else report.plan.formats.to_dict(),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed")
    parser.add_argument("nets", nargs="*", metavar="NET", help="by name; all without any")
    parser.add_argument("--model", nargs="+", type=Path, default=[], metavar="X.onnx")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write what was found; it goes on from there"
    )
    asked = parser.parse_args()
    rows: dict[str, Any] = json.loads(asked.json.read_text()) if asked.json and asked.json.is_file() else {}
    names = asked.nets or ([] if not asked.model else ["none"])
    for case in _cases(names, asked.model):
        for format in FORMATS:
            key = f"{case.name}: {format}"
            if key not in rows:
                rows[key] = _row(case, format)
                print(key, rows[key], file=sys.stderr, flush=True)
                if asked.json:
                    asked.json.write_text(json.dumps(rows, indent=1), "utf-8")
    titles = ["net", "layers int8, FP8, float", "worst output, dB", "answers", "bytes / float16", "s"]
    table(titles, [_line(name, row) for name, row in rows.items()])
    behind = [
        name for name in dict.fromkeys(key.rpartition(":")[0] for key in rows) if _is_behind(rows, name)
    ]
    claim("the mix is not behind the better of both at equal bytes", not behind, ", ".join(behind) or "none")
    return 0


def _is_behind(rows: Mapping[str, Any], name: str) -> bool:
    """Whether a format alone is nearer, for no more bytes."""
    *alone, mix = (rows[f"{name}: {format}"] for format in FORMATS if f"{name}: {format}" in rows)
    if mix["bytes"] is None or len(alone) < len(FORMATS) - 1:
        return False
    return any(
        one["db"] > mix["db"] + _NEAR_DB and one["bytes"] is not None and one["bytes"] <= mix["bytes"] + 0.005
        for one in alone
    )


def _line(name: str, row: Mapping[str, Any]) -> list[str]:
    layers = ", ".join(str(row["layers"][one]) for one in ("int8", "fp8", "float"))
    kept = "" if row["kept"] is None else f"{row['kept']} of {row['judged']}"
    moved = "" if row["bytes"] is None else f"{row['bytes']:.2f}"
    return [name, layers, f"{row['db']:.1f}", kept, moved, f"{row['seconds']:.0f}"]


if __name__ == "__main__":
    sys.exit(main())
