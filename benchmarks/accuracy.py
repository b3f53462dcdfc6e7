"""Predicted against measured SQNR about the mean: random subsets of the sources of trained nets.

    python -m benchmarks.accuracy [--nets digits,...] [--samples 128] [--subsets 20] [--seed 0] [--json
    out.json]

Of each net the sources are measured on samples that calibrated nothing; then random halves of them are on,
all together (with those that no file can remove without them), and the outputs' SQNR is compared with what
the noise model says. Beside it is what adding the sources' powers says. The standard deviation has to be at
most 0.5 dB, no difference more than 1.5 dB, and no source may cost more than 1.2 runs of the quantized net.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.sensitivity.trained import Subject, subjects
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.sqnr import limited_db
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.jobs import accuracy
from onnxq.run.piecewise import Setting

GIVEN = 512  # samples, of which a quarter measures and an eighth verifies
SD, WORST, RUNS = 0.5, 1.5, 1.2


@dataclass(frozen=True, slots=True)
class Row:
    """What a net showed.

    Attributes:
        net: its name.
        samples: how many samples measured.
        sources: how many sources it has.
        runs: runs of the quantized net for each source and sample.
        cpu: CPU seconds of the measurement.
        sqnr_db: measured with all sources on.
        mean: predicted less measured dB, the mean over the subsets.
        sd: its standard deviation.
        worst: the greatest difference.
        adding_sd: the standard deviation where powers are added.
        adding_worst: the greatest difference then.
    """

    net: str
    samples: int
    sources: int
    runs: float
    cpu: float
    sqnr_db: float
    mean: float
    sd: float
    worst: float
    adding_sd: float
    adding_worst: float

    @property
    def holds(self) -> bool:
        """Whether it is as it has to be."""
        return self.sd <= SD and self.worst <= WORST and self.runs <= RUNS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--subsets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(
        f"{'net':34}{'samples':>8}{'sources':>8}{'runs/src':>9}{'CPU s':>7}{'all dB':>8}"
        f"{'mean':>7}{'sd':>6}{'worst':>7}   adding powers: sd, worst"
    )
    rows = []
    for subject in subjects(given.nets.split(",") if given.nets else None, given.seed, GIVEN):
        row = measured(subject, given.samples, given.subsets, given.seed)
        rows.append(row)
        print(
            f"{row.net[:33]:34}{row.samples:>8}{row.sources:>8}{row.runs:>9.2f}{row.cpu:>7.1f}"
            f"{row.sqnr_db:>8.1f}{row.mean:>+7.2f}{row.sd:>6.2f}{row.worst:>7.2f}"
            f"   {row.adding_sd:.2f}, {row.adding_worst:.2f}   {'ok' if row.holds else 'MISSED'}",
            flush=True,
        )
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


def measured(subject: Subject, samples: int, subsets: int, seed: int) -> Row:
    """Measures the sources of a net, and random subsets of them."""
    with accuracy(
        subject.model, subject.samples, Asked(samples=samples), body="fp32", prove="never"
    ) as found:
        start = time.process_time()
        model = found.model
        spent = time.process_time() - start
        rng = np.random.default_rng(seed)
        on = rng.random((subsets, len(model.sources))) < 0.5
        on[0] = True
        on = model.sources.closed(on)
        exact = of_sources(found, on)
    predicted = np.array([limited_db(noise) for noise in model.noises(on)])
    added = np.array([limited_db(float(np.diag(model.gram) @ row)) for row in on])
    off, adding = predicted - exact, added - exact
    return Row(
        subject.name, model.effort.samples, len(model.sources), model.effort.runs_per_source, spent,
        float(exact[0]), float(off.mean()), float(off.std()), float(np.abs(off).max()),
        float(adding.std()), float(np.abs(adding).max()),
    )  # fmt: skip


def of_sources(found: Accuracy, on: np.ndarray) -> np.ndarray:
    """The measured SQNR about the mean of subsets of the sources, bool [subsets, sources], dB."""
    model, copy = found.model, found.copy
    edges = [frozenset((e.node, e.input) for e in source.edges) for source in model.sources.entries]
    whole = copy.piecewise.edges
    settings = [Setting(whole)]
    for row in on:
        kept = frozenset().union(*(edges[place] for place in np.flatnonzero(row)))
        settings.append(Setting(whole - kept))
    meter = AboutMeanMeter(copy.outputs, len(on))
    for feeds in islice(found.samples(), model.effort.samples):
        exact, *given = copy.piecewise.run_each({n: feeds[n] for n in copy.inputs}, settings)
        meter.add(exact, given)
    levels = [meter.result(place).sqnr_about_mean_db for place in range(len(on))]
    return np.array([np.nan if level is None else level for level in levels])


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
