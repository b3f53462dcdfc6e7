"""Twenty planted goals: met or said not decidable, and no int8 given away for less than is resolved.

    python -m benchmarks.goals [--only 'digits*']

| planted | what is so |
|---|---|
| resolution | a goal finer than the samples tell: nothing much may go to float |
| mismatch | the function feeds values of another scale than what calibrated |
| body | with all of int8 in float, half precision misses the goal |
| cause | a stated range spoils one layer |
| even | int8 spreads its noise evenly, and a few dB more are asked for |

Each layer that a goal left in float is given back alone, on the samples of the search and all others but
those that calibrated: it is needed where the goal is then not surely met. The nets but the digits are of
`ONNXQ_CORPUS`; photographs are of the folder that `ONNXQ_IMAGENET` names. What is not there is left out.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image

import onnxq
from benchmarks.repair.printing import claim, table
from onnxq.analysis.reports import part_of
from onnxq.documents.accuracy import GoalPart
from onnxq.documents.plan import PlanPart
from onnxq.judge.about_mean import AboutMeanGroups
from onnxq.judge.acceptance import Gain, Levels
from onnxq.judge.paired import SampleScores
from onnxq.judge.policies import GIVEN_AWAY, SURE
from onnxq.options.config import LayerRule
from onnxq.run import ort

DIGITS = Path(__file__).resolve().parent.parent / "sample_models" / "digits"
MOBILENET = "CONV_mobilenetv1_0.25_224_keras"
OPTIONS: dict[str, Any] = {"prove": "never", "compile": False, "repair": "none"}
CALIBRATING, CHOOSING, JUDGING = 128, 236, 236

Callee = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """A net and its samples.

    Attributes:
        name: what it is called.
        model: its file.
        input: the name of its input.
        samples: float32, one feed each, in the order of a seed.
        labels: the class of each; empty where they are not known.
    """

    name: str
    model: Path
    input: str
    samples: Sequence[np.ndarray]
    labels: np.ndarray

    def feeds(self, part: slice) -> list[dict[str, np.ndarray]]:
        """Samples by the input's name."""
        return [{self.input: one} for one in self.samples[part]]


