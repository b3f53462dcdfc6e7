"""What calibration costs over the plain forward passes, with other tools' calibrators beside it.

    python -m benchmarks.calibration [--nets resnet18,...] [--peers]

The samples take turns: the plain forward pass, then the calibrator, on one thread each, so that
whatever else the machine does meets both, and start-up is not in it. What a calibrator does after
the last sample is not in it either. With two threads it is the time on the wall instead.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import nets
from benchmarks.calib_peers import IN_MEMORY, peer_rows, print_peer
from benchmarks.common import print_row, ratio_of
from benchmarks.memory import peak_mib
from benchmarks.nets.feeds import feeds as feeds_of
from onnxq.calib.collect import Counting, Request, collect
from onnxq.data.samples import Sample
from onnxq.graph.model import Model
from onnxq.quant.placement import make_plan
from onnxq.rule.load import load_rules, select
from onnxq.run import ort

SAMPLES, WARM_UP = 40, 4
EXPECTED = 512  # samples of a usual run, which decide how many rows are counted
GOALS: Mapping[tuple[str, str], float] = {
    ("resnet18", "none"): 1.2, ("resnet18", "sampled"): 1.3,
    ("mobilenet_v2", "none"): 1.9, ("mobilenet_v2", "sampled"): 2.3,
}  # fmt: skip
WORDS = {"none": "ranges (minmax)", "sampled": "sampled histograms (auto)", "exact": "all values (exact)"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets", default=",".join(nets.NETS))
    parser.add_argument("--peers", action="store_true")
    given = parser.parse_args()
    print(f"calibration: over plain forward passes, {SAMPLES} samples, start-up taken out")
    for name in given.nets.split(","):
        model = nets.NETS[name]()
        samples = list(feeds_of(name, 0, SAMPLES + WARM_UP))
        measured = _measured(model)
        print(f"  {name}: {len(measured)} tensors")
        for counting in ("none", "sampled", "exact"):
            goal = GOALS.get((name, counting))
            _print(f"    {WORDS[counting]}, CPU, 1 thread", model, measured, samples, counting, 1, goal)
        for counting in ("none", "sampled"):
            _print(f"    {WORDS[counting]}, wall, 2 threads", model, measured, samples, counting, 2, None)
        if given.peers:
            _print_peaks(model, samples)
            for row in peer_rows(model, samples):
                print_peer(row)


def _measured(model: onnx.ModelProto) -> tuple[str, ...]:
    """The tensors that `onnxq quantize` measures."""
    return make_plan(Model.open(model), select(load_rules()), ()).measured


def _print(
    what: str,
    model: onnx.ModelProto,
    measured: tuple[str, ...],
    samples: list[dict[str, np.ndarray]],
    counting: Counting,
    threads: int,
    goal: float | None,
) -> None:
    turns = Turns(model, samples, threads)
    request = Request(measured, counting, samples=EXPECTED)
    collect(model, request, turns, threads=threads)
    plain, other = turns.plain[WARM_UP:], turns.other[WARM_UP:]
    ratio, _ = ratio_of(other, plain)
    print_row(what, ratio, goal, f"{1e3 * np.median(other):.1f} / {1e3 * np.median(plain):.1f} ms a sample")


def _print_peaks(model: onnx.ModelProto, samples: list[dict[str, np.ndarray]]) -> None:
    """Prints the peak memory of `onnxq calibrate`, with as many samples as the others get."""
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        onnx.save(model, root / "net.onnx")
        for count in IN_MEMORY:
            data = root / str(count)
            data.mkdir()
            for index, feeds in enumerate(samples[:count]):
                np.savez(data / f"{index:04}.npz", **feeds)
            flags = ["--calib", data, "-o", root / f"{count}.stats.npz"]
            peaks.append(f"{peak_mib(['calibrate', root / 'net.onnx', *flags]):.0f} MiB with {count}")
    print(f"    {'onnxq calibrate':<24} {'':>18}   {', '.join(peaks)}", flush=True)


class Turns:
    """Samples for a calibrator, each run through the plain model first.

    Attributes:
        plain: the seconds of each plain forward pass: of CPU with one thread, else on the wall.
        other: the seconds from giving out a sample until the next one was asked for.
    """

    def __init__(self, model: onnx.ModelProto, samples: list[dict[str, np.ndarray]], threads: int) -> None:
        self.plain: list[float] = []
        self.other: list[float] = []
        self._samples = samples
        self._clock: Callable[[], float] = time.process_time if threads == 1 else time.perf_counter
        self._session: Any = ort.load(model, threads=threads)

    def __iter__(self) -> Iterator[Sample]:
        for index, feeds in enumerate(self._samples):
            start = self._clock()
            self._session.run(feeds)
            given = self._clock()
            yield Sample(index, str(index), feeds)
            self.plain.append(given - start)
            self.other.append(self._clock() - given)


if __name__ == "__main__":
    main()
