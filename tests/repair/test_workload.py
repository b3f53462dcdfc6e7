"""What repair may take: what fits is tried whatever that is, what searches as long as runs are left."""

from __future__ import annotations

import pytest

from onnxq.options.step import steps
from onnxq.repair.waves import Wave, Waves
from onnxq.repair.workload import EDITED, Workload, beside_runs, workload_of


def test_what_is_asked_for_is_done_on_all_samples() -> None:
    waves = Waves.of(500, all_of_them=True)
    assert workload_of(500, waves, None) == Workload(500, 250, 250)


@pytest.mark.parametrize("before", [10_000, 380, 1, 0])
@pytest.mark.parametrize(("count", "fitting"), [(14, 14), (100, 100), (128, 128), (500, 128)])
def test_as_many_samples_fit_however_little_there_is(before: float, count: int, fitting: int) -> None:
    found = workload_of(count, Waves.of(count), before)
    assert found == Workload(fitting, min(16, count // 2), min(16, count // 2), before)


def test_a_fit_runs_what_fits_and_what_judges() -> None:
    work = Workload(50, 10, 3)
    assert (work.cost("bias"), work.cost("scale"), work.cost("smooth", 3)) == (23, 11, 33)
    assert work.cost("split") == 60 + 3 + EDITED + 20  # behind what fits each candidate is fitted anew
    assert work.fit_of(7) == 14


@pytest.mark.parametrize("fitting", [0, 8, 47, 48, 500])
@pytest.mark.parametrize("most", [None, 0.0])
def test_what_is_sure_to_be_tried(fitting: int, most: float | None) -> None:
    """Fits, and what looking finds; of many samples what these tell. No search is, however much there is."""
    work = Workload(fitting, 8, 8, most)
    many = {"residual", "split"} if fitting >= 48 else set()
    sure = {name for name, one in steps().items() if one.ours and work.is_sure(name)}
    assert sure == {"lattice", "scale", "bias", "shift", "gptq"} | many


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
