"""Every calibration method on every net: the SQNR of the outputs on samples that nothing else used.

    python -m benchmarks.methods [--nets resnet18,...] [--seeds 3] [--json out.json]

Of each net the small form, and trained models of ONNXQ_CORPUS where it is set. A seed draws the
samples: some calibrate, once for all methods, some choose, as `onnxq quantize` divides them, and 256
others measure. `auto` must not be more than 0.3 dB under the best single method, beyond that
method's spread over the seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import onnxq
from benchmarks import nets
from benchmarks.corpus_data import drawn
from benchmarks.nets.feeds import feeds as feeds_of
from onnxq.judge.acceptance import Levels
from onnxq.run import ort
from onnxq.run.candidates import heard
from onnxq.run.compare import Recording

GIVEN, MEASURED = 448, 256
METHODS = (
    "minmax",
    "average",
    "percentile 99.9",
    "percentile 99.99",
    "percentile 99.999",
    "entropy",
    "mse",
    "auto",
)
MARGIN = 0.3  # dB
TRAINED = (
    "mnist_cntk_ortie", "cifar10_pytorch_winml", "CONV_squeezenet_winml_fp32",
    "CONV_mobilenetv1_0.25_224_keras", "mobilenetv2_0.35_128_flowers_st", "ultraface_rfb320",
    "yunet_120x160", "person_reid_0248",
    "osf_mnv3_detection",
)  # fmt: skip

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, and what draws samples for it."""

    name: str
    model: onnx.ModelProto | Path
    entry: dict | None = None

    def samples(self, seed: int, count: int) -> Iterator[Feeds]:
        """So many samples."""
        if self.entry is None:
            return feeds_of(self.name, seed, count, small=True)
        return drawn(Path(os.environ["ONNXQ_CORPUS"]), self.entry, seed, count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(f"methods: SQNR of the outputs, dB, over {given.seeds} seeds, on {MEASURED} unseen samples")
    print(f"{'':32}" + "".join(f"{method:>19}" for method in METHODS) + "   auto - best")
    table: dict[str, dict[str, list[float]]] = {}
    for subject in _subjects(given.nets.split(",") if given.nets else None):
        columns = [_sqnrs(subject, seed) for seed in range(given.seeds)]
        rows = {method: [column[method] for column in columns] for method in METHODS}
        table[subject.name] = rows
        _print(subject.name, rows)
    if given.json is not None:
        given.json.write_text(json.dumps(table, indent=1))


def _subjects(wanted: Sequence[str] | None) -> Iterator[Subject]:
    for name, make in nets.NETS.items():
        if wanted is None or name in wanted:
            yield Subject(name, make(small=True))
    corpus = os.environ.get("ONNXQ_CORPUS")
    if corpus is None:
        print("ONNXQ_CORPUS is not set: no trained models")
        return
    entries = {entry["name"]: entry for entry in json.loads(Path(corpus, "manifest.json").read_text())}
    for name in TRAINED:
        if name in entries and (wanted is None or name in wanted):
            yield Subject(name, Path(corpus, "models", f"{name}.onnx"), entries[name])


def _sqnrs(subject: Subject, seed: int) -> dict[str, float]:
    """The SQNR of the outputs by method, the mean over the outputs."""
    samples = list(subject.samples(seed, GIVEN + MEASURED))
    given, unseen = samples[:GIVEN], samples[GIVEN:]
    reference = Recording.of(ort.load(subject.model), unseen)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder, "x.stats.npz")
        onnxq.calibrate(subject.model, given, stats, seed=seed)
        for method in METHODS:
            name, _, percentile = method.partition(" ")
            result = onnxq.quantize(
                subject.model,
                given if name == "auto" else None,
                repair="none",
                method=name,  # type: ignore[arg-type]
                percentile=float(percentile or 99.99),
                stats=stats,
                seed=seed,
                compile=False,
                prove="never",
            )
            quantized = ort.load(result.model, data_dir=result.data_dir)
            reference.rewind()
            level = Levels.of(heard(reference, quantized, unseen, [{}])).sqnr_db
            found[method] = math.nan if level is None else level
    return found


def _print(name: str, rows: dict[str, list[float]]) -> None:
    means = {method: float(np.mean(levels)) for method, levels in rows.items()}
    cells = "".join(f"{means[m]:>12.2f} ±{np.std(rows[m]):>5.2f}" for m in METHODS)
    best = max((m for m in METHODS if m != "auto"), key=means.__getitem__)
    lead = means["auto"] - means[best]
    allowed = MARGIN + float(np.std(rows[best]))
    print(
        f"{name[:31]:32}{cells}   {lead:+.2f} ({best}) {'ok' if lead >= -allowed else 'MISSED'}", flush=True
    )


if __name__ == "__main__":
    main()
