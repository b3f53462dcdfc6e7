"""The user's metric: top-1 of MNIST and CIFAR-10 with `--max-drop 0.1`, from default and from spoiled scales.

    python -m benchmarks.sensitivity.top1 [--nets cifar10_pytorch_winml] [--seeds 1] [--rows out.jsonl]

2,000 labelled images judge; others calibrate and choose. Scales are spoiled by stated ranges of what the
layers read, wider than what was measured or narrower, from layer to layer and more from try to try, until
top-1 falls by at least a point. What the goal writes is scored again in onnxruntime, by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onnxq
from benchmarks.sensitivity.measuring import flags, printed
from onnxq.analysis.reports import part_of
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import PlanPart
from onnxq.options.config import LayerRule
from onnxq.run import ort

NETS = ("mnist_cntk_ortie", "cifar10_pytorch_winml")
JUDGING, CALIBRATING, CHOOSING = 2000, 256, 2000
MAX_DROP, SPOILED = 0.1, 1.0  # points
OPTIONS: dict[str, Any] = {"body": "fp32", "prove": "never", "compile": False, "repair": "none"}
STEPS, HALVINGS = 10, 2  # of the powers of two that spoil

Feeds = dict[str, np.ndarray]
Callee = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


@dataclass(frozen=True, slots=True)
class Row:
    """What a goal made of a net; all scores on the images that judge, in percent.

    Attributes:
        net: its name.
        scales: default, or how they are spoiled.
        float_top1: of the float model.
        int8: with all in int8.
        result: of what was written, as the tool says.
        again: of the same file in onnxruntime.
        layers: how many nodes are float for the goal.
        share: which share of the int8 multiply-accumulates that is, in percent.
        trials: how many sets were scored.
        holds: whether the goal is met, and the file's score is what is said.
    """

    net: str
    scales: str
    float_top1: float
    int8: float
    result: float
    again: float
    layers: int
    share: float
    trials: int
    holds: bool


@dataclass(frozen=True, slots=True)
class Labelled:
    """Images of a data set.

    Attributes:
        name: the model's input.
        images: what the net is fed, float32 [images, ...], each of one sample.
        labels: int [images].
        batch: how many the model takes at once.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    batch: int

    def top1(self, model: Callee, part: slice) -> float:
        """In percent."""
        images, labels = self.images[part], self.labels[part]
        right = 0
        for start in range(0, len(images), self.batch):
            one = np.concatenate(images[start : start + self.batch])
            (logits,) = model({self.name: one}).values()
            right += int((logits.reshape(len(one), -1).argmax(-1) == labels[start : start + len(one)]).sum())
        return 100 * right / len(images)


def labelled(net: str, seed: int) -> Labelled:
    """The images in an order of a seed."""
    data = Path(os.environ["ONNXQ_CORPUS"], "data")
    if net.startswith("mnist"):
        found = np.load(data / "mnist_5000.npz")
        name, images, batch = "Input3", found["images"][:, None, None].astype(np.float32), 1
    else:
        found = np.load(data / "cifar10_2500.npz")
        images = (found["images"].transpose(0, 3, 1, 2)[:, None] / 127.5 - 1).astype(np.float32)
        name, batch = "modelInput", 100
    order = np.random.default_rng(seed).permutation(len(images))
    return Labelled(name, images[order], found["labels"][order].astype(int), batch)


def main() -> None:
    given = flags(__doc__, NETS)
    for seed in range(given.seeds):
        printed((row for net in given.nets for row in rows(net, seed)), given.rows)


def rows(net: str, seed: int) -> Iterator[Row]:
    """A net by default, and from spoiled scales."""
    data = labelled(net, seed)
    model = Path(os.environ["ONNXQ_CORPUS"], "models", f"{net}.onnx")
    samples = [{data.name: image} for image in data.images[JUDGING : JUDGING + CALIBRATING]]
    yield sought(net, "default", model, samples, data, ())
    whole = data.top1(_session(model), slice(JUDGING))
    ranges = stated(model, samples)

    def fails(factor: float) -> bool:
        result = onnxq.quantize(model, samples, layers=spoiled(ranges, factor, seed), **OPTIONS)
        return whole - data.top1(_session(result.model), slice(JUDGING)) >= SPOILED

    for kind, sign in (("wider", 1), ("narrower", -1)):
        factor = 2.0 ** (sign * least(lambda power, sign=sign: fails(2.0 ** (sign * power))))
        yield sought(net, f"{kind}, {factor:.3g} times", model, samples, data, spoiled(ranges, factor, seed))


def least(fails: Callable[[float], bool], most: int = STEPS, halvings: int = HALVINGS) -> float:
    """The least power of two that fails, about: the first whole one, then halved; `most` where none does."""
    enough = float(next((power for power in range(1, most) if fails(float(power))), most))
    few = enough - 1
    for _ in range(halvings):
        middle = (few + enough) / 2
        few, enough = (few, middle) if fails(middle) else (middle, enough)
    return enough


def spoiled(ranges: Mapping[str, float], factor: float, seed: int) -> tuple[LayerRule, ...]:
    """Ranges of layers' inputs that are stated: times the factor to a power of 0 to 1, drawn."""
    random = np.random.default_rng(seed)
    powers = random.permutation(np.linspace(0, 1, len(ranges))) if len(ranges) > 1 else np.ones(1)
    return tuple(
        LayerRule(match=(node,), amax=float(amax * factor**power), index=number)
        for number, ((node, amax), power) in enumerate(zip(ranges.items(), powers, strict=True), 1)
    )


def stated(model: Path, samples: list[Feeds]) -> dict[str, float]:
    """The range of what each int8 layer reads, as it is by default."""
    report = onnxq.quantize(model, samples, **OPTIONS).report
    plan, scales = part_of(PlanPart, report.plan), part_of(CalibrationPart, report.calibration).scales
    int8 = {layer.node for layer in plan.layers if layer.format == "int8"}
    return {
        reader.node: 127 * scales[site.tensor]
        for site in plan.sites
        for reader in site.readers
        if site.kind == "activation" and reader.node in int8
    }


def sought(
    net: str,
    scales: str,
    model: Path,
    samples: list[Feeds],
    data: Labelled,
    rules: tuple[LayerRule, ...],
) -> Row:
    """What `--max-drop 0.1` makes of it."""
    parts = {"verify": slice(JUDGING), "choose": slice(JUDGING, JUDGING + CHOOSING)}

    def top1(model: Callee, part: str) -> float:
        return data.top1(model, parts[part])

    result = onnxq.quantize(
        model, samples, layers=rules, goal={"max_drop": MAX_DROP, "eval": top1}, **OPTIONS
    )
    goal = result.report.goal
    assert goal is not None
    assert goal.scores is not None
    search, scores = goal.search, goal.scores
    took = (
        (0, 0.0, 0) if search is None else (len(search.floats), search.share_of_int8_macs, len(search.trials))
    )
    again = data.top1(_session(result.model), slice(JUDGING))
    return Row(
        net, scales, scores.floating, scores.int8, scores.result, again, took[0], 100 * took[1], took[2],
        goal.met and abs(again - scores.result) <= 0.05,
    )  # fmt: skip


def _session(model: Any) -> Callee:
    session = ort.load(model)
    return lambda feeds: dict(zip(session.outputs, session.run(feeds), strict=True))


if __name__ == "__main__":
    main()
