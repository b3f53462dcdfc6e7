"""Which rows are counted in which sample: each of them equally often, as far as the samples go."""

from __future__ import annotations

from collections import Counter

import pytest

from onnxq.calib.probes import Rows

STEPS = [1 << power for power in range(1, 13)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("since", [0, 1, 1000, 123_456_789])
def test_each_row_equally_often(step: int, since: int) -> None:
    for laps, least, most in ((1, 0, 2), (8, 6, 10)):
        found = Counter(Rows.start(step, index) for index in range(since, since + laps * step))
        assert set(found) <= set(range(step))
        times = [found[row] for row in range(step)]
        assert least <= min(times)
        assert max(times) <= most


@pytest.mark.parametrize("step", [64, 1024])
@pytest.mark.parametrize("count", [8, 16, 32])
def test_few_samples_are_spread_over_the_rows(step: int, count: int) -> None:
    """No two of consecutive samples begin near each other, and no part of the rows is left out."""
    starts = sorted(Rows.start(step, index) for index in range(100, 100 + count))
    gaps = [b - a for a, b in zip(starts, [*starts[1:], starts[0] + step], strict=True)]
    assert min(gaps) >= step / count / 2.7 - 1
    assert max(gaps) <= step / count * 2 + 1
