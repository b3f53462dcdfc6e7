"""What a report says of accuracy beside what hundreds of other samples say: `python -m benchmarks.said`.

Each net is quantized on a few of its samples, and its report says how near the outputs are, with 95 %
intervals. Its other samples judge. ONNXQ_CORPUS names the folder of nets, ONNXQ_IMAGENET one of photographs,
one a class; without one, its nets are left out. All nets of photographs are fed these: what one that finds
faces makes of them hangs on the few that have one, and is harder to know.

The first table is of whole runs. The second draws so many of the samples that judge again and again, and
counts how often their interval holds what all of them say. Those that judge are not all there are: an
interval of n samples is taken sqrt(1 + n / judges) times as wide in the first table, and
sqrt(1 - n / judges) in the second, where they are among these.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

import onnxq
from benchmarks import corpus_data
from benchmarks.repair.printing import claim, table
from benchmarks.sensitivity.trained import DIGITS
from onnxq.judge.about_mean import AboutMeanGroups, AboutMeanPart
from onnxq.judge.intervals import Interval
from onnxq.run import ort

Feeds = dict[str, np.ndarray]

JUDGES = 500
DRAWN = (8, 16, 64)
DRAWS = 200
LEAST = 0.9
"""How often an interval of 95 % has to hold, all nets together: their runs are few."""

OF_CORPUS = ("mnist_cntk_ortie", "cifar10_pytorch_winml")
OF_PHOTOGRAPHS = (
    "CONV_mobilenetv1_0.25_224_keras", "CONV_squeezenet_winml_fp32", "mobilenetv2_0.35_128_flowers_st",
    "ppocr_cls_v2", "osf_mnv3_detection", "ultraface_rfb320", "yunet_120x160",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pool:
    """A net and its samples.

    Attributes:
        name: its name.
        model: its file.
        count: how many samples there are.
        sample: one of them.
    """

    name: str
    model: Path
    count: int
    sample: Callable[[int], Feeds]


class Pair(NamedTuple):
    """The outputs of a sample."""

    exact: list[np.ndarray]
    given: list[np.ndarray]


class Run(NamedTuple):
    """A net quantized on some samples, judged on others.

    Attributes:
        said: what the report says.
        judged: what the others say.
        agreement: in which share of samples the argmax agrees, as said, its interval, and judged; None where
            the first output has no classes.
        pairs: the outputs on those that judge.
        outputs: their names.
    """

    said: AboutMeanPart
    judged: AboutMeanPart
    agreement: tuple[float, Interval | None, float] | None
    pairs: Sequence[Pair]
    outputs: Sequence[str]


def pools(globs: Sequence[str]) -> Iterator[Pool]:
    """Those whose names match."""
    return (one for one in _all() if any(fnmatch.fnmatchcase(one.name, glob) for glob in globs))


def _all() -> Iterator[Pool]:
    digits = np.load(DIGITS / "test.npz")["image"]
    yield Pool("digits", DIGITS / "digits.onnx", len(digits), lambda place: {"image": digits[place][None]})
    folder, photographs = os.environ.get("ONNXQ_CORPUS"), os.environ.get("ONNXQ_IMAGENET")
    if folder is None:
        print("ONNXQ_CORPUS is not set: only the sample model")
        return
    corpus = Path(folder)
    entries = {entry["name"]: entry for entry in json.loads((corpus / "manifest.json").read_text("utf-8"))}
    for name in OF_CORPUS:
        every = corpus_data.whole(corpus, entries[name])
        yield Pool(name, corpus / "models" / f"{name}.onnx", len(every), every.__getitem__)
    if photographs is None:
        print("ONNXQ_IMAGENET is not set: no nets of photographs")
        return
    files = sorted(path for path in Path(photographs).iterdir() if path.suffix.lower() in (".jpeg", ".jpg"))
    for name in OF_PHOTOGRAPHS:
        yield _of_photographs(name, corpus, files, corpus_data.photographed(entries[name]))


def _of_photographs(
    name: str, corpus: Path, files: Sequence[Path], taken: tuple[str, list[int], corpus_data.Pixels] | None
) -> Pool:
    assert taken is not None
    return Pool(
        name,
        corpus / "models" / f"{name}.onnx",
        len(files),
        lambda place: corpus_data.fed(Image.open(files[place]), *taken),
    )


def run(pool: Pool, seed: int, samples: int) -> Run:
    """Quantizes a net on so many samples, and judges it on others."""
    order = np.random.default_rng(seed).permutation(pool.count)
    given = [pool.sample(place) for place in order[:samples]]
    made = onnxq.quantize(pool.model, given, compile=False, body="fp32", layer_samples=0)
    original, quantized = ort.load(pool.model), ort.load(made.model)
    outputs, pairs, meter = original.outputs, list[Pair](), AboutMeanGroups(original.outputs)
    for place in order[samples : samples + JUDGES]:
        fed = pool.sample(place)
        exact, found = (
            [np.asarray(value, np.float32) for value in one.run({n: fed[n] for n in one.inputs}, outputs)]
            for one in (original, quantized)
        )
        meter.add(exact, [found])
        pairs.append(Pair(exact, found))
    said, first, agreement = made.report.about_mean, made.report.accuracy[0], None
    assert said is not None
    if first.top1 is not None and first.output == outputs[0]:
        same = np.mean([one.exact[0].argmax(-1) == one.given[0].argmax(-1) for one in pairs])
        agreement = first.top1, first.top1_interval, float(same)
    return Run(said, meter.result(), agreement, pairs, outputs)


def holds(value: float | None, interval: Interval | None, true: float | None, factor: float) -> bool:
    """Whether an interval, so many times as wide, holds what is true."""
    if value is None or interval is None or true is None:
        return False
    return value - factor * (value - interval.low) <= true <= value + factor * (interval.high - value)


def drawn(one: Run, count: int) -> tuple[list[bool], float]:
    """How often intervals of so many samples hold, of all outputs and of each; and their mean width, dB."""
    random, true, held, widths = np.random.default_rng(count), one.judged, list[bool](), list[float]()
    factor = math.sqrt(1 - count / len(one.pairs))
    for _ in range(DRAWS):
        meter = AboutMeanGroups(one.outputs)
        for place in random.permutation(len(one.pairs))[:count]:
            meter.add(one.pairs[place].exact, [one.pairs[place].given])
        found = meter.result()
        held.append(holds(found.sqnr_about_mean_db, found.interval, true.sqnr_about_mean_db, factor))
        widths += [] if found.interval is None else [found.interval.high - found.interval.low]
    return held, float(np.mean(widths)) if widths else math.nan


def _line(pool: Pool, seed: int, one: Run, inside: bool) -> list[str]:
    said, agreement = one.said, ""
    if one.agreement is not None:
        share, ends, judged = one.agreement
        ends = ends or Interval(math.nan, math.nan)
        agreement = f"{100 * share:.1f} ({100 * ends.low:.1f} to {100 * ends.high:.1f}), {100 * judged:.1f}"
    ends = said.interval or Interval(math.nan, math.nan)
    return [
        f"{pool.name} {seed}", str(said.samples), f"{said.sqnr_about_mean_db or math.nan:.1f}",
        f"{ends.low:.1f} to {ends.high:.1f}", f"{one.judged.sqnr_about_mean_db or math.nan:.1f}",
        "yes" if inside else "NO", agreement,
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.said")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="nets of these names")
    parser.add_argument("--splits", type=int, default=4, help="how many runs of each net")
    parser.add_argument("--samples", type=int, default=64, help="on how many samples each is quantized")
    given = parser.parse_args()
    runs, draws, inside, agreed, held = [], [], list[bool](), list[bool](), list[bool]()
    for pool in pools(given.only):
        for seed in range(given.splits):
            one = run(pool, seed, given.samples)
            said, wider = one.said, math.sqrt(1 + one.said.samples / len(one.pairs))
            level = said.sqnr_about_mean_db
            inside.append(holds(level, said.interval, one.judged.sqnr_about_mean_db, wider))
            if one.agreement is not None:
                agreed.append(holds(*one.agreement, wider))
            runs.append(_line(pool, seed, one, inside[-1]))
            print(" ".join(runs[-1]), flush=True)
        cells = []
        for count in DRAWN:
            found, width = drawn(one, count)
            held += found
            cells += [f"{100 * np.mean(found):.0f} %", f"{width:.1f}"]
        draws.append([pool.name, *cells])
    print(f"\nruns on {given.samples} samples: the SQNR about the mean, dB; the argmax, %\n")
    table(["net, split", "verify", "said", "interval", "judged", "inside", "argmax said, judged"], runs)
    print("\nhow often the interval of so many samples holds, and its mean width, dB\n")
    table(["net", *(title for count in DRAWN for title in (f"of {count}", "width"))], draws)
    print()
    for what, found in (("runs: SQNR", inside), ("runs: argmax", agreed), ("draws: SQNR", held)):
        if found:
            share = float(np.mean(found))
            claim(f"{what} inside in {LEAST:.0%} at least", share >= LEAST, f"{share:.1%} of {len(found)}")


if __name__ == "__main__":
    main()
