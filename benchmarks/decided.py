"""What a bundle decides on a device that is simulated: `python -m benchmarks.decided [NET...]`.

For each net of ONNXQ_NETS a bundle is made once. Then over 100 seeds layers have hidden costs in float16 and
int8, changes of type cost, clocks drift, and times have 3 % of noise. It prints in how many of them the file
that is chosen is within 2 % of the best of all placements of the bundle's parts, the most models that were
built, how often it is slower than float16; and how often a planted wrong layer is named.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import onnxq
from onnxq.emit import measure
from onnxq.graph.model import Model
from onnxq.inspection.bundling import MOST
from onnxq.inspection.measured_bundle import BASELINE, WHOLE, LayerTimes, longer_in_int8, proposed
from onnxq.quant.plan_reading import read_plan
from tests.measuring.trtexec import spoiled

SEEDS, PLANTED = 100, 10
_NETS = ("resnet18", "mobilenetv2", "vit", "bert", "unet")


class Device:
    """Costs that are hidden."""

    def __init__(self, seed: int, int8: list[str]) -> None:
        self.random, self.nodes = random.Random(seed), int8
        draw = self.random.uniform
        self.float16 = {node: math.exp(draw(-1.5, 1.5)) for node in int8}
        kind = draw(0.6, 1.2)  # some devices gain by int8, others do not
        self.int8 = {node: took * kind * draw(0.6, 1.5) for node, took in self.float16.items()}
        self.rest, self.change = 0.2 * sum(self.float16.values()), draw(0, 0.3)
        self.count = 0

    def ms(self, out: frozenset[str]) -> float:
        """What the net takes with some nodes in float."""
        own = sum((self.float16 if node in out else self.int8)[node] for node in self.nodes)
        ends = [True, *(node in out for node in self.nodes), True]
        return self.rest + own + self.change * sum(a != b for a, b in itertools.pairwise(ends))

    def timed(self, out: frozenset[str]) -> float:
        """The same, measured."""
        self.count += 1
        return self.ms(out) * (1 + 0.1 * math.sin(self.count / 9)) * self.random.gauss(1, 0.03)

    def layers(self) -> list[LayerTimes]:
        """What each takes, measured."""
        noisy = {node: self.random.gauss(1, 0.03) for node in self.nodes}
        return [
            LayerTimes((node,), "Conv", {BASELINE: self.float16[node], WHOLE: self.int8[node] * noisy[node]})
            for node in self.nodes
        ]


class Timing(measure.Measuring):
    """Rounds on such a device."""

    def __init__(self, device: Device, placed: dict[str, frozenset[str]]) -> None:
        self.device, self.placed, self.say = device, placed, lambda line: None
        self.results, self.until = {"candidates": {}}, math.inf

    def save(self) -> None:
        """Nothing is kept."""

    def _timed(self, name: str) -> float:
        return self.device.timed(self.placed[name])


def decided(seed: int, int8: list[str], parts: Mapping[str, frozenset[str]]) -> tuple[float, float, int]:
    """What is chosen, beside the best placement and beside float16; and how many models were built."""
    device = Device(seed, int8)
    placed = {BASELINE: frozenset(int8), WHOLE: frozenset[str](), **parts}
    made = {WHOLE: frozenset[str](), **{name: frozenset([name]) for name in parts}}
    known = {**parts, "longer-layers": longer_in_int8(device.layers())}
    timing = Timing(device, placed)
    while True:
        timing.time([*placed])
        times = timing.times([*placed])
        tries = proposed(times, made, MOST - len(placed))
        if known["longer-layers"] and frozenset(["longer-layers"]) not in made.values():
            tries = [("longer-layers",), *tries][: MOST - len(placed)]
        if not tries:
            break
        for some in tries:
            name = f"combined-{len(placed)}"
            placed[name] = frozenset[str]().union(*(known[one] for one in some))
            made[name] = frozenset(some)
    chosen = measure.choose(times, BASELINE, dict.fromkeys(times, 0.0))
    every = [
        frozenset[str]().union(*some)
        for size in range(len(parts) + 1)
        for some in itertools.combinations(parts.values(), size)
    ]
    best = min(map(device.ms, [*every, placed[BASELINE]]))
    took = device.ms(placed[chosen])
    return took / best, took / device.ms(placed[BASELINE]), len(placed)


class Wrong(measure.Measuring):
    """An engine that is wrong at one tensor."""

    def __init__(self, folder: Path, name: str, at: str) -> None:
        self.bundle, self.at, self.say = measure.BundleFolder(folder), at, lambda line: None
        self.results = {"candidates": {name: {"status": "built", "why": "", "ms": {}}}}

    def save(self) -> None:
        """Nothing is kept."""

    def built(self, words: list[str]) -> tuple[int, str]:
        """Nothing is built."""
        self.model = Path(words[0].partition("=")[2]).read_bytes()
        return 0, ""

    def answers(self, name: str, inputs: Any, place: int) -> Any:
        """What onnxruntime answers, of the model that is spoiled."""
        if not name.endswith("marked"):
            self.model = (self.bundle.folder / f"{name}.onnx").read_bytes()
        session = onnxruntime.InferenceSession(spoiled(self.model, self.at, False))
        names = [one.name for one in session.get_outputs()]
        return 0, "", {n: one.ravel() for n, one in zip(names, session.run(None, inputs), strict=True)}


def named(folder: Path, seed: int) -> tuple[int, int]:
    """Of planted faults those that make an engine wrong; and of these how many are named."""
    held, draw = measure.Tensors(folder / "int8.tensors.npz"), random.Random(seed)
    wrong = found = 0
    for one in draw.sample(held.about, min(4 * PLANTED, len(held.about))):
        if wrong == PLANTED:
            break
        device = Wrong(folder, WHOLE, one["name"])
        device.verify(WHOLE)
        device.locate(WHOLE)
        entry = device.entry(WHOLE)
        wrong += entry["status"] == "wrong"
        found += entry.get("where", "").startswith(f"{one['node']} ({one['op']}) is the first")
    return wrong, found


def main() -> None:
    """Prints a row a net."""
    nets = Path(os.environ["ONNXQ_NETS"])
    print("net: within 2 %, most models, slower than float16 by 0.5 %; the worst; wrong layers named")
    for name in sys.argv[1:] or _NETS:
        with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as made:
            folder, model = Path(made, "bundle"), Path(made, f"{name}.onnx")
            _fill(nets / model.name, model)
            samples = [_random(model, seed) for seed in range(8)]
            onnxq.bundle(model, samples, folder, references=1, method="minmax", repair="none")
            whole = read_plan(folder / f"{WHOLE}.plan.toml")
            order = [node.name for node in Model.open(folder / f"{WHOLE}.onnx").nodes]
            in_int8 = {one.node for one in whole.layers if one.format != "float"}
            parts = {}
            for path in sorted(folder.glob("*.plan.toml")):
                said = {one.node for one in read_plan(path).layers if one.format == "float"} & in_int8
                if said:
                    parts[path.name.partition(".")[0]] = frozenset(said)
            found = [
                decided(seed, [node for node in order if node in in_int8], parts) for seed in range(SEEDS)
            ]
            wrong = named(folder, 0)
        near = sum(best <= 1.02 for best, _, _ in found)
        slower = sum(half > 1.005 for _, half, _ in found)
        worst = max(best for best, _, _ in found)
        print(
            f"{name}: {near}, {max(n for *_, n in found)}, {slower}; {worst:.3f}; {wrong[1]} of {wrong[0]}",
            flush=True,
        )


def _fill(source: Path, target: Path) -> None:
    """A net with random weights, where it states only their standard deviation and mean."""
    model = onnx.load(str(source))
    for place, tensor in enumerate(model.graph.initializer):
        if tensor.doc_string.startswith("onnxq-fill"):
            _, deviation, mean = tensor.doc_string.split()
            draw = np.random.default_rng(place).standard_normal(tuple(tensor.dims))
            tensor.raw_data = (draw * float(deviation) + float(mean)).astype(np.float32).tobytes()
            tensor.doc_string = ""
    onnx.save(model, str(target))


def _random(model: Path, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    given = {}
    for one in onnx.load(str(model), load_external_data=False).graph.input:
        shape = [size.dim_value or 1 for size in one.type.tensor_type.shape.dim]
        integer = one.type.tensor_type.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
        values = draw.integers(0, 2, shape) if integer else draw.standard_normal(shape)
        given[one.name] = values.astype(onnx.helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type))
    return given


if __name__ == "__main__":
    main()
