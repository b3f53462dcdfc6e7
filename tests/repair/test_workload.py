"""Repair costs no more than all before it, or fewer samples fit and judge."""

from __future__ import annotations

import pytest

from onnxq.repair.workload import EDITED, LEAST_FITTING, LEAST_JUDGING, Workload, beside_runs, workload_of

STEPS = ("bias", "shift", "gptq")


def test_what_is_asked_for_is_done_on_all_samples() -> None:
    assert workload_of(STEPS, 64, 128, None) == Workload(64, 128)
    assert workload_of(STEPS, 64, 128, None, apart=True) == Workload(64, 128, wide=True)


def test_more_samples_judge_where_runs_are_left_for_all_that_gains_most() -> None:
    steps = (*STEPS, "residual", "split", "smooth", "thresholds")
    wide = Workload(64, 32, wide=True)
    least = wide.first + wide.reserved(steps)  # in front of all, in float, three fits, and two searches
    assert least == 224 + 64 + (3 * 160 + EDITED) + (60 + 96) + (60 + 160 + EDITED)
    assert workload_of(steps, 64, 32, least, apart=True).wide
    assert not workload_of(steps, 64, 32, least - 1, apart=True).wide
    assert not workload_of(steps, 64, 32, least).wide  # those that fit are those that judge


@pytest.mark.parametrize("most", [10_000, 500, 300, 200, 120])
def test_samples_become_fewer_until_it_fits(most: float) -> None:
    found = workload_of(STEPS, 64, 128, most)
    assert found.first + found.reserved(STEPS) <= most
    assert found.fitting >= LEAST_FITTING
    assert found.judging >= LEAST_JUDGING


def test_a_search_costs_no_more_samples_than_there_are_enough_of() -> None:
    with_split = ("bias", "shift", "gptq", "split")
    assert workload_of(with_split, 64, 16, 620).fitting >= 48
    assert workload_of(with_split, 64, 16, 450).fitting >= 40


def test_never_fewer_than_tell_something() -> None:
    found = workload_of(STEPS, 64, 128, 1)
    assert (found.fitting, found.judging) == (LEAST_FITTING, 2 * LEAST_JUDGING)


def test_few_samples_stay_as_few() -> None:
    assert workload_of(STEPS, 10, 5, 10_000) == Workload(10, 5, 10_000)


def test_a_fit_runs_what_fits_and_what_judges() -> None:
    work = Workload(10, 3)
    assert (work.cost("bias"), work.cost("scale"), work.cost("smooth", 3)) == (23, 11, 33)
    assert work.reserved(("smooth", "bias", "gptq")) == 10 + 2 * 23
    assert work.reserved(("smooth",)) == 0


def test_what_is_done_once_counts_as_the_runs_that_take_as_long() -> None:
    assert beside_runs([]) == 0.0
    assert beside_runs([1_000_000, None]) == 0.0  # a size is not known
    small, large = beside_runs([10_000_000] * 4), beside_runs([1_000_000_000] * 4)
    assert small > 100 * 0.9 * large > 0
    assert large == pytest.approx(40e9 / 4.004e9)