@dataclass(frozen=True, slots=True, eq=False)
class Top1:
    """The user's function: 100 where a sample's class is right, else 0; or their mean.

    Attributes:
        net: the net.
        each: whether one score a sample is returned.
        factor: times which the values are fed.
        count: how many samples score.
    """

    net: Net
    each: bool = True
    factor: float = 1.0
    count: int = CHOOSING

    def __call__(self, model: Callee, part: str) -> Any:
        """The scores of the samples of a part."""
        start = CALIBRATING + (0 if part == "choose" else self.count)
        place = slice(start, start + self.count)
        right = [
            100.0
            * (next(iter(model({self.net.input: one * np.float32(self.factor)}).values())).argmax() == y)
            for one, y in zip(self.net.samples[place], self.net.labels[place], strict=True)
        ]
        return right if self.each else float(np.mean(right))


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """A goal, and what is planted.

    Attributes:
        net: the net.
        what: what is planted, of the table above.
        asked: the options of the goal.
        spoiled: times which the range of the first int8 layer's input is stated; 0: it is measured.
        calibrated: times which the values calibrate.
        above: dB above the model as it is by default, in the place of a goal in `asked`.
        more: other options.
    """

    net: Net
    what: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    spoiled: float = 0.0
    calibrated: float = 1.0
    above: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def quantized(self, rules: Sequence[LayerRule] = (), **asked: Any) -> onnxq.Result:
        """What the tool makes of it."""
        samples = [
            {self.net.input: one * np.float32(self.calibrated)} for one in self.net.samples[:CALIBRATING]
        ]
        every = (*self.rules, *rules)
        return onnxq.quantize(self.net.model, samples, layers=every, **{**OPTIONS, **self.more, **asked})

    @property
    def rules(self) -> tuple[LayerRule, ...]:
        """What spoils it."""
        if not self.spoiled:
            return ()
        node, amax = _first_layer(self.net)
        return (LayerRule(match=(node,), amax=self.spoiled * amax),)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a goal.

    Attributes:
        share: which share of the int8 work is float for it, 0 to 1.
        layers: how many layers that are.
        needless: those that are given back and leave it surely met.
        resolved: whether what was given away beyond a twentieth is surely nearer, on samples of ours.
    """

    planted: Planted
    goal: GoalPart
    body: str
    share: float
    layers: int
    needless: int
    resolved: bool

    @property
    def verdict(self) -> str:
        """What the tool says."""
        if self.goal.mismatch and not self.goal.met:
            return "mismatch"
        if self.goal.met:
            return "met"
        return "not decidable" if any(gate.undecided for gate in self.goal.gates) else "not met"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.goals")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="nets of these names")
    given = parser.parse_args()
    rows = []
    for planted in goals():
        if any(fnmatch.fnmatch(planted.net.name, one) for one in given.only):
            rows.append(measured(planted))
            print(f"... {planted.net.name}, {planted.what}: {rows[-1].verdict}", flush=True)
    table(
        ("net, planted", "goal", "says", "measured", "tells", "in float %", "layers", "needless", "body"),
        [_line(row) for row in rows],
    )
    said = [row for row in rows if row.verdict != "not met"]
    claim(
        "a goal is met, or what stands in its way is said",
        len(said) == len(rows),
        f"{len(said)} of {len(rows)}",
    )
    needed = [row for row in rows if not row.needless]
    claim("each layer in float is needed", len(needed) == len(rows), f"{len(needed)} of {len(rows)}")
    resolved = [row for row in rows if row.resolved]
    claim(
        "none gives away more than it resolves", len(resolved) == len(rows), f"{len(resolved)} of {len(rows)}"
    )
    named = [row for row in rows if (row.planted.what == "mismatch") == bool(row.goal.mismatch)]
    claim("a mismatch is named, and no other", len(named) == len(rows), f"{len(named)} of {len(rows)}")


def _line(row: Row) -> tuple[str, ...]:
    (gate,) = row.goal.gates
    told = "?" if gate.resolution is None else f"{gate.resolution:.2g}"
    value = "?" if gate.measured is None else f"{gate.measured:.2f}"
    return (
        f"{row.planted.net.name}, {row.planted.what}", f"{gate.kind} {gate.goal:.3g}", row.verdict, value,
        told, f"{100 * row.share:.1f}", str(row.layers), str(row.needless), row.body,
    )  # fmt: skip


def goals() -> Iterator[Planted]:
    """Twenty, where all nets are there."""
    for seed in range(3):
        digits = _digits(seed)
        yield Planted(digits, "resolution", {"max_drop": 0.1, "eval": Top1(digits, each=seed != 2)})
        yield Planted(digits, "even", above=4.0)
    digits = _digits(0)
    yield Planted(digits, "resolution", {"min_agreement": 99.9})
    yield Planted(digits, "cause", {"max_drop": 2.0, "eval": Top1(digits)}, spoiled=300.0)
    yield Planted(digits, "mismatch", {"max_drop": 0.5, "eval": Top1(digits, factor=255)})
    yield Planted(digits, "body", {"min_sqnr": 90.0})
    if "ONNXQ_CORPUS" not in os.environ:
        return
    mnist, cifar = _mnist(0), _cifar(0)
    yield Planted(mnist, "resolution", {"max_drop": 0.1, "eval": Top1(mnist, each=False, count=600)})
    yield Planted(mnist, "cause", {"max_drop": 1.0, "eval": Top1(mnist, count=600)}, spoiled=200.0)
    yield Planted(mnist, "mismatch", {"max_drop": 0.5, "eval": Top1(mnist)}, calibrated=1 / 255)
    yield Planted(mnist, "body", {"min_sqnr": 90.0})
    yield Planted(cifar, "resolution", {"max_drop": 0.1, "eval": Top1(cifar, count=600)})
    yield Planted(cifar, "cause", {"max_drop": 2.0, "eval": Top1(cifar, count=600)}, spoiled=60.0)
    yield Planted(cifar, "mismatch", {"max_drop": 0.5, "eval": Top1(cifar)}, calibrated=127.5)
    yield Planted(cifar, "even", above=3.0)
    if "ONNXQ_IMAGENET" in os.environ:
        mobilenet = _mobilenet(0)
        for db in (28.0, 32.0):
            yield Planted(mobilenet, "even", {"min_sqnr": db})


def measured(planted: Planted) -> Row:
    """A goal, and what becomes of it where layers are given back."""
    asked = dict(planted.asked)
    plain = planted.quantized()
    if planted.above is not None:
        about = plain.report.about_mean
        assert about is not None
        assert about.sqnr_about_mean_db is not None
        asked = {"min_sqnr": round(about.sqnr_about_mean_db + planted.above, 1)}
    result = planted.quantized(**asked)
    goal = part_of(GoalPart, result.report.goal)
    floats = [
        entry.node for entry in part_of(PlanPart, result.report.plan).kept_float if entry.code == "goal"
    ]
    share = 0.0 if goal.search is None else goal.search.share_of_int8_macs
    judge = _Judge(planted, asked)
    needless = 0
    body = result.report.body.type if result.report.body is not None else ""
    for node in floats:
        rules = [LayerRule(match=(other,), format="float") for other in floats if other != node]
        needless += judge.surely_met(planted.quantized(rules, body=body).model)
    resolved = share <= GIVEN_AWAY or judge.surely_nearer(plain.model, result.model)
    return Row(planted, goal, body, share, len(floats), needless, resolved)


class _Judge:
    """What a goal asks for, on all samples but those that calibrated, those that chose among them."""

    def __init__(self, planted: Planted, asked: Mapping[str, Any]) -> None:
        self._asked, self._score = asked, asked.get("eval")
        self._float = ort.load(planted.net.model)
        self._feeds = planted.net.feeds(slice(CALIBRATING, None))

    def surely_met(self, model: onnx.ModelProto) -> bool:
        """Whether a model meets the goal by more than these samples leave to chance."""
        if self._score is not None:
            exact, score = self._scores(self._float), self._scores(ort.load(model))
            told, drop = exact.resolution(score), exact.value - score.value
            return bool(drop + (0.0 if told is None else told.least) <= self._asked["max_drop"])
        if "min_sqnr" in self._asked:
            levels = self._levels(model)
            return (levels.sqnr_db or 0.0) - SURE * levels.error_db >= self._asked["min_sqnr"]
        agrees = self._agreement(model)
        whole = SampleScores.of(np.full_like(agrees.each, 100.0))
        told = whole.resolution(agrees)
        return agrees.value - (0.0 if told is None else told.least) >= self._asked["min_agreement"]

    def surely_nearer(self, before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
        """Whether a model is nearer than another by more than these samples leave to chance."""
        if self._score is None and "min_sqnr" in self._asked:
            gain = Gain.of(self._levels(before), self._levels(after))
            return gain.db > 0 and gain.lead > SURE
        of = self._agreement if self._score is None else lambda model: self._scores(ort.load(model))
        was, now = of(before), of(after)
        told = was.resolution(now)
        return told is not None and now.value - was.value > told.least

    def _scores(self, session: ort.Session) -> SampleScores:
        def called(feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            return dict(zip(session.outputs, session.run(feeds), strict=True))

        score = self._score
        assert score is not None
        given = Top1(score.net, factor=score.factor, count=score.count)
        return SampleScores.of(np.asarray(given(called, "choose"), np.float64))

    def _levels(self, model: onnx.ModelProto) -> Levels:
        session, names = ort.load(model), self._float.outputs
        dealt = AboutMeanGroups(names)
        for feeds in self._feeds:
            dealt.add(self._float.run(feeds, names), [session.run(feeds, names)])
        return Levels.of(dealt.groups)

    def _agreement(self, model: onnx.ModelProto) -> SampleScores:
        session, (name, *_) = ort.load(model), self._float.outputs
        same = [
            100.0 * (self._float.run(feeds, [name])[0].argmax() == session.run(feeds, [name])[0].argmax())
            for feeds in self._feeds
        ]
        return SampleScores.of(np.array(same))


@cache
def _first_layer(net: Net) -> tuple[str, float]:
    """The first int8 layer, and the range of what it reads."""
    report = onnxq.quantize(net.model, net.feeds(slice(CALIBRATING)), **OPTIONS).report
    plan = part_of(PlanPart, report.plan)
    node = next(layer.node for layer in plan.layers if layer.format == "int8")
    calibration = report.calibration
    assert calibration is not None
    tensor = next(
        site.tensor
        for site in plan.sites
        if site.kind == "activation" and any(reader.node == node for reader in site.readers)
    )
    return node, float(127 * calibration.scales[tensor])


def _in_order(count: int, seed: int, most: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(count)[:most]


@cache
def _digits(seed: int) -> Net:
    data = np.load(DIGITS / "test.npz")
    order = _in_order(len(data["image"]), seed, CALIBRATING + CHOOSING + JUDGING)
    return Net(
        f"digits {seed}",
        DIGITS / "digits.onnx",
        "image",
        data["image"][order][:, None],
        data["labels"][order],
    )


def _corpus(*parts: str) -> Path:
    return Path(os.environ["ONNXQ_CORPUS"], *parts)


@cache
def _mnist(seed: int) -> Net:
    data = np.load(_corpus("data", "mnist_5000.npz"))
    order = _in_order(len(data["images"]), seed, CALIBRATING + 1200)
    images = data["images"][order][:, None, None].astype(np.float32)
    model = _corpus("models", "mnist_cntk_ortie.onnx")
    return Net("mnist", model, "Input3", images, data["labels"][order].astype(int))


@cache
def _cifar(seed: int) -> Net:
    data = np.load(_corpus("data", "cifar10_2500.npz"))
    order = _in_order(len(data["images"]), seed, CALIBRATING + 1200)
    images = (data["images"][order].transpose(0, 3, 1, 2)[:, None] / 127.5 - 1).astype(np.float32)
    model = _corpus("models", "cifar10_pytorch_winml.onnx")
    return Net("cifar10", model, "modelInput", images, data["labels"][order].astype(int))


@cache
def _mobilenet(seed: int) -> Net:
    """Photographs: the shorter side 256, the middle 224 x 224 of it, RGB, x/127.5 - 1."""
    files = sorted(Path(os.environ["ONNXQ_IMAGENET"]).glob("*.JPEG"))
    chosen = [files[place] for place in _in_order(len(files), seed, CALIBRATING + 200)]
    model = _corpus("models", f"{MOBILENET}.onnx")
    return Net("mobilenetv1", model, "input_1", [_photograph(file) for file in chosen], np.empty(0))


def _photograph(file: Path) -> np.ndarray:
    with Image.open(file) as opened:
        image = opened.convert("RGB")
    side = 256 / min(image.size)
    image = image.resize((round(image.width * side), round(image.height * side)), Image.Resampling.BILINEAR)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1)[None])


if __name__ == "__main__":
    main()
