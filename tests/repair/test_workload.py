"""Repair costs no more than all before it, or fewer samples fit and judge."""

from __future__ import annotations

import pytest

from onnxq.repair.waves import Wave, Waves
from onnxq.repair.workload import Workload, beside_runs, workload_of

STEPS = ("bias", "shift", "gptq")


def test_what_is_asked_for_is_done_on_all_samples() -> None:
    waves = Waves.of(100, all_of_them=True)
    assert workload_of(STEPS, 100, waves, None) == Workload(100, 50, 50)


@pytest.mark.parametrize("before", [10_000, 400, 380, 1])
def test_fewer_samples_fit_until_it_fits(before: float) -> None:
    found = workload_of(STEPS, 100, Waves.of(100), before)
    assert found.most is not None
    assert found.fitting == 32 or found.first + found.reserved(STEPS) <= found.most == before
    assert (found.trial, found.judging) == (16, 16)
    assert (found.fitting == 100) is (before == 10_000)


def test_few_samples_stay_as_few() -> None:
    assert workload_of(STEPS, 14, Waves.of(14), 1).fitting == 14


def test_a_fit_runs_what_fits_and_what_judges() -> None:
    work = Workload(50, 10, 3)
    assert (work.cost("bias"), work.cost("scale"), work.cost("smooth", 3)) == (23, 11, 33)
    assert work.reserved(("smooth", "bias", "gptq")) == 100 + 23  # fitted together
    assert work.reserved(("scale", "bias", "gptq")) == 100 + 11 + 23
    assert work.reserved(("smooth",)) == 100
    assert work.reserved(("bias",), floats=True) == 10 + 50 + 100 + 23
    assert Workload(8, 8, 8).reserved(("split",)) == 16  # of few samples others come first


@pytest.mark.parametrize("count", [4, 7, 14, 56, 500])
@pytest.mark.parametrize("every", [False, True])
def test_no_sample_judges_what_it_fitted(count: int, every: bool) -> None:
    waves = Waves.of(count, all_of_them=every)
    judging = [place for wave in waves.waves for place in wave.places]
    assert len(judging) == len(set(judging)) == waves.judging(3)
    for wave in waves.waves:
        assert wave.places
        assert not set(wave.places) & set(waves.folds[wave.fold])
        assert list(wave.places) == sorted(wave.places)
    if every or count <= 32:
        assert set(judging) == set(range(count))  # all of them judge


def test_of_next_to_none_all_do_both() -> None:
    assert Waves.of(3) == Waves(((0, 1, 2),), (Wave(0, (0, 1, 2)),))


def test_what_is_done_once_counts_as_the_runs_that_take_as_long() -> None:
    assert beside_runs([]) == 0.0
    assert beside_runs([1_000_000, None]) == 0.0  # a size is not known
    small, large = beside_runs([10_000_000] * 4), beside_runs([1_000_000_000] * 4)
    assert small > 100 * 0.9 * large > 0
    assert large == pytest.approx(40e9 / 4.004e9)
