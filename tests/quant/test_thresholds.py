"""Calibration methods as questions asked of the statistics of a tensor."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.base.errors import UserError
from onnxq.base.reason import code_of
from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.stats import TensorStats
from onnxq.formats import INT8
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Ranges
from onnxq.quant.thresholds import NAMES, Method, automatic, needs_histogram, threshold

RNG = np.random.default_rng(0)


def stats_of(*samples: np.ndarray, counted: np.ndarray | None = None, histogram: bool = True) -> TensorStats:
    """Statistics of samples; the histogram is of `counted`, or of all."""
    arrays = [np.asarray(sample, np.float32) for sample in samples]
    counter = HistogramCounter()
    counter.add(np.concatenate([a.reshape(-1) for a in arrays]) if counted is None else counted)
    return TensorStats(
        np.float32([a.min(initial=np.inf) for a in arrays]),
        np.float32([a.max(initial=-np.inf) for a in arrays]),
        sum(a.size for a in arrays),
        None,
        None,
        histogram=counter.histogram() if histogram else None,
    )


def order_statistic(values: np.ndarray, percentile: float) -> float:
    """The least value that so many percent of the magnitudes do not exceed."""
    rank = math.ceil(Decimal(str(percentile)) * values.size / 100)
    return float(np.sort(np.abs(values), axis=None)[rank - 1])


# -- every method ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_threshold_is_within_the_range_and_proportional(name: str, scale: float) -> None:
    values = np.float32(np.random.default_rng(5).standard_t(5, 20_000))
    unit = threshold(stats_of(values), Method(name))
    stats = stats_of(values * np.float32(scale))
    assert 0 < threshold(stats, Method(name)) <= stats.amax
    # the bins of a histogram are not proportional: thresholds on a flat error move
    assert threshold(stats, Method(name)) == pytest.approx(unit * scale, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_extremes(name: str) -> None:
    method = Method(name, constant=1.0)
    assert threshold(stats_of(np.zeros(10)), method) == 0.0
    assert threshold(stats_of(np.zeros((0, 4))), method) == 0.0
    # the histogram of sampled rows may hold zeros only, or the last sample of the average
    assert threshold(stats_of([1.0, -2.0], [0.0], counted=np.zeros(5)), method) == 2.0
    assert threshold(stats_of([0.0, -0.7]), Method(name)) == pytest.approx(np.float32(0.7), rel=1e-3)
    assert threshold(stats_of([1e-44]), method) > 0


def test_a_percentile_that_the_zeros_reach_is_said_to_be_minmax() -> None:
    tensors = {"relu": stats_of([0.0, 0.0, 0.0, 5.0]), "dense": stats_of([1.0, 2.0, 3.0, 5.0])}
    ranges = Ranges(QuantPlan(), tensors)
    median = Method("percentile", 50.0)
    relu, dense = ranges.of("relu", median), ranges.of("dense", median)
    assert (relu.amax, relu.because, code_of(relu.because)) == (
        5.0, "the greatest magnitude: percentile 50 is 0", "zeros"
    )  # fmt: skip
    assert (dense.amax < 3, dense.because) == (True, "percentile 50")


def test_a_percentile_that_the_zeros_reach_is_minmax() -> None:
    """Exactly so many: of four values three are zero, and 75 % of them."""
    assert threshold(stats_of([0.0, 0.0, 0.0, 2.0]), Method("percentile", percentile=75)) == 2.0
    spread = stats_of([0.0, 0.0, 1.0, 2.0])
    assert threshold(spread, Method("percentile", percentile=50)) == 2.0
    assert threshold(spread, Method("percentile", percentile=51)) == pytest.approx(1.0, rel=2e-3)


def test_minmax_is_the_greatest_magnitude() -> None:
    assert threshold(stats_of([1.0, -3.0], [2.0], histogram=False), Method("minmax")) == 3.0


def test_average_is_that_of_the_samples_in_an_order_that_is_not_the_datas() -> None:
    samples = [[1.0, 0.5], [-3.0], np.zeros(0), [2.0]]
    averages = {
        threshold(stats_of(*order, histogram=False), Method("average", constant=0.1))
        for order in itertools.permutations(samples)
    }
    expected = [0.9 * (0.9 * a + 0.1 * b) + 0.1 * c for a, b, c in itertools.permutations([1.0, 3.0, 2.0])]
    (average,) = averages
    assert any(average == pytest.approx(one, rel=1e-15) for one in expected)
    assert threshold(stats_of(*samples, histogram=False), Method("average", constant=1.0)) in (1.0, 2.0, 3.0)


# -- percentile ------------------------------------------------------------------------------------


@pytest.mark.parametrize("percentile", [1e-3, 50, 99, 99.9, 99.99, 99.999, 100])
@pytest.mark.parametrize("kind", ["normal", "student", "relu", "integers"])
def test_percentile_is_the_order_statistic(kind: str, percentile: float) -> None:
    normal = RNG.standard_normal(30_000)
    made = {"student": RNG.standard_t(3, 30_000), "integers": np.round(100 * normal)}
    values = np.float32(made.get(kind, normal if kind == "normal" else np.maximum(normal, 0)))
    stats, exact = stats_of(values), order_statistic(values, percentile)
    found = threshold(stats, Method("percentile", percentile))
    assert exact <= found <= exact * (1 + 2**-10) if exact else found == stats.amax
    assert (percentile < 100) or found == stats.amax


def test_all_of_the_values_are_within_the_greatest_though_rows_were_sampled() -> None:
    stats = stats_of([1.0, 2.0, 9.0], counted=np.float32([1.0, 2.0]))
    assert threshold(stats, Method("percentile", 100)) == 9.0
    assert threshold(stats, Method("percentile", 99.99)) == 2.0 + 2**-9


@pytest.mark.parametrize(("percentile", "rank"), [(99.99, 9999), (99.9, 9990), (28, 2800), (99.9901, 10000)])
def test_the_rank_is_not_rounded_up_by_floats(percentile: float, rank: int) -> None:
    assert math.ceil(28 / 100 * 10_000) == 2801  # what floats make of it
    values = np.exp2(np.arange(10_000) / 100 - 50).astype(np.float32)  # a bin for each
    found = threshold(stats_of(RNG.permutation(values)), Method("percentile", percentile))
    assert values[rank - 1] <= found <= values[rank - 1] * (1 + 2**-10)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(2.0**-30, 2.0**30, width=32), min_size=1, max_size=60),
    st.integers(0, 60),
    st.floats(1e-6, 100),
)
def test_percentiles_of_anything(values: list[float], zeros: int, percentile: float) -> None:
    array = np.append(np.float32(values), np.zeros(zeros, np.float32))
    stats, exact = stats_of(array), order_statistic(array, percentile)
    found = threshold(stats, Method("percentile", percentile))
    assert exact <= found <= min(exact * (1 + 2**-10), stats.amax) if exact else found == stats.amax


# -- the user's parameters -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "constants"),
    [(1, [0.5]), (2, [0.5]), (16, [0.1, 0.5]), (40, [0.05, 0.1, 0.5]), (100, [0.01, 0.05, 0.1, 0.5])],
)
def test_auto_tries_averages_over_no_more_samples_than_there_are(
    samples: int, constants: list[float]
) -> None:
    tried = [one for one in automatic([INT8], samples) if one.name == "average"]
    assert [one.constant for one in tried] == constants


def test_methods_are_data() -> None:
    methods = [Method("percentile", 99.999), Method("average", constant=0.05), *map(Method, NAMES)]
    assert [str(method) for method in methods] == [
        "percentile 99.999",
        "average 0.05",
        "minmax",
        "average 0.01",
        "percentile 99.99",
        "entropy",
        "mse",
    ]
    assert [Method(**json.loads(json.dumps(asdict(method)))) for method in methods] == methods
    assert [needs_histogram(Method(name)) for name in NAMES] == [False, False, True, True, True]
    assert str(Method("percentile", 99.999999)) == "percentile 99.999999"


@pytest.mark.parametrize("name", ["percentile", "entropy", "mse"])
def test_a_missing_histogram_says_how_to_get_one(name: str) -> None:
    with pytest.raises(UserError, match=f"method {name} needs histograms") as caught:
        threshold(stats_of([1.0], histogram=False), Method(name))
    assert "onnxq calibrate MODEL --calib DATA" in caught.value.hint


@pytest.mark.parametrize("value", [0, -1, 100.001, math.nan])
def test_a_percentile_out_of_range(value: float) -> None:
    with pytest.raises(UserError, match="not above 0 and at most 100"):
        Method("percentile", value)


@pytest.mark.parametrize("value", [0, -0.1, 1.001, math.nan])
def test_a_constant_out_of_range(value: float) -> None:
    with pytest.raises(UserError, match=r"not above 0 and at most 1$"):
        Method("average", constant=value)


def test_an_unknown_method() -> None:
    with pytest.raises(UserError, match="no calibration method 'entrophy'") as caught:
        Method("entrophy")
    assert "'entropy'" in caught.value.hint
