"""TensorRT's entropy calibration against its definition, candidate by candidate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from onnxq.calib.histogram import HistogramCounter
from onnxq.quant.entropy import divergences, entropy_threshold, linear_bins

N = 50_000


def divergence(bins: np.ndarray, i: int) -> float:
    """The definition: clip to the first i bins, quantize to 128, expand, compare."""
    reference = bins[:i].copy()
    filled = reference > 0
    chunk = np.arange(i) * 128 // i
    mass = np.bincount(chunk, reference, 128)
    count = np.bincount(chunk, filled, 128)
    candidate = np.where(filled, (mass / np.maximum(count, 1))[chunk], 0.0)
    reference[-1] += bins[i:].sum()
    p = reference / reference.sum()
    q = candidate / max(candidate.sum(), 1e-300)
    held = p > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(p[held] * np.log(p[held] / q[held])))


def reference(bins: np.ndarray) -> np.ndarray:
    bins = bins.astype(np.float64)
    bins[0] = bins[1]
    return np.array([divergence(bins, i) for i in range(128, 2049)])


def magnitudes(kind: str) -> np.ndarray:
    rng = np.random.default_rng(len(kind))
    normal = rng.standard_normal(N)
    values = {
        "normal": normal,
        "relu": np.maximum(normal, 0),
        "laplace": rng.laplace(size=N),
        "student": rng.standard_t(3, N),
        "bimodal": np.where(rng.random(N) < 0.01, 30 + normal, normal),
        "sparse": rng.choice([0.0, 0.1, 0.11, 0.3, 0.7, 0.95, 1.0], N),
        "single": np.full(N, 0.7),
        "integers": np.round(normal * 20),
        "outlier": np.append(normal, 1000),
    }
    return np.abs(values[kind]).astype(np.float32)


def histogram_of(values: np.ndarray) -> tuple:
    counter = HistogramCounter()
    counter.add(values)
    return counter.histogram(), float(np.abs(values).max())


KINDS = ["normal", "relu", "laplace", "student", "bimodal", "sparse", "single", "integers", "outlier"]


def assert_equal_to_reference(bins: np.ndarray) -> np.ndarray:
    expected, found = reference(bins), divergences(bins)
    infinite = np.isinf(expected)
    assert np.array_equal(np.isinf(found), infinite)
    assert np.abs(found[~infinite] - expected[~infinite]).max() <= 1e-9
    return expected


@pytest.mark.parametrize("kind", KINDS)
def test_divergences_are_those_of_the_definition(kind: str) -> None:
    histogram, amax = histogram_of(magnitudes(kind))
    expected = assert_equal_to_reference(linear_bins(histogram, amax))
    best = 128 + int(np.flatnonzero(expected <= expected.min() + 1e-12)[-1])
    assert entropy_threshold(histogram, amax) == best * (amax / 2048)


def test_candidates_whose_last_bin_is_empty_are_excluded() -> None:
    bins = np.zeros(2048)
    bins[[1, 200, 2047]] = 5, 3, 1
    found = divergences(bins)
    assert set(128 + np.flatnonzero(np.isfinite(found))) == {201, 2048}


def test_the_range_is_clipped_where_that_loses_least() -> None:
    found = {kind: entropy_threshold(*histogram_of(magnitudes(kind))) for kind in KINDS}
    amax = {kind: float(magnitudes(kind).max()) for kind in KINDS}
    assert found["outlier"] == amax["outlier"]
    assert found["student"] < amax["student"] / 2
    assert found["bimodal"] > 0.9 * amax["bimodal"]


def test_bins_are_those_of_numpy_up_to_the_resolution_of_the_histogram() -> None:
    values = magnitudes("normal")
    values[:1000] = 0
    histogram, amax = histogram_of(values)
    bins = linear_bins(histogram, amax)
    assert bins.sum() == pytest.approx(N, rel=1e-12)
    found, expected = np.cumsum(bins), np.cumsum(np.histogram(values, 2048, (0, amax))[0])
    assert found[0] == pytest.approx(expected[0], abs=10)
    # no value is further from its place than a bin of the histogram is wide, 2 of the linear ones at most
    assert (found[:-2] <= expected[2:]).all()
    assert (found[2:] >= expected[:-2]).all()


def test_values_on_edges_are_in_the_bin_above_and_the_greatest_in_the_last() -> None:
    values = np.float32([0, 0, 0, 256, 257, 1500, 2048, 2048])
    histogram, amax = histogram_of(values)
    bins = linear_bins(histogram, amax)
    assert {int(i): bins[i] for i in np.flatnonzero(bins)} == pytest.approx(
        {0: 3, 256: 1, 257: 1, 1500: 1, 2047: 2}, abs=1e-9
    )


def test_nothing_beyond_the_first_bin_leaves_the_greatest_value() -> None:
    histogram, _ = histogram_of(np.float32([0.1, 0.2, 0.3]))
    assert entropy_threshold(histogram, 1e4) == 1e4


COUNTS = npst.arrays(np.float64, 2048, elements=st.integers(0, 1000), fill=st.just(0.0))


@settings(max_examples=8, deadline=None)
@given(COUNTS, st.sampled_from([1.0, 1e-3, 1e9]), st.integers(1, 2047))
def test_divergences_of_any_counts(bins: np.ndarray, scale: float, place: int) -> None:
    bins[place] += 1
    bins[: place // 2] *= scale  # large beside small
    assert_equal_to_reference(bins)
