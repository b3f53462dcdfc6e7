"""The estimate of the speed of int8 beside published latencies: `python -m benchmarks.verdict --engines DIR`.

    python -m benchmarks.published --out DIR     # compiles the networks of the pairs, in float16 and in int8
    python -m benchmarks.verdict --engines DIR [--markdown]

Each network is estimated with constants that are fitted on the pairs of all others; those fitted on all pairs
are what `onnxq/compiled/verdict.py` has. Beside it stands the least that an estimate has to beat: one ratio
for all networks, fitted likewise. int8 is what `onnxq quantize` makes of a network, merged
as an engine that is built on a GPU has it; a pair is of whatever the source quantized.

Two kinds of pairs are listed, and are not fitted: those of TensorRT before 8.4, whose kernels are others
(no fused attention in int8, no tensor cores for products of activations in int8, slow dilated depthwise
convolutions), and those of Q/DQ pairs that are known to be at other places than ours, so that the int8 engine
that was measured is not the one that is judged.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.published.pairs import PAIRS, Pair
from onnxq.compiled.gpus import Gpu, gpus, read_gpus
from onnxq.compiled.kernels import Kernel, kernels_of
from onnxq.compiled.merged import merged
from onnxq.compiled.roofline import Constants, KernelWork, work_of
from onnxq.compiled.verdict import CONSTANTS
from onnxq.run.engine_log import EngineLayer, EngineTensor

MEMORY = 0.75
"""The share of the memory's bandwidth, which is not fitted: ratios do not change when all constants do."""

PRIOR = Constants(start_us=3.0, memory=MEMORY, cache=4.0, fp16=0.5, int8=0.4)
WEIGHT = 0.005
"""How much the logarithm of a constant that is e times that of `PRIOR` counts as a squared error."""

FITTED = ("start_us", "cache", "fp16", "int8")
OLD = ("7.", "8.0", "8.2")

ELSEWHERE = ("yester31-3060-resnet18-explicit",)
"""Pairs whose source says that Q/DQ stand elsewhere: no pair at the inputs of residual sums."""

Column = np.ndarray


