"""The error of quantization, and the threshold of the least, against the raw values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxq.calib.histogram import Histogram, HistogramCounter
from onnxq.quant.mse import mse_threshold, noise, sqnr_at

N = 20_000


def histogram_of(values: np.ndarray) -> Histogram:
    counter = HistogramCounter()
    counter.add(values)
    return counter.histogram()


def error(values: np.ndarray, threshold: float) -> float:
    """The mean squared error of float64 values at a threshold, by its definition."""
    scale = threshold / 127
    quantized = np.minimum(np.rint(values / scale), 127)
    quantized *= scale
    quantized -= values
    np.square(quantized, out=quantized)
    return float(quantized.mean())


def brute_force(values: np.ndarray) -> float:
    """The least error of 4,000 thresholds: over 12 octaves, and close together around the best."""
    wide = values.max() * np.exp2(-np.linspace(0, 12, 1000))
    best = wide[np.argmin([error(values, threshold) for threshold in wide])]
    close = np.minimum(best * np.linspace(0.97, 1.03, 3000), values.max())
    return min(error(values, threshold) for threshold in close)


def magnitudes(kind: str) -> np.ndarray:
    rng = np.random.default_rng(len(kind))
    normal = rng.standard_normal(N)
    values = {
        "normal": normal,
        "relu": np.maximum(normal, 0),
        "relu6": np.clip(4 * normal, 0, 6),
        "laplace": rng.laplace(size=N),
        "student 3": rng.standard_t(3, N),
        "student 5": rng.standard_t(5, N),
        "uniform": rng.uniform(-1, 1, N),
        "bimodal": np.where(rng.random(N) < 0.002, 40 + normal, normal),
        "outlier of 1000": np.append(normal, 1000),
        "tiny": normal * 1e-20,
        "large": normal * 1e20,
    }
    return np.abs(values[kind]).astype(np.float32)


KINDS = ["normal", "relu", "relu6", "laplace", "student 3", "student 5", "uniform", "bimodal"]


@pytest.mark.parametrize("kind", [*KINDS, "outlier of 1000", "tiny", "large"])
def test_the_threshold_is_as_good_as_brute_force_on_the_values(kind: str) -> None:
    values = magnitudes(kind)
    amax = float(values.max())
    found = mse_threshold(histogram_of(values), amax)
    assert 0 < found <= amax
    raw = values.astype(np.float64)
    assert error(raw, found) <= 1.001 * brute_force(raw)


def test_a_bulk_far_below_a_lone_value_is_found() -> None:
    few = histogram_of(magnitudes("normal"))
    # of 400 million values: to clip one of 10,000 costs less than to lose the others
    many = Histogram(few.zeros, few.first, few.counts * 20_000).merge(histogram_of(np.float32([1e4])))
    found = mse_threshold(many, 1e4)
    assert found < 1e4 / 2**10
    assert noise(many, found) <= 1.0001 * min(noise(many, t) for t in np.geomspace(1, 1e4, 200))


def test_the_search_goes_on_while_clipping_costs_less_than_the_rest() -> None:
    # 1.2 is lost at 1000 and kept at 177: clipping costs 0.68 of 1000^2, a little less than the loss
    many = histogram_of(np.float32([1.2]))
    both = Histogram(0, many.first, many.counts * 530_000).merge(histogram_of(np.float32([1000])))
    found = mse_threshold(both, 1000.0)
    assert found < 200
    assert noise(both, found) <= 1.0001 * min(noise(both, t) for t in np.geomspace(1, 1e3, 200))


def test_the_range_is_never_widened() -> None:
    values = np.float32([127] + [63.4] * 1000)  # 63.4 is a code at 127.8
    assert mse_threshold(histogram_of(values), 127.0) <= 127.0


@pytest.mark.parametrize("value", [1.0, 1.0009, 0.3, 6.0, 1e-20])
def test_a_constant_keeps_its_value(value: float) -> None:
    constant = np.full(100, value, np.float32)
    amax = float(constant.max())
    assert mse_threshold(histogram_of(constant), amax) == amax


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(2.0**-20, 2.0**20, width=32), min_size=1, max_size=50),
    st.integers(0, 100),
    st.floats(2.0**-20, 2.0**21),
)
def test_noise_is_that_of_the_centers_of_bins(values: list[float], zeros: int, threshold: float) -> None:
    histogram = histogram_of(np.append(np.float32(values), np.zeros(zeros, np.float32)))
    raw = np.append(np.repeat(histogram.centers, histogram.counts), np.zeros(zeros))
    power = float(raw @ raw) / len(raw)
    expected = error(raw, threshold)
    assert noise(histogram, threshold) == pytest.approx(expected, rel=1e-9, abs=1e-12 * power)
    if expected > 1e-9 * power:
        expected_db = 10 * math.log10(power / expected)
        assert sqnr_at(histogram, threshold) == pytest.approx(expected_db, abs=1e-2)


def test_noise_of_a_uniform_step_is_a_twelfth() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 200_000).astype(np.float32)
    # the known result: s^2 / 12 where nothing is clipped
    assert noise(histogram_of(values), 1.0) == pytest.approx((1 / 127) ** 2 / 12, rel=1e-2)
    assert sqnr_at(histogram_of(values), 1.0) == pytest.approx(10 * math.log10(4 * 127**2), abs=0.1)


def test_zeros_have_no_error() -> None:
    assert noise(Histogram(zeros=10), 1.0) == 0.0
    assert sqnr_at(Histogram(zeros=10), 1.0) == math.inf
    assert noise(Histogram(), 1.0) == 0.0
