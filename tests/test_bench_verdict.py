"""The benchmark of the verdict: what is fitted, and that a network does not judge itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import verdict
from benchmarks.published.pairs import PAIRS
from benchmarks.verdict import Engines, Row, errors, fitted, judged, one_ratio, rms, summary
from onnxq.compiled.gpus import gpus
from onnxq.compiled.roofline import Constants, KernelWork

TRUE = Constants(start_us=5.0, memory=verdict.MEMORY, cache=4.0, fp16=0.4, int8=0.3)


def made(net: str, seed: int, gain: float | None = None) -> Engines:
    """Engines of random kernels; their gain is that of `TRUE`, where none is given."""
    random = np.random.default_rng(seed)
    count = int(random.integers(5, 60))
    half = np.array([random.uniform(1e5, 1e7, count), random.uniform(0, 1e6, count),
                     random.uniform(1e6, 1e9, count), np.zeros(count), np.ones(count)])  # fmt: skip
    codes = half * np.array([[0.5], [0.5], [1], [0], [1]]) + np.array([[0], [0], [0], [1], [0]])
    one = Engines(replace(PAIRS[0], net=net, compiler="10.0"), gpus()[seed % len(gpus())], half, codes)
    known = one.ratio(TRUE) if gain is None else gain
    return replace(one, pair=replace(one.pair, id=f"{net}-{seed}", fp16=known, int8=1.0, unit="ms"))


def test_the_arrays_take_what_the_model_says() -> None:
    works = [KernelWork(1e6, 2e5, 10**8, "int8", 1), KernelWork(2e6, 0.0, 10**9, "fp16", 1)]
    one = replace(made("a", 0), fp16=verdict._array(works))
    expected = sum(work.seconds(one.gpu, TRUE) for work in works)
    assert one.seconds(one.fp16, TRUE) == pytest.approx(expected, rel=1e-12)


def test_what_the_model_made_is_fitted() -> None:
    found = [made(f"net{seed % 6}", seed) for seed in range(12)]
    constants = fitted(found)
    assert np.abs(errors(found, constants)).max() < 0.05
    assert rms(found, [one.ratio(constants) for one in found]) < 0.05


def test_a_network_is_judged_without_itself() -> None:
    others = [made(f"net{seed}", seed) for seed in range(4)]
    honest, lying = made("own", 9), made("own", 9, gain=0.2)
    rows = [judged([*others, one])[-1] for one in (honest, lying)]
    assert rows[0].ratio == rows[1].ratio  # what it says of itself changes nothing
    assert rows[0].constant == rows[1].constant == pytest.approx(one_ratio(others))
    assert "1 of 1 slower ones said to be faster" in summary([Row(lying, 1.5, 1.2)])
    assert "0 of 0 slower ones" in summary([Row(honest, 1.0, 1.2)])
    assert f"error of the logarithm {np.log(1.5 / 0.2):.3f}, of one ratio for all {np.log(6):.3f}" in summary(
        [Row(lying, 1.5, 1.2)]
    )


def test_pairs_of_old_kernels_are_listed_and_not_fitted() -> None:
    old = made("own", 3, gain=0.2)
    old = replace(old, pair=replace(old.pair, compiler="7.2.3.4"))
    others = [made(f"net{seed}", seed) for seed in range(3)]
    assert not old.counts
    assert all(one.counts for one in others)
    with_old, without = judged([*others, old]), judged(others)
    assert [row.ratio for row in with_old[:-1]] == [row.ratio for row in without]
