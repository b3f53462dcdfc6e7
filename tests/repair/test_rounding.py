"""GPTQ: the codes, by the algorithm as published, and what they gain."""

from __future__ import annotations

import numpy as np
import pytest

from onnxq.repair.moments import RowMoments
from onnxq.repair.rounding import DAMPING, rounded, second_moment
from onnxq.repair.threads import Threads


def correlated(rows: int, terms: int, seed: int = 0) -> np.ndarray:
    """Codes of inputs of which few are independent."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((rows, max(2, terms // 4))) @ rng.standard_normal((max(2, terms // 4), terms))
    noisy = mixed + 0.3 * rng.standard_normal(mixed.shape)
    found: np.ndarray = np.clip(np.rint(noisy * rng.uniform(2, 30, terms)), -127, 127).astype(np.int8)
    return found


def error(weights: np.ndarray, codes: np.ndarray, second: np.ndarray) -> float:
    off = weights - codes
    return float(np.einsum("ok,kl,ol->", off, second, off))


def as_published(weights: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Column by column, with the Cholesky factor of the inverse (arXiv 2210.17323, algorithm 1)."""
    order = np.argsort(-np.diagonal(second), kind="stable")
    damped = second[np.ix_(order, order)] + np.eye(len(order)) * DAMPING * np.diagonal(second).mean()
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, codes = weights[:, order].copy(), np.zeros(weights.shape)
    for k in range(len(order)):
        codes[:, k] = np.clip(np.rint(left[:, k]), -127, 127)
        off = (left[:, k] - codes[:, k]) / upper[k, k]
        left[:, k:] -= np.outer(off, upper[k, k:])
    back = np.empty_like(codes)
    back[:, order] = codes
    return back


@pytest.mark.parametrize(("outputs", "terms"), [(5, 9), (40, 70), (200, 150)])
def test_codes_are_those_of_the_algorithm(outputs: int, terms: int) -> None:
    rng = np.random.default_rng(1)
    second = RowMoments.of(correlated(2000, terms), Threads(1)).second(centred=True)
    weights = rng.uniform(-127, 127, (outputs, terms))
    codes = rounded(weights, second)
    assert codes.dtype == np.int8
    exact = as_published(weights, second)
    assert np.mean(codes != exact) < 1e-4  # ties
    for block in (1, 7, 1000):
        assert np.mean(rounded(weights, second, block=block) != codes) < 1e-4
    nearest = np.clip(np.rint(weights), -127, 127)
    assert error(weights, codes, second) < 0.6 * error(weights, nearest, second)


@pytest.mark.parametrize("rows", [20, 100, 400, 5000])
def test_few_rows_do_no_harm(rows: int) -> None:
    """Inputs that all vary: what few rows have in common is chance."""
    rng = np.random.default_rng(5)
    mixing = rng.standard_normal((120, 120)) * np.exp(-np.arange(120) / 40)[:, None]

    def taken(count: int) -> np.ndarray:
        found = np.maximum(rng.standard_normal((count, 120)) @ mixing, 0)
        return np.clip(np.rint(8 * found), 0, 127).astype(np.int8)

    weights = rng.standard_normal((64, 120)) * 30
    weights = np.clip(weights, -127, 127)
    apart = second_moment(RowMoments.of(taken(20000), Threads(1)), centred=True)
    codes = rounded(weights, second_moment(RowMoments.of(taken(rows), Threads(1)), centred=True))
    gain = 10 * np.log10(error(weights, np.rint(weights), apart) / error(weights, codes, apart))
    assert gain > (1.5 if rows == 5000 else 0.1)


def test_codes_stay_in_range() -> None:
    rng = np.random.default_rng(2)
    weights = rng.choice([-127.0, 127.0, 126.6, -126.6], (30, 40))
    codes = rounded(weights, RowMoments.of(correlated(500, 40), Threads(1)).second(centred=False))
    assert codes.min() == -127
    assert codes.max() == 127


def test_inputs_that_are_always_zero() -> None:
    rng = np.random.default_rng(3)
    rows = correlated(300, 20)
    rows[:, ::2] = 0
    weights = rng.uniform(-127, 127, (8, 20))
    codes = rounded(weights, RowMoments.of(rows, Threads(1)).products)
    np.testing.assert_array_equal(codes[:, ::2], np.rint(weights[:, ::2]))
    np.testing.assert_array_equal(rounded(weights, np.zeros((20, 20))), np.rint(weights))


@pytest.mark.parametrize("count", [1, 1039, 1040, 1041, 5000])
def test_moments_are_exact(count: int) -> None:
    """Also where all products have the greatest magnitude, and whoever adds them up."""
    rng = np.random.default_rng(4)
    rows = rng.choice(np.array([-127, 127, 127], np.int8), (count, 33))
    wide = rows.astype(np.int64)
    threads = Threads(2)
    for one in (Threads(1), threads):
        found = RowMoments.of(rows, one)
        np.testing.assert_array_equal(found.sums, wide.sum(0))
        np.testing.assert_array_equal(found.products, wide.T @ wide)
        np.testing.assert_array_equal((found + found).second(centred=False), wide.T @ wide / count)
    threads.close()