@dataclass(frozen=True, slots=True)
class Engines:
    """What the two engines of a pair have to do, as arrays over kernels.

    Attributes:
        pair: what was published.
        gpu: where.
        fp16: memory, cached, macs, whether int8, starts: [5, kernels].
        int8: the same.
    """

    pair: Pair
    gpu: Gpu
    fp16: Column
    int8: Column

    @property
    def counts(self) -> bool:
        """Whether it is fitted."""
        return not self.pair.compiler.startswith(OLD) and self.pair.id not in ELSEWHERE

    def ratio(self, constants: Constants) -> float:
        """How many times as fast int8 is."""
        return self.seconds(self.fp16, constants) / self.seconds(self.int8, constants)

    def seconds(self, work: Column, constants: Constants) -> float:
        """`KernelWork.seconds` of all kernels."""
        memory, cached, macs, int8, starts = work
        gpu = self.gpu
        moving = (memory + cached / constants.cache) / (gpu.bandwidth_gbs * 1e9 * constants.memory)
        rate = np.where(int8, gpu.int8_tops * constants.int8, gpu.fp16_tops * constants.fp16) * 1e12
        return float((starts * constants.start_us * 1e-6 + np.maximum(moving, 2 * macs / rate)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict")
    parser.add_argument("--engines", type=Path, default=Path("published"), metavar="DIR")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    arguments = parser.parse_args()
    found = read(arguments.engines)
    rows = judged(found)
    print(table(rows, markdown=arguments.markdown))
    counted = [row for row in rows if row.engines.counts]
    print("\nfitted:", summary(counted))
    print("not fitted:", summary([row for row in rows if not row.engines.counts]))
    every = [row.engines for row in counted]
    constants = fitted(every)
    print(f"\non all: {constants}, one ratio for all: {one_ratio(every):.3f}")
    print(f"shipped: {CONSTANTS}")


# --- engines --------------------------------------------------------------------------------------


def read(folder: Path) -> list[Engines]:
    """The pairs whose engines are in a folder."""
    known = {gpu.title: gpu for gpu in gpus()}
    known |= {gpu.title: gpu for gpu in read_gpus(Path(__file__).with_name("verdict_gpus.toml")).values()}
    found, kept = [], dict[tuple[str, int], list[tuple[Kernel, ...]]]()
    for pair in PAIRS:
        paths = [folder / f"{pair.net}-b{pair.batch}-sm89-{kind}.json" for kind in ("fp16", "int8")]
        gpu = next(
            (gpu for title, gpu in known.items() if pair.gpu in (title, gpu.name, _short(title))), None
        )
        if gpu is None or not all(path.is_file() for path in paths):
            print(f"{pair.id}: left out, {'no such GPU' if gpu is None else 'not compiled'}")
            continue
        key = pair.net, pair.batch
        if key not in kept:
            kept[key] = [merged(kernels_of(_layers(path))) for path in paths]
        arrays = (_array(work_of(kernels, gpu.cache_mb)) for kernels in kept[key])
        found.append(Engines(pair, gpu, *arrays))
    return found


def _short(title: str) -> str:
    """A GPU as sources name it."""
    return title.removeprefix("Jetson ").removesuffix(" 40 GB").removesuffix(" 64 GB").removesuffix(" 8 GB")


def _layers(path: Path) -> tuple[EngineLayer, ...]:
    def tensors(entries: Sequence[Mapping[str, object]]) -> tuple[EngineTensor, ...]:
        return tuple(EngineTensor(e["name"], e["dtype"], tuple(e["shape"])) for e in entries)  # type: ignore[arg-type]

    entries = json.loads(path.read_text("utf-8"))["layers"]
    lists = ("inputs", "constants", "outputs")
    return tuple(
        EngineLayer(
            e["name"],
            e["kind"],
            e["precision"],
            *(tensors(e[k]) for k in lists),
            tuple(e["nodes"]),
            e["tactic"],
        )
        for e in entries
    )


def _array(works: Sequence[KernelWork]) -> Column:
    return np.array([[w.memory, w.cached, w.macs, w.precision == "int8", w.starts] for w in works], float).T


# --- fit ------------------------------------------------------------------------------------------


def errors(found: Sequence[Engines], constants: Constants) -> np.ndarray:
    """By how much the logarithm of each ratio is too great."""
    return np.array([math.log(one.ratio(constants) / one.pair.gain) for one in found])


def weights(found: Sequence[Engines]) -> np.ndarray:
    """The weight of each pair: all networks weigh the same."""
    count: dict[str, int] = {}
    for one in found:
        count[one.pair.net] = count.get(one.pair.net, 0) + 1
    given = np.array([1 / count[one.pair.net] for one in found])
    return given / given.sum()


def fitted(found: Sequence[Engines]) -> Constants:
    """The constants with the least mean squared error of the ratios' logarithms."""
    prior = np.log([getattr(PRIOR, name) for name in FITTED])
    share = weights(found)

    def constants(point: np.ndarray) -> Constants:
        values = dict(zip(FITTED, np.exp(point).tolist(), strict=True))
        return Constants(memory=MEMORY, **values)

    def loss(point: np.ndarray) -> float:
        found_errors = errors(found, constants(point))
        return float(share @ found_errors**2 + WEIGHT * ((point - prior) ** 2).sum())

    best, least, step = prior, loss(prior), 0.4
    while step > 0.01:  # along each constant and each pair of them, in ever smaller steps
        before = least
        for one in range(len(prior)):
            for other in range(one, len(prior)):
                for signs in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
                    move = np.zeros(len(prior))
                    move[one], move[other] = signs[0] * step, signs[1] * step
                    if (value := loss(best + move)) < least:
                        best, least = best + move, value
        if least > before - 1e-6:
            step /= 2
    return constants(best)


def one_ratio(found: Sequence[Engines]) -> float:
    """The one ratio with the least mean squared error of the logarithms, whatever the network is."""
    return math.exp(float(weights(found) @ np.log([one.pair.gain for one in found])))


def rms(found: Sequence[Engines], ratios: Sequence[float]) -> float:
    """The root mean square of the errors of the logarithms; all networks weigh the same."""
    off = np.log([ratio / one.pair.gain for one, ratio in zip(found, ratios, strict=True)])
    return math.sqrt(float(weights(found) @ off**2))


# --- judging --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A pair, estimated with what all other networks say.

    Attributes:
        engines: the pair.
        ratio: how many times as fast int8 is said to be.
        constant: the same by one ratio for all networks.
    """

    engines: Engines
    ratio: float
    constant: float


def judged(found: Sequence[Engines]) -> list[Row]:
    """Each pair, estimated with constants, and with one ratio, that are fitted without its network."""
    rows = {}
    for net in dict.fromkeys(one.pair.net for one in found):
        others = [one for one in found if one.pair.net != net and one.counts]
        constants, ratio = fitted(others), one_ratio(others)
        for one in found:
            if one.pair.net == net:
                rows[one.pair.id] = Row(one, one.ratio(constants), ratio)
    return [rows[one.pair.id] for one in found]


def summary(rows: Sequence[Row]) -> str:
    """How far off the estimate is, and one ratio for all; which slower pairs it calls faster."""
    found = [row.engines for row in rows]
    if not found:
        return "no pairs"
    slower = [row for row in rows if row.engines.pair.gain < 1]
    wrong = [row.engines.pair.id for row in slower if row.ratio > 1]
    return (
        f"{len(rows)} pairs of {len({one.pair.net for one in found})} networks, error of the logarithm "
        f"{rms(found, [row.ratio for row in rows]):.3f}, of one ratio for all "
        f"{rms(found, [row.constant for row in rows]):.3f}; {len(wrong)} of {len(slower)} slower ones said "
        f"to be faster {wrong or ''}"
    )


def table(rows: Sequence[Row], *, markdown: bool) -> str:
    """The pairs: what was published, what is estimated."""
    head = ("network", "GPU", "batch", "TensorRT", "published", "estimated")
    lines = [head]
    for row in rows:
        pair = row.engines.pair
        name = f"[{pair.net}]({pair.source})" if markdown else pair.net
        lines.append(
            (
                name, pair.gpu, str(pair.batch), pair.compiler, f"{pair.gain:.2f}", f"{row.ratio:.2f}",
            )
        )  # fmt: skip
    if markdown:
        lines.insert(1, ("---",) * len(head))
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


if __name__ == "__main__":
    main()
