"""Weights that are refitted to quantized inputs: by which change, and what it gains on fresh rows."""

from __future__ import annotations

import numpy as np
import pytest

from onnxq.repair.fit import PENALTIES, refit
from onnxq.repair.moments import RowMoments
from onnxq.repair.threads import Threads

TERMS, OUTPUTS = 24, 7


def inputs(rows: int, seed: int, clipped: float) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of which few are independent, in steps, and their codes, which go to `clipped` at most."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((rows, TERMS // 3)) @ np.random.default_rng(0).standard_normal(
        (TERMS // 3, TERMS)
    )
    exact = 20 * mixed + 5 * rng.standard_normal((rows, TERMS))
    return exact, np.clip(np.rint(exact), -clipped, clipped)


def halves(weights: np.ndarray, exact: np.ndarray, codes: np.ndarray) -> list[RowMoments]:
    missing = ((exact - codes) @ weights.T).astype(np.float32)
    middle = len(codes) // 2
    return [
        RowMoments.of(codes[part].astype(np.float32), Threads(1), missing[part])
        for part in (slice(middle), slice(middle, None))
    ]


def error(weights: np.ndarray, change: np.ndarray, exact: np.ndarray, codes: np.ndarray) -> float:
    """Without the mean, which a bias takes."""
    off = exact @ weights.T - codes @ (weights + change).T
    return float(np.square(off - off.mean(axis=0)).sum())


def test_it_wins_back_what_clipping_takes_on_fresh_rows() -> None:
    weights = np.random.default_rng(1).standard_normal((OUTPUTS, TERMS))
    exact, codes = inputs(4000, 2, clipped=60)
    change = refit(halves(weights, exact, codes), np.ones(OUTPUTS))
    fresh = inputs(4000, 3, clipped=60)
    gain = error(weights, np.zeros_like(weights), *fresh) / error(weights, change, *fresh)
    assert 10 * np.log10(gain) > 1.5


@pytest.mark.parametrize("rows", [20, 60, 400])
def test_few_rows_do_no_harm(rows: int) -> None:
    """What is missing has nothing to do with the codes: all that is found is chance."""
    weights = np.random.default_rng(1).standard_normal((OUTPUTS, TERMS))
    fresh = inputs(4000, 3, clipped=1e9)
    losses = []
    for seed in range(10):
        change = refit(halves(weights, *inputs(rows, seed, clipped=1e9)), np.ones(OUTPUTS))
        losses.append(error(weights, change, *fresh) / error(weights, np.zeros_like(weights), *fresh))
    assert 10 * np.log10(np.mean(losses)) < 0.25


def test_it_is_ridge_regression_about_the_means() -> None:
    weights = np.random.default_rng(1).standard_normal((OUTPUTS, TERMS))
    exact, codes = inputs(900, 4, clipped=50)
    change = refit(halves(weights, exact, codes), np.ones(OUTPUTS))
    x, r = codes - codes.mean(axis=0), (exact - codes) @ weights.T
    r -= r.mean(axis=0)
    found = []
    for penalty in PENALTIES:
        added = penalty * np.square(x).sum() / TERMS
        stacked = np.concatenate([x, np.sqrt(added) * np.eye(TERMS)])
        aims = np.concatenate([r, np.zeros((TERMS, OUTPUTS))])
        found.append(np.abs(np.linalg.lstsq(stacked, aims, rcond=None)[0].T - change).max())
    assert min(found) < 1e-5 * np.abs(change).max()


def test_what_counts_nothing_chooses_nothing() -> None:
    """An output that nothing is shown of is left alone where it alone counts."""
    weights = np.random.default_rng(1).standard_normal((OUTPUTS, TERMS))
    moments = halves(weights, *inputs(900, 4, clipped=50))
    assert not refit(moments, np.zeros(OUTPUTS)).any()
    assert refit(moments, np.eye(OUTPUTS)[0]).any()


def test_one_sample_and_what_is_not_finite_change_nothing() -> None:
    weights = np.random.default_rng(1).standard_normal((OUTPUTS, TERMS))
    exact, codes = inputs(900, 4, clipped=50)
    one, other = halves(weights, exact, codes)
    none = RowMoments.of(codes[:0].astype(np.float32), Threads(1), np.empty((0, OUTPUTS), np.float32))
    assert not refit([one, none], np.ones(OUTPUTS)).any()
    exact[0, 0] = np.inf
    assert not refit([*halves(weights, exact, codes)[:1], other], np.ones(OUTPUTS)).any()
    zero = np.zeros_like(codes)
    assert not refit(halves(weights, exact[:1] * 0 + np.zeros_like(zero), zero), np.ones(OUTPUTS)).any()


def test_some_of_many_outputs_choose_for_all() -> None:
    """Of outputs that repeat, what some choose is what all choose."""
    exact, codes = inputs(4000, 1, 60.0)
    weights = np.random.default_rng(2).standard_normal((OUTPUTS, TERMS))
    price = np.linspace(1.0, 2.0, OUTPUTS)
    few = refit(halves(weights, exact, codes), price)
    many = refit(halves(np.tile(weights, (50, 1)), exact, codes), np.tile(price, 50))
    assert few.any()
    np.testing.assert_allclose(many, np.tile(few, (50, 1)), rtol=1e-4, atol=1e-5 * np.abs(few).max())
