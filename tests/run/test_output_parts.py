"""Outputs in parts: where they are found, and that whoever judges hears each like an output of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.output_parts import OutputPart, OutputParts
from onnxq.run import ort
from onnxq.run.candidates import heard
from onnxq.run.compare import compare_models
from onnxq.run.finding_parts import find_parts

Feeds = Mapping[str, np.ndarray]


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')


def names(proto: onnx.ModelProto, make: Callable[[np.random.Generator], Feeds], count: int = 4) -> list[str]:
    random = np.random.default_rng(0)
    found = find_parts(Model.open(proto), ort.load(proto), [make(random) for _ in range(count)])
    return list(found.names)


def two(first: Sequence[int], second: Sequence[int]) -> Callable[[np.random.Generator], Feeds]:
    """Boxes up to some hundreds and scores up to 1."""
    return lambda random: {
        "boxes": (300 * random.random(first)).astype(np.float32),
        "scores": random.random(second).astype(np.float32) ** 8,
    }


CONCATS = {
    "plain": (
        """(float[1,4,30] boxes, float[1,3,30] scores) => (float[1,7,30] y) {
            b = Relu (boxes)  s = Sigmoid (scores)  y = Concat <axis = 1> (b, s) }""",
        two((1, 4, 30), (1, 3, 30)), ["y[0:4]", "y[4:7]"],
    ),
    "moved": (
        """(float[1,4,30] boxes, float[1,3,30] scores) => (float[1,30,1,7] y) <int64[4] to = {1, 1, 7, 30}> {
            b = Relu (boxes)  s = Neg (scores)  c = Concat <axis = 1> (b, s)  r = Reshape (c, to)
            t = Transpose <perm = [0, 3, 1, 2]> (r)  y = Cast <to = 1> (t) }""",
        two((1, 4, 30), (1, 3, 30)), ["y[0:4]", "y[4:7]"],
    ),
    "inputs and dynamic sizes": (
        """(float[1,N,4] boxes, float[1,N,3] scores) => (float[1,N,7] y) {
            y = Concat <axis = 2> (boxes, scores) }""",
        lambda random: two((1, n := int(random.integers(5, 40)), 4), (1, n, 3))(random), ["y[0:4]", "y[4:7]"],
    ),
    "levels of boxes and scores": (
        """(float[1,20,4] boxes, float[1,20,3] scores) => (float[1,40,7] y) {
            b = Relu (boxes)  s = Neg (scores)  one = Concat <axis = 2> (b, s)
            c = Abs (boxes)  d = Sqrt (scores)  other = Concat <axis = 2> (c, d)
            y = Concat <axis = 1> (one, other) }""",
        two((1, 20, 4), (1, 20, 3)), ["y[0:4]", "y[4:7]"],
    ),
    "scores between boxes": (
        """(float[1,2,30] boxes, float[1,3,30] scores) => (float[1,7,30] y) {
            b = Relu (boxes)  s = Neg (scores)  c = Abs (boxes)  y = Concat <axis = 1> (b, s, c) }""",
        two((1, 2, 30), (1, 3, 30)), ["y[0:2,5:7]", "y[2:5]"],
    ),
    "one scale": (
        """(float[1,4,30] boxes, float[1,3,30] scores) => (float[1,8,30] y) {
            b = Relu (boxes)  c = Abs (boxes)  y = Concat <axis = 1> (b, c)  s = Neg (scores) }""",
        two((1, 4, 30), (1, 3, 30)), ["y"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONCATS)
def test_the_parts_of_a_concat(case: str) -> None:
    text, make, wanted = CONCATS[case]
    assert names(model(text), make) == wanted


def scaled(*scales: float) -> Callable[[np.random.Generator], Feeds]:
    return lambda random: {"x": (random.standard_normal((1, 50, len(scales))) * scales).astype(np.float32)}


POWERS = {
    "angle and depth": ("y = Abs (x)", scaled(0.1, 90, 80, 0.2), ["y[0,3]", "y[1:3]"]),
    "three scales": ("y = Neg (x)", scaled(1e3, 1, 1, 1e-3), ["y[0]", "y[1:3]", "y[3]"]),
    "15 dB apart": ("y = Neg (x)", scaled(1, 5.6), ["y"]),
    "a channel that is 0": ("y = Relu (x)", scaled(0, 1, 1), ["y"]),
    "bounded by its operator": ("y = Sigmoid (x)", scaled(1e-2, 1), ["y"]),
}


@pytest.mark.parametrize("case", POWERS)
def test_parts_by_power(case: str) -> None:
    body, make, wanted = POWERS[case]
    width = make(np.random.default_rng(0))["x"].shape[2]
    assert names(model(f"(float[1,50,{width}] x) => (float[1,50,{width}] y) {{ {body} }}"), make) == wanted


def test_what_is_rarely_great_is_no_scale_of_its_own() -> None:
    def make(random: np.random.Generator) -> Feeds:  # the class that is there changes from sample to sample
        x = np.full((1, 50, 4), 1e-3)
        x[:, :, random.integers(4)] = 1
        return {"x": x.astype(np.float32)}

    proto = model("(float[1,50,4] x) => (float[1,50,4] y) { y = Neg (x) }")
    assert names(proto, make, 2) == ["y"]
    assert names(proto, make, 1) == ["y"]  # of one sample powers tell nothing


def test_outputs_that_are_no_finite_floats_are_wholes() -> None:
    proto = model(
        """(float[1,4,30] boxes, float[1,3,30] scores)
            => (float[1,7,30] y, int64[1,7,30] z, float[1,7,30] w) {
            b = Log (boxes)  s = Neg (scores)  y = Concat <axis = 1> (b, s)  z = Cast <to = 7> (y)
            a = Abs (boxes)  w = Concat <axis = 1> (a, s) }"""
    )

    def make(random: np.random.Generator) -> Feeds:
        found = dict(two((1, 4, 30), (1, 3, 30))(random))
        found["boxes"][0, 0, 0] = 0  # its logarithm is not finite
        return found

    assert names(proto, make) == ["y", "z", "w[0:4]", "w[4:7]"]


def test_where_only_a_part_of_the_model_runs_its_ends_are_no_outputs() -> None:
    whole = model("(float[1,50,2] x) => (float[1,50,2] y) { a = Neg (x)  y = Abs (a) }")
    part = model("(float[1,50,2] x) => (float[1,50,2] a) { a = Neg (x) }")
    feeds = [scaled(1e3, 1)(np.random.default_rng(seed)) for seed in range(3)]
    assert find_parts(Model.open(whole), ort.load(part), feeds).names == ("a[0]", "a[1]")


PARTS = OutputParts(("y",), (OutputPart("y", 1, (0, 1), 3), OutputPart("y", 1, (2,), 3)))


def test_a_part_is_a_view_of_the_output_or_what_indices_take() -> None:
    y = np.arange(12.0).reshape(2, 3, 2)
    one, other = PARTS.split([y])
    assert np.shares_memory(one, y)
    np.testing.assert_array_equal(one, y[:, :2])
    np.testing.assert_array_equal(other, y[:, 2:])
    np.testing.assert_array_equal(OutputPart("y", 1, (0, 2), 3).of(y), y[:, [0, 2]])
    assert OutputPart("y", 1, (0, 1, 4, 6, 7, 9, 12, 13), 20).name == "y[0:2,4,6:8,9,...]"
    wide = np.zeros((2, 5, 2))
    assert PARTS.split([wide])[0] is not None
    np.testing.assert_array_equal(PARTS.parts[0].of(wide), wide)  # another size: all of it


def test_weights_are_those_of_a_part_else_of_its_output() -> None:
    assert PARTS.weights(None) == {"y[0:2]": 1, "y[2]": 1}
    assert PARTS.weights({"y": 3, "y[2]": 0}) == {"y[0:2]": 3, "y[2]": 0}
    with pytest.raises(UserError, match=r"y\[5\]"):
        PARTS.weights({"y[5]": 1})
    assert PARTS.only(["z", "y"]).names == ("z", "y[0:2]", "y[2]")


class Shifted:
    """A model, and candidates that shift its small part: all that a whole output hides."""

    inputs = ("x",)
    outputs = ("y",)

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> list[Any]:
        return [feeds["x"]]

    def run_each(
        self, feeds: Feeds, settings: Sequence[float], outputs: Sequence[str] | None = None
    ) -> list[list[Any]]:
        return [[feeds["x"] + np.array([0, 0, setting])[:, None]] for setting in settings]


def test_each_judge_hears_parts_like_outputs_of_their_own() -> None:
    random = np.random.default_rng(0)
    feeds = [{"x": random.standard_normal((1, 3, 8)) * np.array([100, 100, 1])[:, None]} for _ in range(8)]
    power = sum(float((one["x"][:, 2] ** 2).sum()) for one in feeds)
    level = 10 * np.log10(power / (8 * 8 * 0.5**2))
    runner = Shifted()

    meter = AboutMeanMeter(PARTS)
    for one in feeds:
        meter.add(runner.run(one), runner.run_each(one, [0.5]))
    assert [*meter.result().levels] == ["y[2]", "y[0:2]"]
    assert meter.result().levels["y[2]"] == pytest.approx(level, abs=1)
    assert meter.joined([]).result() == meter.result()

    moved, same = heard(runner, runner, feeds, [0.5, 0.0], PARTS, groups=1)[0].results()
    assert (moved, [*same.levels.values()]) == (meter.result(), [200.0, 200.0])
    (whole,) = heard(runner, runner, feeds, [0.5], groups=1)
    assert whole.result().levels["y"] > level + 35

    class Other(Shifted):
        def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> list[Any]:
            return self.run_each(feeds, [0.5])[0]

    boxes, scores = compare_models(runner, Other(), feeds, parts=PARTS)
    assert (boxes.output, boxes.sqnr_db) == ("y[0:2]", np.inf)
    assert scores.sqnr_db == pytest.approx(level, abs=1e-9)
