"""The benchmark of sensitivity and goals: its nets have the causes that they say, and its sums are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.sensitivity import halves, planted, planted_nets, reached, searches, top1, trained
from onnxq.noise.ranking import DecisionRanked
from onnxq.run import ort


def _values(model: onnx.ModelProto, tensor: str, count: int = 4) -> np.ndarray:
    """What a tensor is on samples, [samples, ...]."""
    probe = onnx.GraphProto(output=[onnx.ValueInfoProto(name=tensor)])
    session = ort.load(model, probes=probe)
    place = session.outputs.index(tensor)
    return np.concatenate([np.asarray(session.run(f)[place]) for f in planted_nets.samples(0, count)])


@pytest.mark.parametrize("make", planted_nets.MAKERS, ids=lambda make: make.__name__)
def test_a_planted_net_is_valid_and_its_outputs_differ(make: Any) -> None:
    net = make(0)
    onnx.checker.check_model(net.model, full_check=True)
    assert net.layers <= {node.name for node in net.model.graph.node}
    outputs = _values(net.model, "head")
    assert outputs.std(0).min() > 0.01 * np.abs(outputs).max()


def test_the_loud_channel_is_loud_and_undone() -> None:
    net = planted_nets.loud_channel(0)
    channels = np.abs(_values(net.model, "loud.relu")).max((0, 2, 3))
    assert 100 < channels[3] / np.median(channels) < 900
    weight = onnx.numpy_helper.to_array(next(w for w in net.model.graph.initializer if w.name == "undo.w"))
    sizes = np.sqrt(np.square(weight).mean((0, 2, 3)))
    assert 200 < np.median(sizes) / sizes[3] < 450


def test_the_modes_are_apart_and_taken_away() -> None:
    net = planted_nets.bimodal(0)
    values = _values(net.model, "modes")
    assert (np.abs(np.abs(values) - planted_nets.APART) < 20).all()
    assert 0.4 < (values > 0).mean() < 0.6
    assert np.abs(_values(net.model, "undo")).max() < 50


def test_the_concat_is_uneven() -> None:
    values = np.abs(_values(planted_nets.uneven_concat(0).model, "both")).max((0, 2, 3))
    assert 300 < np.median(values[:16]) / np.median(values[16:]) < 3000


def test_what_is_planted_in_the_trained_net_changes_nothing_in_float() -> None:
    model = onnx.load(trained.DIGITS / "digits.onnx")
    net = planted_nets.loud_in_digits(model, 1)
    (digits,) = trained.subjects(["digits"], 0, 3)
    sessions = [ort.load(one) for one in (model, net.model)]
    for feeds in digits.samples:
        (before,), (after,) = (session.run(feeds) for session in sessions)
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4 * np.abs(before).max())
    changed = [
        a.name for a, b in zip(model.graph.initializer, net.model.graph.initializer, strict=True) if a != b
    ]
    assert sorted(changed) == ["fine.first.1.bias", "fine.first.1.weight", "fine.second.0.weight"]


def test_a_planted_cause_is_found() -> None:
    row = planted.sought(planted_nets.loud_channel(0), planted_nets.samples(0, 64), 0, 8)
    assert row.holds
    assert row.found == "undo"
    assert row.chosen >= row.goal > row.default + 4


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3], [1, 3, 2], 0.5),
        ([1, 1, 2], [5, 6, 7], np.sqrt(3) / 2),  # ranks 0.5, 0.5, 2 against 0, 1, 2
        ([2, 2], [1, 3], 1.0),
    ],
)
def test_the_correlation_of_ranks(one: list[float], other: list[float], expected: float) -> None:
    assert halves.spearman(np.array(one, float), np.array(other, float)) == pytest.approx(expected, abs=1e-12)


def _ranked(names: str) -> list[DecisionRanked]:
    size = len(names)
    return [
        DecisionRanked((name,), None, float(size - place), None, 0.0, 1.0, 0.0, (), "")
        for place, name in enumerate(names)
    ]


def test_what_rankings_share() -> None:
    one, other = _ranked("abcdefg"), _ranked("gabcxye")
    assert halves.shared(one, other) == 3
    assert halves.shared(one, other, top=1) == 0
    ours, theirs = halves.gains(_ranked("abc"), _ranked("cab"))
    assert ours.tolist() == [3, 2, 1]
    assert theirs.tolist() == [2, 1, 3]


def test_ratios_of_costs() -> None:
    row = searches.row_of("net", "G", 3, [0.0, 2.0, None, 5.0], [0.0, 2.0, None, 5.0])
    assert (row.equal, row.goals, row.worst, row.holds) == (3, 3, 1.0, True)
    row = searches.row_of("net", "G", 3, [1.05, *[2.0] * 9], [1.0, *[2.0] * 9])
    assert (row.equal, row.worst, row.holds) == (9, 1.05, True)
    assert not searches.row_of("net", "G", 3, [1.2, *[2.0] * 9], [1.0, *[2.0] * 9]).holds
    assert not searches.row_of("net", "G", 3, [None], [1.0]).holds
    assert not searches.row_of("net", "G", 3, [1.0], [0.0]).holds


def test_goals_are_spread_and_points_are_few() -> None:
    assert searches.spread(10, 21, 10) == pytest.approx(range(11, 21))
    assert max(searches.spread(10, np.inf)) < 40
    assert searches.points(1) == [1]
    assert searches.points(40) == [1, 2, 4, 9, 20]
    assert searches.points(6) == [1, 2, 3]


def test_a_prediction_is_near_enough() -> None:
    assert reached.within(30.0, 30.9)
    assert not reached.within(30.0, 28.9)
    assert reached.within(float("inf"), float("inf"))
    assert not reached.within(float("inf"), 50.0)


def test_top1_counts_all_batches_and_no_other_images() -> None:
    labels = np.array([0, 1, 2, 0, 1, 2, 0])
    images = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 1, 2]][:, None]
    data = top1.Labelled("x", images, labels, 2)

    def model(feeds: Any) -> dict[str, np.ndarray]:
        assert len(feeds["x"]) <= 2
        return {"y": feeds["x"]}

    assert data.top1(model, slice(5)) == 100
    assert data.top1(model, slice(None)) == pytest.approx(100 * 5 / 7)
    assert data.top1(model, slice(5, None)) == 0


def test_spoiled_ranges_differ_from_layer_to_layer() -> None:
    rules = top1.spoiled({"a": 2.0, "b": 3.0, "c": 4.0}, 4.0, 0)
    factors = sorted(rule.amax / before for rule, before in zip(rules, (2.0, 3.0, 4.0), strict=True))
    assert factors == pytest.approx([1, 2, 4])
    assert [rule.match for rule in rules] == [("a",), ("b",), ("c",)]
    assert top1.spoiled({"a": 2.0}, 4.0, 0)[0].amax == 8


def test_the_least_that_fails() -> None:
    asked: list[float] = []

    def fails(power: float) -> bool:
        asked.append(power)
        return power >= 2.6

    assert top1.least(fails, 8, 2) == 2.75
    assert asked == [1, 2, 3, 2.5, 2.75]
    assert top1.least(lambda power: False, 4, 0) == 4


def test_the_mean_over_nets() -> None:
    rows = [
        searches.Compared("one", "power", 5, 0.3, -0.1, 0.4, 0.0, True),
        searches.Compared("one", "other", 5, -0.3, -0.4, 0.4, 0.0, True),
        searches.Compared("two", "power", 1, -0.1, -0.2, 0.2, -0.6, True),
    ]
    power, other = searches.over_nets(rows)
    assert (power.net, power.points, power.worst, power.worst_chosen) == ("2 nets", 6, -0.2, -0.6)
    assert (power.mean, power.mean_chosen) == pytest.approx((0.1, 0.3))
    assert power.holds
    assert not other.holds
