"""Whose word on a range counts, and how ranges become scales."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from said import is_said

from onnxq.base.errors import UserError
from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.stats import TensorStats
from onnxq.formats import INT8
from onnxq.graph.model import Model
from onnxq.options.config import LayerRule
from onnxq.quant.plan import Edge, QuantPlan, ScaleGroup, Site
from onnxq.quant.ranges import Range, Ranges, bounded, method_of, scales_of
from onnxq.quant.thresholds import Method, threshold

MINMAX, HALF = Method("minmax"), Method("percentile", 50.0)


def stats_of(*values: float) -> TensorStats:
    counter, array = HistogramCounter(), np.array(values, np.float32)
    counter.add(array)
    ends = np.float32([array.min()]), np.float32([array.max()])
    return TensorStats(*ends, len(values), None, None, histogram=counter.histogram())


TENSORS = {"a": stats_of(1, 2, 3, 4), "b": stats_of(-8, 1, 1, 1), "c": stats_of(0, 0)}


def plan(*groups: tuple[str, ...]) -> QuantPlan:
    """A plan in which the tensors of each group share a scale; the last one only moves values."""
    return QuantPlan(
        sites=tuple(
            Site(name, "activation", (Edge(f"read_{name}", 0),), None, i, "")
            for i, group in enumerate(groups)
            for name in group
        ),
        groups=tuple(ScaleGroup(i, group, group[:-1] or group, ()) for i, group in enumerate(groups)),
    )


def test_the_method_decides_where_nobody_else_does() -> None:
    ranges = Ranges(plan(("a",), ("b",)), TENSORS)
    assert ranges.of("a", MINMAX) == Range(4.0, "minmax")
    assert ranges.of("b", MINMAX) == Range(8.0, "minmax")
    assert ranges.of("a", HALF) == Range(threshold(TENSORS["a"], HALF), "percentile 50")
    assert ranges.all(MINMAX) == {"a": Range(4.0, "minmax"), "b": Range(8.0, "minmax")}


def test_whose_word_counts() -> None:
    """A fixed range of the user, a statement, a method of the user, what is known, the model's method."""
    known = {"stated": {"a": Range(7.0, "cache")}, "fixed": {"a": Range(1.0, "fixed")}}
    amax = {"a": LayerRule(amax=5.0, index=2, because="data sheet")}
    method = {"a": LayerRule(method="percentile", percentile=50.0, index=3)}
    half = Range(threshold(TENSORS["a"], HALF), "percentile 50, [[layer]] 3")

    def of(layers: dict[str, LayerRule], *names: str) -> Range:
        given = {name: known[name] for name in names}
        return Ranges(plan(("a",)), TENSORS, layers=layers, **given).of("a", MINMAX)

    assert of(amax, "stated", "fixed") == Range(5.0, "[[layer]] 2: data sheet")
    assert of(method, "stated", "fixed") == known["stated"]["a"]
    assert of(method, "fixed") == half
    assert of({}, "stated", "fixed") == known["stated"]["a"]
    assert of({}, "fixed") == known["fixed"]["a"]
    assert of(method) == half


def test_what_is_left_to_onnxq() -> None:
    ranges = Ranges(
        plan(("a",), ("b",), ("c",)),
        TENSORS,
        stated={"a": Range(1.0, "")},
        fixed={"b": Range(1.0, "")},
        layers={"c": LayerRule(method="mse")},
    )
    assert [ranges.is_free(name) for name in "abc"] == [False, True, False]
    assert ranges.measured("b", MINMAX) == 8.0  # whatever is fixed


def test_nothing_is_known() -> None:
    with pytest.raises(UserError, match="nothing is known of the range of tensor 'd'"):
        Ranges(plan(("d",)), TENSORS).all(MINMAX)


def test_a_layer_leaves_parameters_open() -> None:
    default = Method("minmax", 12.5, 0.75)
    assert method_of(LayerRule(method="percentile"), default) == Method("percentile", 12.5, 0.75)
    assert method_of(LayerRule(method="percentile", percentile=99.0), default).percentile == 99.0
    assert method_of(LayerRule(method="average", constant=0.5), default).constant == 0.5


def test_a_group_takes_the_widest_of_its_sources() -> None:
    two = plan(("a", "b", "moved"), ("c",))
    assert two.measured == ("a", "b", "c")
    ranges = Ranges(two, TENSORS)
    assert scales_of(two, ranges.all(MINMAX)) == {0: np.float32(8 / 127), 1: np.float32(1)}
    assert INT8.scale(0.0) == 1


def test_operators_bound_their_outputs() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
        g (float[2, 4] x) => (float[2, 4] y) {
            a = Softmax (x)  b = Sigmoid (a)  c = Tanh (b)  d = HardSigmoid (c)  e = Relu (d)
            f = other.Tanh (e)  y = LogSoftmax (f) }""")
    found = bounded(Model.open(model), [*"xabcdefy", "unknown"])
    assert {name: entry.amax for name, entry in found.items()} == dict.fromkeys("bcd", 1.0)
    assert is_said(found["b"].because, "fixed", op="Sigmoid")
