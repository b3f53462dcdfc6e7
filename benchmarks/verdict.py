"""The verdict on int8 beside published latencies: `python -m benchmarks.verdict --engines DIR`.

    python -m benchmarks.published --out DIR     # compiles the networks of the pairs, in float16 and in int8
    python -m benchmarks.verdict --engines DIR [--markdown]

Each network is judged with constants and a band that are fitted on the pairs of all others; those fitted on
all pairs are what `onnxq/compiled/verdict.py` has. int8 is what `onnxq quantize` makes of a network, merged
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
from onnxq.compiled.verdict import BAND, CONSTANTS, Says, says
from onnxq.run.engine_log import EngineLayer, EngineTensor

MEMORY = 0.75
"""The share of the memory's bandwidth, which is not fitted: ratios do not change when all constants do."""

PRIOR = Constants(start_us=3.0, memory=MEMORY, cache=4.0, fp16=0.5, int8=0.4)
WEIGHT = 0.005
"""How much the logarithm of a constant that is e times that of `PRIOR` counts as a squared error."""

NINE_IN_TEN = 1.2816
"""Of normal deviates nine in ten are below this one."""

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
    print(f"\non all: {constants}, band {band(every, constants):.3f}")
    print(f"shipped: {CONSTANTS}, band {BAND:.3f}")


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


def band(found: Sequence[Engines], constants: Constants) -> float:
    """How far from 1 a ratio has to be to decide: what nine in ten errors to one side are less than."""
    return math.exp(NINE_IN_TEN * math.sqrt(float(weights(found) @ errors(found, constants) ** 2))) - 1


# --- judging --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A pair, judged with what all other networks say.

    Attributes:
        engines: the pair.
        ratio: how many times as fast int8 is said to be.
        band: around 1.
        says: "faster", "slower" or "undecided".
    """

    engines: Engines
    ratio: float
    band: float
    says: Says

    @property
    def wrong(self) -> bool:
        """Whether what was measured says the contrary."""
        gain = self.engines.pair.gain
        return (self.says == "faster" and gain < 1) or (self.says == "slower" and gain > 1)


def judged(found: Sequence[Engines]) -> list[Row]:
    """Each pair, judged with constants and a band that are fitted without its network."""
    rows = {}
    for net in dict.fromkeys(one.pair.net for one in found):
        others = [one for one in found if one.pair.net != net and one.counts]
        constants = fitted(others)
        around = band(others, constants)
        for one in found:
            if one.pair.net == net:
                ratio = one.ratio(constants)
                rows[one.pair.id] = Row(one, ratio, around, says(ratio, ratio, around))
    return [rows[one.pair.id] for one in found]


def summary(rows: Sequence[Row]) -> str:
    """How many are decided, and how many of those wrong."""
    decided = [row for row in rows if row.says != "undecided"]
    wrong = [row.engines.pair.id for row in decided if row.wrong]
    nets = len({row.engines.pair.net for row in rows})
    return f"{len(rows)} pairs of {nets} networks, {len(decided)} decided, {len(wrong)} wrong {wrong or ''}"


def table(rows: Sequence[Row], *, markdown: bool) -> str:
    """The pairs: what was published, what is said."""
    head = ("network", "GPU", "batch", "TensorRT", "published", "estimated", "band", "says")
    lines = [head]
    for row in rows:
        pair = row.engines.pair
        verdict = row.says + (" (wrong)" if row.wrong else "")
        name = f"[{pair.net}]({pair.source})" if markdown else pair.net
        lines.append(
            (
                name, pair.gpu, str(pair.batch), pair.compiler, f"{pair.gain:.2f}", f"{row.ratio:.2f}",
                f"{row.band:.2f}", verdict,
            )
        )  # fmt: skip
    if markdown:
        lines.insert(1, ("---",) * len(head))
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


if __name__ == "__main__":
    main()
